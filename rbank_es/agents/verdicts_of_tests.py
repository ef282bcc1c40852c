"""The verdicts of tests on the runs recorded within them: what the plugin of pytest is while it has a bank."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from rbank_es import limits
from rbank_es.bank.agent_run import AgentRun, told_of_runs
from rbank_es.errors import RBankError
from rbank_es.events.run_events import VerdictValue

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.bank.verdict_acts import VerdictActs

JUDGE = "pytest"
PROPERTY = "rbank_run"
"""The name of a test's property that names a run of it: in JUnit's files, and from workers to their controller."""


def verdict_of(reports: Sequence[pytest.TestReport]) -> tuple[VerdictValue, str] | None:
    """Return the verdict of a test on what ran within it, and its reason, from the reports of its phases.

    None for a test that was skipped. A test that failed as expected is a failure of what it tests; one whose set-up or
    tear-down failed says nothing of it.
    """
    call = next((each for each in reports if each.when == "call"), None)
    failed = next((each for each in reports if each.failed), None)
    if call is not None and (call.failed or (call.skipped and hasattr(call, "wasxfail"))):
        if call.failed and "[XPASS(strict)]" in call.longreprtext:
            return "success", f"{call.nodeid} passed, though it was expected to fail"
        return "failure", f"{call.nodeid}: {_words(call)}"
    if failed is not None:
        return "undecided", f"{failed.nodeid}, in its {failed.when}: {_words(failed)}"
    if call is None or call.skipped:
        return None
    return "success", f"{call.nodeid} passed"


def _words(report: Any) -> str:
    """Return the message of a failure, without its trace."""
    crash = getattr(report.longrepr, "reprcrash", None)
    words = crash.message if crash is not None else report.longreprtext or getattr(report, "wasxfail", "")
    return str(words)[: limits.ERROR_CHARS]


class VerdictsOfTests:
    """A plugin that judges the runs of one bank, those that begin in this process while a test runs.

    A run belongs to the test that runs when it begins, be it in a thread, or in the set-up of a fixture that others
    use, too. One that hasn't ended by the end of its test gets no verdict.
    """

    def __init__(self, bank: Bank) -> None:
        """Judge runs of `bank`."""
        self.bank = bank
        self._runs: list[AgentRun] = []
        self._reports: list[pytest.TestReport] = []
        self._judged = 0
        told_of_runs.append(self._note)

    def _note(self, bank: VerdictActs, run: AgentRun) -> None:
        if bank.log.place == self.bank.log.place:
            self._runs.append(run)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judge the runs of a test when its last phase has ended."""
        self._runs.clear()
        self._reports.clear()
        result = yield
        self._judge(item)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Name the runs in the report of a phase, and keep it."""
        told = [(PROPERTY, run.id) for run in self._runs]
        item.user_properties.extend(each for each in told if each not in item.user_properties)
        report = yield
        self._reports.append(report)
        return report

    def _judge(self, item: pytest.Item) -> None:
        verdict = verdict_of(self._reports)
        for run in self._runs:
            if verdict is None or not run.ended:
                continue
            try:
                run.judge(verdict[0], by=JUDGE, reason=verdict[1])
            except (RBankError, OSError) as error:
                item.warn(pytest.PytestWarning(f"the verdict on {run.id} was not recorded: {error}"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the runs, also those of other workers."""
        if report.when == "teardown":
            self._judged += sum(name == PROPERTY for name, _ in report.user_properties)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say how many runs there were, and where."""
        terminalreporter.write_line(f"rbank: {self._judged} runs of agents in {self.bank.name}")

    def pytest_unconfigure(self) -> None:
        """Close the bank."""
        told_of_runs.remove(self._note)
        self.bank.close()
