"""Every command fits the terminal: no line is wider than it, at 80 and at 60 columns, and as COLUMNS says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.output import width
from tests.cli_runner import SAMPLE, on_terminal

STYLE = re.compile(r"\x1b\[[0-9;]*m")
DIGEST_CHARS = 64
RUN = "lights-08"
WHOLE_RUN = "whole-run"
"""In a line, stands for the whole id of the run, which commands that record ask for; it holds a digest of settings."""
LINES = (
    "log B --tail 30",
    f"show B {RUN}",
    "show B 705f7a1728b4",
    "show B 301",
    "runs B",
    "items B",
    "search B lighthouse",
    "diff B@100 B",
    "replay B",
    "project B --list",
    "verify B --retrievals",
    "schema",
    "ontology lights",
    "context B --ont lights --task lighthouse",
    "tools --ont lights",
    f"judge run B {WHOLE_RUN} --judge checks --dry-run",
    f"rerun B {RUN}",
    f"show B {RUN} --tree",
    f"impact B {RUN}",
    f"whatif B --without {RUN}",
    f"bisect B@200 --bad {RUN} --good lights-05",
    "review B --verdicts 3",
    "health B --points 3",
    "import ./c items.json --create",
    "doctor",
)


def whole_run() -> str:
    with Bank.open(SAMPLE) as bank:
        return next(event.run for event in bank.log.read(types={"run_started"}) if (event.run or "").startswith(RUN))


def too_wide(printed: str, columns: int) -> list[str]:
    """Lines wider than the terminal, except those with a digest, and command lines that are to be copied."""
    lines = STYLE.sub("", printed.replace("\x1b[2K", "")).replace("\r", "\n").split("\n")
    wide = [line for line in lines if width(line) > columns]
    breakable = [line for line in wide if max(map(len, line.split())) < DIGEST_CHARS]
    return [line for line in breakable if not line.startswith(("$ ", "  rbank-es", "  python -m rbank_es"))]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.slow
def test_every_command_fits_the_terminal(line: str, columns: int, tmp_path: Path) -> None:
    (tmp_path / "items.json").write_text('[{"title": "a title of some words", "content": "and its content"}]')
    words = [str(SAMPLE) + word[1:] if word.partition("@")[0] == "B" else word for word in line.split(" ")]
    words = [whole_run() if word == WHOLE_RUN else word for word in words]
    printed = on_terminal(*words, cwd=tmp_path, columns=columns).out
    assert printed and not too_wide(printed, columns)
