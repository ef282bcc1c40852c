"""Without the extras, a command says what to install, and does what it can; nothing is called a defect."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunStarted
from rbank_es.system.extras import EXTRAS, PURPOSES
from tests.cli_runner import ROOT, SAMPLE, run

HIDDEN = {"PYTHONPATH": f"{ROOT / 'tests' / 'cli' / 'without_extras'}:{ROOT}"}
with Bank.open(SAMPLE) as _sample:
    RUN = next(event.run for event in _sample.events(types={"run_started"}) if isinstance(event, RunStarted))


@pytest.mark.parametrize(
    "line",
    [
        ["run", "./b", "--ont", "lights", "--task", "x", "--lm", "openai/x"],
        ["run", "./b", "--ont", "lights", "--task", "x", "--lm", "openai/x", "--executor", "react", "--json"],
        ["run", "./b", "--ont", "lights", "--task", "x", "--dry-run"],
        ["run", "./b", "--test", "--lm", "anthropic/x"],
        ["guide", "./b", "--ont", "lights", "--lm", "openai/x"],
        ["judge", "run", SAMPLE, RUN, "--judge", "lm", "--lm", "anthropic/x", "--dry-run"],
        ["rerun", SAMPLE, RUN, "--live-sandbox"],
        ["doctor"],
    ],
    ids=lambda line: " ".join(map(str, line[:1] + line[-2:])),
)
@pytest.mark.slow
def test_what_needs_the_agents_extra_says_so(line: list[str | Path], tmp_path: Path) -> None:
    shown = run(*line, cwd=tmp_path, env=HIDDEN | {"HOME": str(tmp_path)}, code=None)
    said = shown.out + shown.err
    assert shown.code in (1, 2) and "pip install 'rbank-es[agent]'" in said and "defect" not in said
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        ["run", "./b", "--test"],
        ["judge", "run", SAMPLE, RUN, "--judge", "lm", "--dry-run"],
    ],
    ids=lambda line: str(line[0]),
)
def test_a_server_with_openais_protocol_needs_a_key_and_no_extra(line: list[str | Path], tmp_path: Path) -> None:
    shown = run(*line, "--lm", "openai/x", cwd=tmp_path, env=HIDDEN | {"OPENAI_API_KEY": ""}, code=None)
    said = shown.out + shown.err
    assert shown.code == 2 and "OPENAI_API_KEY" in said and "pip install" not in said and "defect" not in said


@pytest.mark.slow
def test_the_demo_names_the_extra_and_keeps_the_sample_without_any(tmp_path: Path) -> None:
    """Its page is there, too."""
    assert "pip install 'rbank-es[agent]'" in run("demo", cwd=tmp_path, env=HIDDEN, code=2).err
    kept = run("demo", "--sample", "./kept", cwd=tmp_path, env=HIDDEN)
    assert "kept ./kept: 609 events" in kept.out and "Open it in a browser" in kept.out
    assert "leave one out" in run("demo", "--sample", "./a", "--into", "./b", cwd=tmp_path, env=HIDDEN, code=2).err


def test_the_table_of_extras_is_that_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = packages_distributions()
    for package, extra in EXTRAS.items():
        names = tuple(re.split(r"[\[<>=]", requirement)[0] for requirement in extras[extra])
        assert any(name.startswith(names) for name in installed[package]), package


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "extra"),
    [("agents_sdk", "openai-agents"), ("langchain_middleware", "langchain"), ("dspy_program", "agent")],
)
def test_a_recorder_whose_library_is_missing_names_its_extra(module: str, extra: str) -> None:
    hide = "import sys; sys.modules.update(dict.fromkeys(('agents', 'langchain', 'dspy')))"
    done = subprocess.run(
        [sys.executable, "-c", f"{hide}; import rbank_es.agents.{module}"], cwd=ROOT, capture_output=True, text=True
    )
    assert f"MissingExtra: {PURPOSES[extra]} needs an optional part" in done.stderr
    assert f"pip install 'rbank-es[{extra}]'" in done.stderr
