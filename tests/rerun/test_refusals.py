"""Runs that can't be run again, and what is said of each."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.bank.run_end import close_run
from rbank_es.errors import CannotRerun, NotInBank, RBankError, SandboxUnavailable
from rbank_es.events import LmCalled, OntologyRegistered, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.exchange import import_paths
from rbank_es.exchange.exporters import export_files
from rbank_es.log.disk import System
from rbank_es.rerun.execution import rerun
from rbank_es.rerun.recorded_run import runs_of
from rbank_es.sandbox import deno
from tests.loop.loops import SCRIPT, TASKS
from tests.rerun.banks import Change, changing, leaving_out, retold, run_in, shipped
from tests.sandbox.sandboxes import require_dspy

require_dspy()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """One task, run, judged and learnt from."""
    with run_in(tmp_path_factory.mktemp("one"), SCRIPT, TASKS[:1]) as bank:
        yield bank


def refusal(bank: Bank, **options: Any) -> str:
    """Why the first run of a bank can't be run again."""
    with pytest.raises(CannotRerun) as refused:
        rerun(bank, runs_of(bank)[0], ontologies=shipped(), **options)
    assert refused.value.exit_code == 2
    return refused.value.reason


def test_a_run_that_is_not_there(one: Bank) -> None:
    with pytest.raises(NotInBank):
        rerun(one, "no-such-run")


def test_an_imported_run(tmp_path: Path) -> None:
    events = [
        RunStarted(run="r1", task="Which?"),
        LmCalled(run="r1", role="agent", model="gpt", tokens_in=3),
        StepTaken(run="r1", index=1, code="x", output="y"),
        RunFinished(run="r1", outcome="submitted", answer="z"),
    ]
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(events)
        assert "it was imported" in refusal(bank)


def test_a_run_that_was_exported_and_imported(one: Bank, tmp_path: Path) -> None:
    """It came along with its bank, which has its model's requests: that is said, and not what else is missing."""
    [(name, pieces)] = export_files(one, None, "trajectories")
    (tmp_path / name).write_bytes(b"".join(pieces))
    with Bank.create(tmp_path / "bank") as bank:
        import_paths(bank, [tmp_path / name])
        [started] = bank.events(types={"run_started"})
        assert isinstance(started, RunStarted) and started.settings is not None
        assert f"it ran in bank {one.id}" in refusal(bank)


@pytest.mark.parametrize("what", ["run", "text", "aftermath"])
def test_an_erased_run(one: Bank, tmp_path: Path, what: str) -> None:
    with retold(one, tmp_path / "retold", lambda event: event) as bank:
        run = runs_of(bank)[0]
        if what == "run":
            bank.erase(run=run)
        elif what == "text":
            bank.erase(text=TASKS[0].question)
        else:
            bank.erase(text="That is the height of the building.")
        assert "erased" in refusal(bank)


def test_texts_that_were_erased_elsewhere_are_a_note(one: Bank, tmp_path: Path) -> None:
    with retold(one, tmp_path / "retold", lambda event: event) as bank:
        bank.append(RunStarted(run="other", task="Where is the harbour master?"))
        bank.erase(run="other")
        came = rerun(bank, runs_of(bank)[0], ontologies=shipped())
    assert came.identical
    assert any("erased" in note for note in came.notes)


def test_an_erasure_elsewhere_hides_no_difference_of_what_the_ontology_says(one: Bank, tmp_path: Path) -> None:
    """Only what was read of the bank can be missing texts; a query that is answered otherwise is a difference."""
    with retold(one, tmp_path / "retold", changing(ToolCalled, chars=1)) as bank:
        bank.append(RunStarted(run="other", task="Where is the harbour master?"))
        bank.erase(run="other")
        came = rerun(bank, runs_of(bank)[0], ontologies=shipped())
    assert came.difference is not None and came.difference.type == "tool_called"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (leaving_out(RunFinished), "it never ended"),
        (changing(RunStarted, endpoint="https://example.org/sparql"), "uses no network"),
        (changing(RunStarted, settings='{"lm":{"model":"m"},"colour":"red"}'), "can't be read"),
        (changing(RunStarted, settings="no JSON"), "can't be read"),
        (leaving_out(OntologyRegistered), "never registered"),
        (changing(OntologyRegistered, sha256="ab" * 32), "name its files with --ont"),
        (changing(RunFinished, error_code="sandbox_failed", outcome="failed"), "sandbox_failed"),
        (changing(LmCalled, request_key="", response=None), "without its texts"),
        (changing(ToolCalled, previews=("arguments",)), "too long to be kept"),
    ],
)
def test_a_run_of_which_something_is_missing(one: Bank, tmp_path: Path, change: Change, reason: str) -> None:
    with retold(one, tmp_path / "retold", change) as bank:
        assert reason in refusal(bank)


def test_a_run_that_was_interrupted(one: Bank, tmp_path: Path) -> None:
    ends: Change = leaving_out(RunFinished)
    with retold(one, tmp_path / "retold", ends) as bank:
        close_run(bank, runs_of(bank)[0], "interrupted", "the run was cut off")
        assert "interrupted" in refusal(bank)


def test_code_that_ran_without_a_sandbox_is_not_run_again(tmp_path: Path) -> None:
    with run_in(tmp_path, SCRIPT, TASKS[:1], unsafe_local=True) as bank:
        assert "without a sandbox" in refusal(bank, live_sandbox=True)


@pytest.mark.parametrize("writes", range(11))
def test_a_disk_that_is_full_is_no_difference(one: Bank, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    left, write = [writes], System.write

    def full(self: System, fd: int, data: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, fd, data)

    monkeypatch.setattr(System, "write", full)
    with pytest.raises(RBankError, match="No space left") as stopped:
        rerun(one, runs_of(one)[0], ontologies=shipped())
    assert stopped.value.exit_code == 2


def test_without_deno_code_is_not_run_again(one: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise SandboxUnavailable("no_deno", "there is no deno", "install it")

    monkeypatch.setattr(deno, "find", missing)
    with pytest.raises(SandboxUnavailable):
        rerun(one, runs_of(one)[0], ontologies=shipped(), live_sandbox=True)
    assert rerun(one, runs_of(one)[0], ontologies=shipped()).identical
