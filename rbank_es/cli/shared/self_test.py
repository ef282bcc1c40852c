"""`run --test`: a trial of judging and extracting on made-up runs, in a temporary bank and without an executor."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from rbank_es.bank import Bank
from rbank_es.cli.shared.loop_progress import NOT_JUDGED, LoopDisplay
from rbank_es.cli.shared.output import SCRIPTED, Cell, echo, echo_heading, echo_json, echo_table, styled
from rbank_es.data import LIGHTS
from rbank_es.errors import JudgeFailed
from rbank_es.events import RunFinished, RunStarted, StepTaken
from rbank_es.events.readable_text import safe_line
from rbank_es.events.run_events import Outcome

if TYPE_CHECKING:
    from rbank_es.events.items import Item
    from rbank_es.loop.resources import LoopResources
    from rbank_es.loop.run_stages import PostRun
    from rbank_es.loop.tasks import Task
    from rbank_es.models.model_choice import LmChoice

PREFIX = "PREFIX lt: <https://lights.example/ns#>\n"


class MadeUpRun(NamedTuple):
    """A made-up run over the shipped ontology; `id` is also the id of its task in a script."""

    id: str
    question: str
    outcome: Outcome
    answer: str
    sparql: str
    steps: tuple[tuple[str, str, str], ...]
    """Reasoning, code and output of each step."""


HEIGHT = f"{PREFIX}SELECT ?m WHERE {{ ?l a lt:Lighthouse ; lt:name 'Cormorant Rock' ; lt:focalHeight ?m }}"

CASES = (
    MadeUpRun(
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
    MadeUpRun(
        "failure_case",
        "Which lighthouses have no keeper?",
        "submitted",
        "I could not find any lighthouse in the graph.",
        "SELECT ?l WHERE { ?l a <https://example.org/Lighthouse> }",
        (("The class is probably this one.", "sparql_query(...)", "{'ok': True, 'rows': 0}"),),
    ),
    MadeUpRun(
        "nonconverged",
        "What about the lights?",
        "forced_at_limit",
        "",
        "",
        (("It is not clear what is asked.", "g_classes()", "{'ok': True, 'classes': [...]}"),) * 2,
    ),
)


def try_judging(models: dict[str, LmChoice | None], *, verbose: bool, as_json: bool) -> None:
    """Judge each case and extract from it, in a temporary bank; print verdicts and items."""
    from rbank_es.loop.resources import LoopResources
    from rbank_es.loop.run_stages import PostRun
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.watched_bank import watched
    from rbank_es.models.run_models import check_choices
    from rbank_es.sparql.data_source import open_source

    # Any executor without a sandbox will do, because no code runs.
    settings = LoopSettings(**models, executor="react")  # type: ignore[arg-type]
    check_choices(settings.choices)
    with ExitStack() as stack:
        bank = stack.enter_context(Bank.create("memory:"))
        live = stack.enter_context(LoopDisplay(verbose=verbose))
        source = open_source(LIGHTS)
        stack.callback(source.close)
        resources = stack.enter_context(LoopResources(watched(bank, live.events), settings, source))
        post_run = PostRun(resources)
        tried = [_tried(case, resources, post_run) for case in CASES]
    if as_json:
        echo_json({"scripted": settings.scripted, "kept": False, "cases": tried})
    else:
        _print_cases(tried, scripted=settings.scripted)


def _tried(case: MadeUpRun, resources: LoopResources, post_run: PostRun) -> dict[str, Any]:
    from rbank_es.law import active
    from rbank_es.loop.rollouts import Rollout
    from rbank_es.loop.tasks import Task

    bank, task = resources.bank, Task(id=case.id, question=case.question)
    before = set(active(bank.state()))
    _record(bank, case, task, resources)
    facts: dict[str, Any] = {"case": case.id, "verdict": None, "reason": "", "items": []}
    try:
        verdict = post_run.judge(task, case.id, 0, bank)
    except JudgeFailed as error:
        return facts | {"reason": str(error)}
    rollout = Rollout(index=0, run=case.id, outcome=case.outcome, verdict=verdict.verdict)
    post_run.learn(task, [rollout])
    items = [item for id, item in active(bank.state()).items() if id not in before]
    return facts | {"verdict": verdict.verdict, "reason": verdict.reason, "kind": verdict.kind, "items": items}


def _record(bank: Bank, case: MadeUpRun, task: Task, resources: LoopResources) -> None:
    settings = resources.settings
    steps = [
        StepTaken(run=case.id, index=number, reasoning=reasoning, code=code, output=output)
        for number, (reasoning, code, output) in enumerate(case.steps, 1)
    ]
    bank.append(
        RunStarted(
            run=case.id,
            task_id=case.id,
            task=case.question,
            ontology=resources.source_id,
            model=settings.lm.name,
            scripted=settings.scripted,
        )
    )
    if case.sparql:
        # Run the query, because judges compare the answer with the results that the run saw.
        resources.tools(case.id, task).call("sparql_query", {"query": case.sparql})
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


def _print_cases(tried: list[dict[str, Any]], *, scripted: bool) -> None:
    rows: list[list[Cell]] = [
        [one["case"], one["verdict"] or NOT_JUDGED, one.get("kind"), len(one["items"]), safe_line(one["reason"])]
        for one in tried
    ]
    echo_table(["case", "verdict", "by", "items", "reason"], rows, flexible=["reason"])
    echo_heading("items")
    for one in tried:
        items: list[Item] = one["items"]
        for item in items:
            echo(f"  [{item.src}] {safe_line(item.title)}")
    echo(styled("\nmade-up runs; nothing was kept", "dim"))
    if scripted:
        echo(styled(SCRIPTED, "yellow"))
