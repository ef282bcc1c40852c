"""What a mutation run observes: which test reaches what, or nothing at all."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from types import CodeType, SimpleNamespace

import pytest

from tests.mutations import __main__ as mutations
from tests.mutations import reach


def test_a_thread_that_outlives_its_test_does_not_stop_the_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of a fixture still enters functions while what the test entered is written down."""
    more, entered, ended = threading.Event(), threading.Event(), threading.Event()

    def serve() -> None:
        more.wait(60)
        exec("(lambda: 1)()")  # noqa: S102 - code that nobody has entered
        entered.set()
        ended.wait(60)

    def path_of(_: CodeType) -> str:
        more.set()
        assert entered.wait(60)
        return "some.py"

    monkeypatch.setenv("REACH_FILE", str(tmp_path / "reach.jsonl"))
    monkeypatch.setattr(reach, "path_of", path_of)
    server = threading.Thread(target=serve)
    watching = reach.pytest_runtest_protocol(
        SimpleNamespace(parent=SimpleNamespace(nodeid="some.py"), name="test_it", stash=pytest.Stash())
    )
    next(watching)
    server.start()
    with pytest.raises(StopIteration):
        next(watching)
    ended.set()
    server.join(60)
    assert json.loads((tmp_path / "reach.jsonl").read_bytes())["test"] == "some.py::test_it"


def test_half_an_observation_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that stopped in the middle say of the rest that it reaches nothing."""

    def stopped(copy: Path, _: list[str], REACH_FILE: str) -> subprocess.CompletedProcess[str]:  # noqa: N803
        Path(REACH_FILE).write_text("{}\n")
        return subprocess.CompletedProcess([], pytest.ExitCode.INTERNAL_ERROR, "INTERNALERROR> why", "")

    monkeypatch.setattr(mutations, "run_tests", stopped)
    with pytest.raises(SystemExit, match="INTERNALERROR> why"):
        mutations.observe(tmp_path, tmp_path / "kept.jsonl", 1)
    assert not (tmp_path / "kept.jsonl").exists()
