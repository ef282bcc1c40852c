"""The live half of `demo`: six tasks in the real sandbox with a scripted model, and the bank before and after."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.run_judgments import JUDGMENT_TYPES
from rbank_es.cli.search import print_hits
from rbank_es.cli.shared.loop_progress import NOT_JUDGED, LoopDisplay
from rbank_es.cli.shared.output import (
    VERDICT_COLOURS,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_paragraph,
    flush,
    program_name,
    styled,
)
from rbank_es.data import LIGHTS, SCRIPTED_TASKS, lights
from rbank_es.errors import CheckFailed, LoopStopped, SandboxUnavailable
from rbank_es.events.readable_text import count, safe_line
from rbank_es.events.run_events import VerdictValue
from rbank_es.log.run_reader import read_run
from rbank_es.system.files import temporary

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.ontology.loader import Ontology
    from rbank_es.projections.search_result import FoundItem
    from rbank_es.rerun.execution import Rerun

# Hits of each search in the demo.
DEMO_HITS = 3

PURPOSE = "The demo: six tasks over the shipped ontology. Scripted: a script stood in for the model."
KINDS = {"success": "strategy", "failure": "guardrail"}
WHAT_IT_IS = "scripted LM, real sandbox, no model"


class DemoTask(msgspec.Struct, frozen=True, kw_only=True):
    """A finished task with the items it was given, taught and confirmed, as titles by id."""

    task: str
    question: str
    run: str
    verdict: VerdictValue | None
    scored: VerdictValue | None
    reason: str
    retrieved: dict[str, str]
    learned: dict[str, str]
    supported: dict[str, str]


class DemoPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The bank at a point in time, and the hits of a search there."""

    position: int
    items: int
    digest: str
    hits: list[FoundItem]


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the loop. `helped` is the first run that succeeded with an item learned from the run `failed`."""

    tasks: list[DemoTask]
    failed: str
    helped: str
    question: str
    before: DemoPoint
    after: DemoPoint
    rerun: Rerun
    seconds: float


def sandbox_problem() -> SandboxUnavailable | None:
    """Return why the loop can't run here, with a fix; None if no reason is found without starting a sandbox."""
    from rbank_es.sandbox.deno import check_release, ready_runtime

    try:
        check_release(ready_runtime().executable)
    except SandboxUnavailable as error:
        return error
    return None


@contextmanager
def demo_bank(kept: str | None) -> Iterator[Bank]:
    """Create a bank: at `kept` where given, else in a temporary directory."""
    with ExitStack() as stack:
        if kept is None:
            kept = str(stack.enter_context(temporary("demo")) / "lesson")
        yield stack.enter_context(Bank.create(kept, purpose=PURPOSE))


def run_tasks(bank: Bank, *, aloud: bool) -> DemoResult:
    """Run the tasks, printing each result if `aloud`; return it with the bank before and after the failure.

    Raises `SandboxUnavailable` if the sandbox doesn't start, `CheckFailed` if no failure taught a later success.
    """
    from rbank_es.loop.closed_loop import run_closed_loop
    from rbank_es.loop.watched_bank import watched
    from rbank_es.sparql.data_source import open_source

    tasks, settings = scripted_tasks(), _settings()
    done: list[DemoTask] = []
    began = time.monotonic()

    def ended(result: TaskResult) -> None:
        done.append(_demo_task(bank, tasks[len(done)], result))
        if aloud:
            # Because the redrawn line would be left amid the output.
            live.wipe()
            _print_task(done[-1], len(done), len(tasks))

    with closing(open_source(_ontology())) as source, LoopDisplay() as live:
        try:
            run_closed_loop(tasks, watched(bank, live.events), settings, source, on_task=live.task, on_result=ended)
        except LoopStopped as stop:
            # Without a sandbox the demo shows a recorded bank, so its caller must see the cause itself.
            if isinstance(stop.cause, SandboxUnavailable):
                live.wipe()
                raise stop.cause from stop
            stop.advice = ""  # because the next demo has a bank of its own
            raise
    return _demo_result(bank, done, time.monotonic() - began)


def scripted_tasks() -> list[Task]:
    """Return the shipped tasks that the script answers, in its order."""
    from rbank_es.loop.tasks import load_tasks

    known = {task.id: task for task in load_tasks(lights().tasks)}
    return [known[id] for id in SCRIPTED_TASKS]


def _settings() -> LoopSettings:
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.models.model_choice import LmChoice

    return LoopSettings(lm=LmChoice(model=f"script:{lights().script}"))


def _ontology() -> Ontology:
    from rbank_es.ontology.loader import load_ontology

    return load_ontology(lights().ontology, id=LIGHTS)


# ---------------------------------------------------------------- results


def _demo_task(bank: Bank, task: Task, result: TaskResult) -> DemoTask:
    searches = read_run(bank.log, result.run, types={"memories_retrieved"}).searches
    found = [hit.id for search in searches for hit in search.hits]
    return DemoTask(
        task=task.id,
        question=task.question,
        run=result.run,
        verdict=result.verdict,
        scored=result.scored,
        reason=result.reason,
        retrieved=_titles(bank, found),
        learned=_titles(bank, result.added),
        supported=_titles(bank, result.supported),
    )


def _titles(bank: Bank, ids: Iterable[str]) -> dict[str, str]:
    items = bank.state().items
    return {id: f"{KINDS[items[id].item.polarity]}: {items[id].item.title}" for id in ids}


def _demo_result(bank: Bank, done: list[DemoTask], seconds: float) -> DemoResult:
    """Return the bank just after the failure was judged and now, and the helped run, re-executed."""
    from rbank_es.rerun.execution import rerun
    from rbank_es.rerun.ontology_lookup import Ontologies

    failed = next((each for each in done if each.verdict == "failure"), None)
    taught = failed.learned if failed else {}
    helped = next((each for each in done if each.verdict == "success" and taught.keys() & each.retrieved.keys()), None)
    if failed is None or helped is None:
        raise CheckFailed("the loop ran, and no run that succeeded was given an item from a failure")
    with Ontologies() as ontologies:
        again = rerun(bank, helped.run, ontologies=ontologies)
    return DemoResult(
        tasks=done,
        failed=failed.run,
        helped=helped.run,
        question=helped.question,
        before=_demo_point(bank, _verdict_at(bank, failed.run), helped.question),
        after=_demo_point(bank, bank.position, helped.question),
        rerun=again,
        seconds=round(seconds, 1),
    )


def _verdict_at(bank: Bank, run: str) -> int:
    """Return the position of a run's last verdict; items from the run come after it."""
    return read_run(bank.log, run, types=JUDGMENT_TYPES).judgments[-1].seq


def _demo_point(bank: Bank, position: int, question: str) -> DemoPoint:
    replayed = bank.replay(position)
    with bank.as_of(position) as view:
        hits = view.search(question, DEMO_HITS)
    return DemoPoint(position=position, items=len(replayed.state.items), digest=replayed.digests.all, hits=hits)


# ---------------------------------------------------------------- printing


def print_introduction() -> None:
    """Print the plan of the demo."""
    echo(styled("An agent that learns from its failures", "bold"))
    echo(styled(WHAT_IT_IS, "yellow"))
    echo()
    echo_paragraph(
        "Six tasks over a small ontology, one after the other: retrieve, run, judge, extract, consolidate. What a "
        "model would answer was written beforehand; everything else happens now: code runs in the sandbox, tools query "
        "the ontology, checks look for failures before the scripted judge is asked, and items are retrieved and kept "
        "as the bank's policies say. A script that doesn't match the prompts is refused."
    )
    flush()


def _print_task(done: DemoTask, number: int, total: int) -> None:
    echo_heading(f"{number} of {total}, {done.task}: {safe_line(done.question)}")
    verdict = styled(done.verdict, VERDICT_COLOURS[done.verdict]) if done.verdict is not None else NOT_JUDGED
    score = {"success": "right", "failure": "wrong"}.get(done.scored or "", "not known")
    echo(f"  verdict    {verdict}: {safe_line(done.reason)}")
    echo(f"  answer     {score}, by the expected one")
    for name, items in (("retrieved", done.retrieved), ("learned", done.learned), ("confirmed", done.supported)):
        rows = [f"{id}  {safe_line(title)}" for id, title in items.items()]
        # One label more than rows, because "nothing" needs one too.
        for label, row in zip([name, *[""] * len(rows)], rows or ["nothing"], strict=False):
            echo(f"  {label:<9}  {row}")
    flush()


def print_result(result: DemoResult, name: str) -> None:
    """Print the bank before the lesson and now, and the re-execution of the helped run."""
    helped = next(each for each in result.tasks if each.run == result.helped)
    failed = next(each for each in result.tasks if each.run == result.failed)
    lessons = [title for id, title in failed.learned.items() if id in helped.retrieved]
    echo()
    echo_paragraph(
        f"The failure of {failed.task} taught a {'; '.join(lessons)}. {helped.task} got that, and succeeded. "
        f"All six took {result.seconds} seconds."
    )
    for when, shown in (("Before the lesson", result.before), ("Now", result.after)):
        echo_heading(f"{when}: position {shown.position:,}, {count(shown.items, 'item')}")
        echo_command(f'search {name}@{shown.position} "{safe_line(result.question)}" -k {DEMO_HITS}')
        print_hits(shown.hits)
        echo(f"state digest {shown.digest[:16]}…, the same at every replay")
    echo_heading("A run, re-executed from its own events")
    echo_command(f"rerun {name} {result.helped}")
    echo(f"{result.rerun.run}: {'identical' if result.rerun.identical else 'different'}")
    echo_fields({"events compared": result.rerun.events, "model, key, sandbox": "not used"})


def print_next_steps(kept: str | None) -> None:
    """Print commands to try next."""
    echo_heading("Go on")
    if kept is None:
        echo("The bank was temporary. To keep it, and repeat the commands behind each $ above:")
        echo(f"  {program_name()} demo --into lesson")
    echo("The same loop with a model and an ontology of your own, its key taken from the environment:")
    echo(f"  {program_name()} run mybank --ont model.ttl --tasks tasks.json --lm openai/gpt-4.1-mini --l0 --extract")
    echo("A bank in which a judge was wrong, and the consequences:")
    echo(f"  {program_name()} demo --sample ./sample")
