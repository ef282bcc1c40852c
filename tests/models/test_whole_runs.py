"""Whole tasks over HTTP: a server answers run, judge and extractor, and falls silent at one of them.

Whatever it does, the loop ends as it should, every call is recorded, the run has its end, and no item comes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import JudgeFailed
from rbank_es.events import LmCalled, RunFinished, RunStarted, ToolCalled
from rbank_es.judging.checks import check
from rbank_es.judging.judges import decide
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.loop.settings import LoopSettings
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.scripted_model import rendered
from rbank_es.rerun.execution import rerun
from tests.loop.loops import HEIGHT, TASKS, looped
from tests.models.misbehaviours import replies
from tests.models.openai_server import openai_server
from tests.rerun.banks import quick_code, shipped
from tests.sandbox.sandboxes import require_dspy

require_dspy()

FOUND = f"found = sparql_query({HEIGHT!r})\nSUBMIT(answer='45 metres', sparql={HEIGHT!r}, evidence={{}})"
ITEM = {"title": "Ask for the focal height", "description": "d", "content": "Use lt:focalHeight for heights."}
CODED = rendered({"reasoning": "r", "code": f"```python\n{FOUND}\n```"})
WELL = [CODED, rendered({"success": True, "reason": "Right."}), rendered({"memory_items": [ITEM], "why_none": ""})]
ROLES = ["agent", "judge", "extractor"]


def settings(url: str, **more: Any) -> LoopSettings:
    lm = LmChoice(model="openai/stub", api_base=url, arguments={"timeout": 1.5})
    return LoopSettings(**{"lm": lm, "executor": "scratchpad", "extract": True, "iterations": 2, **more})


def told(bank: Bank) -> list[tuple[str, str | None]]:
    """Role and error code of every call that is recorded."""
    return [(event.role, event.error_code) for event in bank.events() if isinstance(event, LmCalled)]


NO_WORDS = replies("a page", "a page as words", "an error as words", "an error as its end", "broken off", "filtered")


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1, 2], ids=ROLES)
@pytest.mark.parametrize("name", NO_WORDS)
def test_what_is_no_word_of_the_model_is_evidence_of_nothing_and_leaves_the_task_due(
    tmp_path: Path, name: str, at: int
) -> None:
    """A gateway's page for an answer: no verdict, no lesson; the same loop goes on where it fell silent."""
    with (
        openai_server([*WELL[:at], *NO_WORDS[name], *WELL[at:]]) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        [first] = looped(bank, settings(server.url), TASKS[:1])
        ends = [event for event in bank.events() if isinstance(event, RunFinished)]
        assert (ends[0].outcome, ends[0].error_code) == (("failed", "bad_response") if at == 0 else ("submitted", None))
        assert (first.undone, bool(first.unjudged), bool(first.undrawn)) == (at == 0, at == 1, at == 2)
        assert not [each for each in bank.state().items.values() if each.item.title == ITEM["title"]]
        assert [code for role, code in told(bank) if role == ROLES[at]] == ["bad_response"] * 3
        if at == 0:
            with pytest.raises(JudgeFailed, match="says nothing about the agent"):
                decide(outcome_of(bank, first.run), judge="checks")
            assert check(outcome_of(bank, first.run)).verdict().verdict == "undecided"
        [again] = looped(bank, settings(server.url), TASKS[:1])
        assert (again.verdict, again.undone, again.unjudged, again.undrawn) == ("success", False, (), ())
        assert [each for each in bank.state().items.values() if each.item.title == ITEM["title"]]


@pytest.mark.slow
def test_every_role_asks_its_own_model(tmp_path: Path) -> None:
    """`--sub-lm`, `--judge-lm` and `--extractor-lm` are what is asked, not only what is recorded."""
    asking = f"print(llm_query('what?'))\n{FOUND}"
    answers = {
        "one": rendered({"reasoning": "r", "code": f"```python\n{asking}\n```"}),
        "two": "so",
        "three": WELL[1],
        "four": WELL[2],
    }
    with (
        openai_server(lambda body: answers[body["model"]]) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        names = zip(("lm", "sub_lm", "judge_lm", "extractor_lm"), answers, strict=True)
        models = {role: LmChoice(model=f"openai/{model}", api_base=server.url) for role, model in names}
        [result] = looped(bank, settings(server.url, **models), TASKS[:1])
        assert result.verdict == "success"
        events = [event for event in bank.events() if isinstance(event, LmCalled)]
    asked = [(body["model"], body.get("temperature")) for body in server.requests]
    assert [model for model, _ in asked] == ["one", "two", "three", "four"]
    assert (asked[2][1], asked[3][1]) == (0.0, 1.0)
    assert [(event.role, event.model) for event in events] == [
        ("agent", "openai/one"),
        ("sub", "openai/two"),
        ("judge", "openai/three"),
        ("extractor", "openai/four"),
    ]


def test_a_key_that_the_agents_code_reads_without_a_sandbox_is_in_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps, calls of tools, what those propose, and answers held it."""
    key = "sk-of-a-test-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    reads = "import os\nkey = os.environ['OPENAI_API_KEY']\nprint(key)\nevent_log({'seen': [key]})"
    uses = (
        "print(ctx_find(key, key))\nprint(mem_add('Use the secret', 'It is ' + key, tags=[key]))\n"
        "print(sparql_query('SELECT ?l WHERE { ?l lt:name \"' + key + '\" }'))"
    )
    submits = "SUBMIT(answer=key, sparql=key, evidence={'key': key})"
    answers = [rendered({"reasoning": "r", "code": f"```python\n{code}\n```"}) for code in (reads, uses, submits)]
    with openai_server(answers) as server, Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        looped(bank, settings(server.url, judge="none", extract=False, iterations=3), TASKS[:1])
        [ended] = [event for event in bank.events(resolve=True) if isinstance(event, RunFinished)]
        assert ended.answer == "[key]"
        tools = {event.tool for event in bank.events(types={"tool_called"}) if isinstance(event, ToolCalled)}
        assert tools == {"event_log", "ctx_find", "mem_add", "sparql_query"}
        bank.project()
    written = b"".join(path.read_bytes() for path in (tmp_path / "bank").rglob("*") if path.is_file())
    assert b"[key]" in written and key.encode() not in written


@pytest.mark.slow
def test_a_run_records_what_was_known_of_its_server_and_its_rerun_knows_no_more(tmp_path: Path) -> None:
    props = {"default_generation_settings": {"n_ctx": 16_384}, "build_info": "b1"}
    with (
        openai_server(WELL, props=props) as server,
        Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank,
    ):
        looped(bank, settings(server.url), TASKS[:1], interpreters=quick_code)
        [started] = [event for event in bank.events() if isinstance(event, RunStarted)]
        [known] = started.servers
        assert (known.model, known.server, known.context_tokens) == ("openai/stub", "llama.cpp b1", 16_384)
        looks = len(server.asked("/props"))
        assert rerun(bank, started.run, ontologies=shipped()).difference is None
        assert (looks, len(server.asked("/props"))) == (1, 1), "a look before the first run, none in the rerun"
