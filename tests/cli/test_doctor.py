"""`doctor`: whether the sandbox runs here, what to do if not, and how long things take."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rbank_es.cli import main
from rbank_es.sandbox import deno, sandbox_doctor
from tests import cli_runner
from tests.sandbox import sandboxes

pytestmark = pytest.mark.xdist_group("sandbox")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What `doctor --json` says where all is well."""
    env = {"RBANK_CACHE": str(sandboxes.runtime().cache.parent)}
    return cli_runner.run("doctor", "--json", cwd=tmp_path_factory.mktemp("doctor"), env=env).json


def doctor(capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """Run it in this process, so that a test can take things away; exit code and output."""
    code = main(["doctor", *options])
    out, err = capfd.readouterr()
    assert err == ""
    return code, out


def failure(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The one check that fails, which must be the last."""
    code, out = doctor(capfd, "--json")
    seen = json.loads(out)
    assert code == 1 and not seen["ok"]
    *before, last = seen["checks"]
    assert all(check["ok"] for check in before) and not last["ok"]
    assert isinstance(last, dict)
    return last


@pytest.mark.slow
def test_a_real_session_is_started_and_everything_tried(told: Any) -> None:
    assert told["ok"]
    names = ["dspy", "Deno", "cache", "digests", "session", "tools", "confinement"]
    assert [check["name"] for check in told["checks"]] == names
    assert all(check["ok"] and check["detail"] and not check["fix"] for check in told["checks"])
    assert "memory bounded to 512 MiB" in told["checks"][-1]["detail"]


def test_a_missing_dspy_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deno, "find_spec", lambda name: None)
    last = failure(capfd)
    assert last == {
        "name": "dspy",
        "ok": False,
        "detail": "dspy is not installed",
        "fix": "install it with: pip install 'rbank-es[agent]'",
    }


@pytest.mark.slow
def test_a_missing_deno_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sandboxes.runtime()
    find_spec = deno.find_spec
    monkeypatch.setattr(deno, "find_spec", lambda name: None if name == "deno" else find_spec(name))
    monkeypatch.setattr(deno.shutil, "which", lambda name: None)
    last = failure(capfd)
    assert (last["name"], last["detail"]) == ("Deno", "Deno is not installed") and "pip install" in last["fix"]


def test_an_empty_cache_is_told_and_not_filled_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sandboxes.runtime()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path))
    last = failure(capfd)
    assert last["name"] == "cache" and last["fix"] == "run once, with a network: rbank-es doctor --warm"
    assert not list(tmp_path.rglob("npm"))


def test_an_empty_cache_that_can_not_be_filled_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As without a network: the registry is a port at which nobody listens."""
    sandboxes.runtime()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path))
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9/")
    code, out = doctor(capfd, "--warm")
    assert code == 1
    assert "can't be filled" in out and "to fix: run once, with a network: rbank-es doctor --warm" in out
    assert out.endswith("the sandbox can't run here\n")


@pytest.mark.slow
def test_a_full_cache_is_warm_already_and_other_extras_decide_nothing(
    told: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [extra["name"] for extra in told["optional"]] == ["ontology", "lab", "vectors"]
    monkeypatch.setattr(sandbox_doctor, "find_spec", lambda name: None)
    code, out = doctor(capfd, "--warm")
    assert code == 0 and "filling the cache" in out and "an empty step" in out
    assert out.endswith("the sandbox can run here\n")
    assert re.search("^absent +lab +not installed", out, re.MULTILINE) and "pip install 'rbank-es[lab]'" in out


def test_a_dspy_that_is_broken_is_told_with_what_is_wrong(tmp_path: Path) -> None:
    """It is there, and what it stands on is not."""
    broken = tmp_path / "dspy"
    (broken / "primitives").mkdir(parents=True)
    (broken / "__init__.py").write_text("import a_package_that_is_not_there\n")
    done = cli_runner.run("doctor", "--json", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{cli_runner.ROOT}"}, code=1)
    last = done.json["checks"][-1]
    assert last["name"] == "dspy" and "No module named 'a_package_that_is_not_there'" in last["detail"]
    assert last["fix"] == "install it again: pip install --force-reinstall 'rbank-es[agent]'"


def test_a_cache_that_can_not_be_written_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sandboxes.runtime()
    (tmp_path / "file").touch()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "file" / "below"))
    last = failure(capfd)
    assert last["name"] == "cache" and last["detail"] == f"can't write to {tmp_path}/file/below"
    assert last["fix"] == "set RBANK_CACHE to a directory that can be written"


@pytest.mark.slow
def test_memory_that_nobody_bounds_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel may refuse the bound, in some containers: then nobody may read that there is one."""
    monkeypatch.setenv("RBANK_CACHE", str(sandboxes.runtime().cache.parent))
    monkeypatch.setattr("rbank_es.sandbox.session.confine", lambda pid, memory_bytes: False)
    seen = json.loads(doctor(capfd, "--json")[1])
    [confinement] = [check for check in seen["checks"] if check["name"] == "confinement"]
    assert "memory NOT bounded" in confinement["detail"]


def test_a_session_that_gives_wrong_results_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sandboxes.require_dspy()
    from rbank_es.sandbox.interpreter import Sandbox

    monkeypatch.setattr(Sandbox, "start", lambda self: None)
    monkeypatch.setattr(Sandbox, "execute", lambda self, code: "3")
    last = failure(capfd)
    assert last["name"] == "session" and last["detail"] == "ValueError: 1 + 1 gave '3'"
