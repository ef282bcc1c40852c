"""All that uses a bank, at a bank on a server: loops, corrections, recorder, hooks, spools, page, MCP."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from rbank_es import Bank
from rbank_es.agents.hook_doctor import examine_hooks
from rbank_es.agents.spool_intake import take_spool_in
from rbank_es.cli import main
from rbank_es.errors import LoopStopped
from rbank_es.events import RunJudged, type_of
from rbank_es.limits import postgres_limits
from rbank_es.log.postgres.postgres_log import PostgresLog
from rbank_es.log.postgres.postgres_server import Server
from tests.agents.hook_banks import LESSON, PROMPT, hooked, live_in, sample, teach
from tests.agents.test_mcp_server import stdio, whole_life
from tests.loop.loops import TASKS, looped, scripted
from tests.page.served_bank import served
from tests.postgres_server import PostgresServer

pytestmark = [pytest.mark.xdist_group("postgres"), pytest.mark.slow]


@pytest.fixture
def place(server: PostgresServer) -> str:
    return server.url(f"b{os.urandom(6).hex()}")


def test_a_loop_learns_is_resumed_and_corrected(place: str, tmp_path: Path) -> None:
    """With the same events as in memory; what a person overrules is corrected, and nothing is due for anybody."""
    settings = scripted(tmp_path)
    with Bank.create("memory:") as plain, Bank.create(place) as bank:
        looped(plain, settings)
        looped(bank, settings, TASKS[:1])
        with Bank.open(place) as again:
            assert looped(again, settings)[1].verdict == "success"
            assert [type_of(event) for event in again.log.read()] == [type_of(event) for event in plain.log.read()]
        judged = [event for event in bank.log.read(types=("run_judged",)) if isinstance(event, RunJudged)]
        failed = next(event.run for event in judged if event.verdict == "failure")
        assert bank.overrule(failed or "", "success", reason="read again", by="ann").position > len(judged)
    with Bank.open(place) as elsewhere:
        end = elsewhere.position
        assert elsewhere.correct().position == end
        assert elsewhere.check(decisions=True).events == end


def test_a_loop_that_lost_its_lease_stops_with_a_sentence(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still, and another process took over: nothing more of it is recorded, and it says why."""
    monkeypatch.setattr(postgres_limits, "LEASE_S", 0.3)
    append, execute, ends = PostgresLog.append, Server.execute, list[int]()
    with Bank.create(place) as bank, Bank.open(place) as other, ExitStack() as stack:

        def late(self: PostgresLog, events: Any, **more: Any) -> Any:
            made = append(self, events, **more)
            if self is bank.log and type_of(events[0]) == "run_started":
                time.sleep(0.4)
                [name] = self._leases
                stack.enter_context(other.log.exclusive(name))
                ends.append(made.last)
            return made

        def still(self: Server, statement: str, values: Any = ()) -> Any:
            return [(False,)] if "renew_lease" in statement else execute(self, statement, values)

        monkeypatch.setattr(Server, "execute", still)
        monkeypatch.setattr(PostgresLog, "append", late)
        with pytest.raises(LoopStopped, match="another process took over loop-.*because this one stood still"):
            looped(bank, scripted(tmp_path))
        assert ends == [other.position]


def test_a_recorder_and_hooks_write_it(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program records its run. A hook answers with what this machine's read models have; its spool is taken in.

    The check of the hooks opens the bank as the user did who installed them, with her role and options.
    """
    live_in(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    with Bank.create(place) as bank:
        teach(bank, LESSON)
        with bank.record("Which discounts are rounded?") as run:
            assert LESSON.title in run.recall().text
            run.tool("search", {"q": "discount"}, ["half up"], duration_s=0.25)
    assert main(["install", "claude-code", "--bank", place, "--yes"]) == 0
    assert LESSON.title in hooked(sample("claude-code/UserPromptSubmit") | {"prompt": PROMPT})
    [of_bank] = [check for check in examine_hooks(str(tmp_path)) if check.name == "bank"]
    assert of_bank.ok and "can be searched: 1 active lesson" in of_bank.detail, of_bank.detail
    hooked(sample("claude-code/Stop"))
    with Bank.open(place) as bank:
        assert take_spool_in(bank).turns == 1 and len(bank.runs().rows) == 2
        checked = bank.check(retrievals=True).retrievals
        assert checked is not None and checked.checked == 4 and checked.different == ()


def test_a_page_and_hosts_of_mcp_use_it(place: str) -> None:
    """A host recalls and reports; the page shows the run at once."""
    with Bank.create(place) as bank:
        bank.remember("Count lamps with DISTINCT", "Joins repeat rows of lamps: write COUNT(DISTINCT ?lamp).")

        async def talk() -> str:
            async with Client(stdio(place), read_timeout_seconds=60) as client:  # type: ignore[arg-type]
                return await whole_life(client)

        with served(bank) as page:
            run = anyio.run(talk)
            assert run in str(page.ask("runs"))
