"""`run --test`: judging and extracting, tried on made-up runs. No executor, nothing kept."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es.bank import Bank
from rbank_es.cli.shared.agent_options import SCRIPTED
from rbank_es.cli.shared.loop_progress import VERDICTS, Live, watched
from rbank_es.cli.shared.ontology_sources import loaded
from rbank_es.cli.shared.output import Cell, heading, say, say_json, styled, table
from rbank_es.cli.shared.terminal_text import line
from rbank_es.data import LIGHTS
from rbank_es.errors import JudgeFailed
from rbank_es.events import RunFinished, RunStarted, StepTaken
from rbank_es.events.run import Outcome

if TYPE_CHECKING:
    from rbank_es.events.items import Item
    from rbank_es.loop.post_run import Learning
    from rbank_es.loop.run_context import Equipment
    from rbank_es.models.choice import LmChoice

PREFIX = "PREFIX lt: <https://lights.example/ns#>\n"


class Canned(NamedTuple):
    """A made-up run over the shipped ontology; its id is also that of its task in a script."""

    id: str
    question: str
    outcome: Outcome
    answer: str
    sparql: str
    steps: tuple[tuple[str, str, str], ...]
    """Reasoning, code and output of each."""


HEIGHT = f"{PREFIX}SELECT ?m WHERE {{ ?l a lt:Lighthouse ; lt:name 'Cormorant Rock' ; lt:focalHeight ?m }}"

CASES = (
    Canned(
        "success_case",
        "How many metres above high water does the light of the lighthouse at Cormorant Rock stand?",
        "submitted",
        "45 metres above high water.",
        HEIGHT,
        (
            ("Heights may be of the tower or of the light.", "g_props('height')", "lt:towerHeight, lt:focalHeight"),
            ("The focal height is above high water.", f"sparql_query({HEIGHT!r})", "{'ok': True, 'rows': 1}"),
        ),
    ),
    Canned(
        "failure_case",
        "Which lighthouses have no keeper?",
        "submitted",
        "I could not find any lighthouse in the graph.",
        "SELECT ?l WHERE { ?l a <https://example.org/Lighthouse> }",
        (("The class is probably this one.", "sparql_query(...)", "{'ok': True, 'rows': 0}"),),
    ),
    Canned(
        "nonconverged",
        "What about the lights?",
        "forced_at_limit",
        "",
        "",
        (("It is not clear what is asked.", "g_classes()", "{'ok': True, 'classes': [...]}"),) * 2,
    ),
)


def try_judge_and_extract(models: dict[str, LmChoice | None], *, verbose: bool, as_json: bool) -> None:
    """Judge each case and extract from it, in a bank that goes away; print what came of them."""
    from rbank_es.cli.shared.agent_options import check_settings
    from rbank_es.loop.post_run import Learning
    from rbank_es.loop.run_context import Equipment
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.sparql.source import open_source

    # No code runs, so any executor without a sandbox will do.
    settings = LoopSettings(**models, executor="react")  # type: ignore[arg-type]
    check_settings(settings)
    with ExitStack() as stack:
        bank = stack.enter_context(Bank.create("memory:"))
        live = stack.enter_context(Live(verbose=verbose))
        source = open_source(ontology=loaded([LIGHTS]))
        stack.callback(source.close)
        equipment = stack.enter_context(Equipment(watched(bank, live.events), settings, source))
        learning = Learning(equipment)
        tried = [_tried(case, equipment, learning) for case in CASES]
    if as_json:
        say_json({"scripted": settings.scripted, "kept": False, "cases": tried})
    else:
        _tell(tried, scripted=settings.scripted)


def _tried(case: Canned, equipment: Equipment, learning: Learning) -> dict[str, Any]:
    from rbank_es.loop.rollouts import Rollout
    from rbank_es.loop.tasks import Task
    from rbank_es.state import active

    bank, task = equipment.bank, Task(id=case.id, question=case.question)
    before = set(active(bank.state()))
    _record(bank, case, equipment)
    facts: dict[str, Any] = {"case": case.id, "success": None, "reason": "", "items": []}
    try:
        verdict = learning.judge(task, case.id, 0, bank)
    except JudgeFailed as error:
        return facts | {"reason": str(error)}
    rollout = Rollout(index=0, run=case.id, outcome=case.outcome, success=verdict.success)
    learning.learn(task, [rollout])
    items = [item for id, item in active(bank.state()).items() if id not in before]
    return facts | {"success": verdict.success, "reason": verdict.reason, "kind": verdict.kind, "items": items}


def _record(bank: Bank, case: Canned, equipment: Equipment) -> None:
    settings = equipment.settings
    steps = [
        StepTaken(run=case.id, index=number, reasoning=reasoning, code=code, output=output)
        for number, (reasoning, code, output) in enumerate(case.steps, 1)
    ]
    bank.append(
        RunStarted(
            run=case.id,
            task=case.question,
            ontology=equipment.source_id,
            model=settings.lm.name,
            scripted=settings.scripted,
        )
    )
    if case.sparql:
        # The query is really asked: a judge compares what was submitted with what the run had answered.
        equipment.tools(case.id).call("sparql_query", {"query": case.sparql})
    bank.append(
        [
            *steps,
            RunFinished(
                run=case.id,
                outcome=case.outcome,
                iterations=len(steps),
                answer_chars=len(case.answer),
                answer=case.answer,
                sparql=case.sparql,
            ),
        ]
    )


def _tell(tried: list[dict[str, Any]], *, scripted: bool) -> None:
    rows: list[list[Cell]] = [
        [one["case"], VERDICTS[one["success"]], one.get("kind"), len(one["items"]), line(one["reason"])]
        for one in tried
    ]
    table(["case", "verdict", "by", "items", "reason"], rows, flexible=["reason"])
    heading("items")
    for one in tried:
        items: list[Item] = one["items"]
        for item in items:
            say(f"  [{item.src}] {line(item.title)}")
    say(styled("\nmade-up runs; nothing was kept", "dim"))
    if scripted:
        say(styled(SCRIPTED, "yellow"))
