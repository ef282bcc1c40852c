"""`run`: let an agent work on tasks, one after the other, each with items learned from the earlier ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.locator import locate
from rbank_es.cli.shared.agent_options import (
    MODELS,
    OF_A_LOOP,
    agent_model_options,
    context_options,
    embeddings_option,
    executor_options,
    known_source,
    learning_model_options,
    named_source,
    parse_models,
    read_constraints,
    read_guide,
    refuse_beside_test,
    refuse_idle,
    refuse_idle_budgets,
    search_vectors,
    server_options,
    source_options,
    warn_of_experiment,
)
from rbank_es.cli.shared.arguments import (
    NumberRange,
    RegisteredName,
    judges,
    open_or_create,
    outside,
    parse_budget,
    parse_loop_bounds,
    whole_bank,
    writable,
)
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.ending_table import endings_of, print_endings
from rbank_es.cli.shared.heads_file import heads_file, note_head
from rbank_es.cli.shared.interruption import interruptible, kept_of
from rbank_es.cli.shared.loop_progress import NOT_JUDGED, LoopDisplay, warn_of_what_is_left
from rbank_es.cli.shared.output import (
    SCRIPTED,
    Cell,
    echo,
    echo_fields,
    echo_json,
    echo_scripted,
    echo_section,
    echo_table,
    styled,
    warn,
)
from rbank_es.cli.shared.task_order import curriculum_of, order_options
from rbank_es.errors import BadInput, BankNotFound, CannotWrite, RBankError
from rbank_es.events.readable_text import count, format_cost, safe_line
from rbank_es.events.run_totals import known_sum
from rbank_es.judging.verdict import NOBODY
from rbank_es.models.model_choice import SCRIPT

if TYPE_CHECKING:
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.data_source import Source

UNNAMED = "unnamed/model"
"""Name of the model where a dry run has none."""


@command(
    "run",
    'rbank-es run notes --ont model.ttl --task "Which are the classes?" --lm openai/gpt-4.1-mini --l0 --extract',
    "rbank-es run notes --ont lights --tasks tasks.json --lm openai/any --api-base http://localhost:8000/v1 --extract",
    "rbank-es run notes --ont lights --tasks tasks.json --lm script:turns.toml --matts --matts-k 5",
    'rbank-es run notes --endpoint uniprot --task "How many taxa?" --lm openai/gpt-4.1-mini --l0 --dry-run',
)
@click.argument("bank")
@source_options
@click.option("--task", "question", metavar="TEXT", help="One question.")
@click.option("--tasks", "tasks_file", metavar="FILE", help="Questions, as JSON or JSON Lines: id, question, and more.")
@executor_options
@agent_model_options
@learning_model_options
@server_options
@embeddings_option
@click.option("--l0/--no-l0", default=None, help="The sense card of the ontology; on with --extract and --matts.")
@click.option("--l1/--no-l1", default=False, help="Constraints of the ontology, and pitfalls.")
@click.option("--l2/--no-l2", default=True, show_default=True, help="Items from earlier runs.")
@click.option("--l3/--no-l3", default=False, help="The summary of a guide.")
@context_options
@click.option(
    "--judge", type=RegisteredName(judges, NOBODY),
    help="Who judges: lm is a model, where no check decides; checks, they alone; none, nobody. Default: by the bank's "
    "policy.",
)  # fmt: skip
@click.option("--leave-one-out", is_flag=True, help="Give no run an item that was drawn from a run of its own task.")
@click.option("--supervised", is_flag=True, help="Judge by the tasks' right answers for learning too, in this loop.")
@click.option("--extract", is_flag=True, help="Learn from each run: items for the next ones.")
@click.option("--matts", is_flag=True, help="Several rollouts of each task; learn by comparing them.")
@click.option(
    "--matts-k", metavar="N", type=click.IntRange(1),
    help="Rollouts of each task; default: by the bank's policy. Implies --matts.",
)  # fmt: skip
@order_options
@click.option(
    "--perturb", type=click.Choice(["none", "prefix", "rephrase", "thinking"]), default="none", show_default=True,
    help="Word the question differently for each rollout.",
)  # fmt: skip
@click.option(
    "--temperature", metavar="T", type=NumberRange(0, limits.TEMPERATURE_MOST),
    help="The agent's, to vary rollouts.",
)  # fmt: skip
@click.option("--no-dedup", is_flag=True, help="Also add what states the same as an item, in this loop alone.")
@click.option("--load-mem", metavar="FILE", help="Import items, or another memory, before the first task.")
@click.option("--save-mem", metavar="FILE", help="Write the active items as JSON after the last task.")
@click.option("--heads", metavar="FILE", help="Append the bank's head to FILE after each task: see rbank-es head.")
@click.option("--again", is_flag=True, help="Repeat tasks that are finished under the same settings.")
@click.option("--test", "self_test", is_flag=True, help="Judge and extract on made-up runs; no executor, nothing kept.")
@click.option("--dry-run", is_flag=True, help="Print the context and an estimate of the calls; write nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Show every event as it is recorded.")
def run(bank: str, as_json: bool, **given: Any) -> None:
    """Set an agent to tasks: retrieve, run, judge, extract, consolidate; each task may use items from earlier ones.

    BANK is created if there is none. Everything is recorded as it happens, so an interrupted loop resumes where it
    stopped when the same command is given again, and finished tasks aren't repeated (--again repeats them). Keys are
    read from environment variables alone, such as OPENAI_API_KEY, and are never recorded.
    """
    place = whole_bank(bank)
    given["matts"] = given["matts"] or given["matts_k"] is not None
    with ExitStack() as stack:
        if given["self_test"]:
            refuse_beside_test(click.get_current_context())
            _try_judging(given, as_json=as_json)
            return
        _refuse_nonsense(given)
        refuse_idle(click.get_current_context(), given, OF_A_LOOP)
        named = named_source(given, stack)
        tasks, suite = _tasks(given["question"], given["tasks_file"], named, supervised=given["supervised"])
        given["curriculum"] = curriculum_of(given, tasks)
        known = stack.enter_context(existing) if (existing := _existing(place)) is not None else None
        source = known_source(known, named)
        settings = settings_of(given, source, known)
        refuse_idle_budgets(given, settings.layers)
        _warn(given, settings, source, known)
        if given["dry_run"]:
            from rbank_es.cli.shared.dry_run import print_dry_run

            of_loop = parse_loop_bounds(given["bounds"])[1]
            print_dry_run(tasks, settings, of_loop, source, known, again=given["again"], as_json=as_json)
            return
        from rbank_es.loop.resources import check

        # Before the bank is made, so that a missing key leaves no empty one behind.
        check(settings)
        # Results are collected here, so that they can be reported when the loop ends in an error.
        results: list[TaskResult] = []
        try:
            facts, unsaved = _run(place, tasks, suite, settings, source, given, results)
        except (RBankError, KeyboardInterrupt):
            # Finished tasks are recorded and paid for: print them although the loop stopped.
            if results and not as_json:
                _report_stopped(results, len(tasks))
            raise
    if as_json:
        echo_json(facts | {"results": results})
    else:
        _report(facts, results, place)
    left = warn_of_what_is_left(results, place, given) or unsaved
    if left:
        click.get_current_context().exit(left)


# ---------------------------------------------------------------- arguments


def _refuse_nonsense(given: dict[str, Any]) -> None:
    if given["question"] is not None and given["tasks_file"] is not None:
        raise BadInput("--task is one question and --tasks a file of them: leave one out")
    if given["question"] is None and given["tasks_file"] is None:
        raise BadInput("there is no task: give one question with --task, or a file of tasks with --tasks")
    if given["lm"] is None and not given["dry_run"]:
        raise BadInput("no model is named: give --lm, such as openai/gpt-4.1-mini or script:FILE")
    if given["judge"] == NOBODY and (given["extract"] or given["matts"]):
        raise BadInput("runs that nobody judged teach nothing: leave out --judge none, or --extract and --matts")
    if given["load_mem"] is not None:
        from rbank_es.exchange.file_import import read_file

        # Only to refuse a bad file before the first task.
        read_file(Path(given["load_mem"]))
    if given["save_mem"] is not None:
        _refuse_losing(writable(Path(given["save_mem"])), given)


def _refuse_losing(path: Path, given: dict[str, Any]) -> None:
    """Raise `BadInput` where --save-mem would overwrite a file that the run reads, but for that of --load-mem."""
    models = [str(given[name] or "") for name in MODELS]
    scripts = [model.removeprefix(SCRIPT) for model in models if model.startswith(SCRIPT)]
    files = [given[name] for name in ("tasks_file", "guide_file", "constraints", "void") if given[name] is not None]
    read, target = {Path(each).resolve() for each in (*scripts, *files, *given["paths"])}, path.resolve()
    if target in read or (target.exists() and read & {*target.parents}):
        raise BadInput(f"--save-mem would overwrite {path}, which the run reads: choose another file")


def _tasks(
    question: str | None, file: str | None, source: Source, *, supervised: bool
) -> tuple[tuple[Task, ...], str | None]:
    """Return the tasks about this source, and the digest of all tasks of the file; warn of those that are left out."""
    from rbank_es.loop.tasks import Task, about, load_tasks, suite_digest

    if question is not None:
        return (Task.asking(question),), None
    tasks = load_tasks(str(file))
    ours = about(tasks, source.id)
    if not ours:
        named = ", ".join(sorted({str(task.ontology) for task in tasks}))
        raise BadInput(f"all tasks of {file} are about {named}, and the source is named {source.id}; name it with --id")
    if supervised and not any(task.gold_sparql or task.answer for task in ours):
        raise BadInput(f"no task of {file} has a right answer to judge by: leave out --supervised")
    if len(ours) < len(tasks):
        warn(f"left out {count(len(tasks) - len(ours), 'task')} about other ontologies than {source.id}")
    return ours, suite_digest(tasks)


def _existing(place: str) -> Bank | None:
    with suppress(BankNotFound):
        return Bank.open(place)
    return None


_CHOSEN = (
    "executor", "preset", "mode", "domain", "memory_graph", "leave_one_out", "judge", "supervised", "unsafe_local",
    "tool_manual",
)  # fmt: skip
"""Options that are settings by the same name."""


def settings_of(given: dict[str, Any], source: Source, bank: Bank | None) -> LoopSettings:
    """Return the loop's settings from the options. Raises `BadInput`."""
    from rbank_es.loop.settings import LoopSettings

    learns = given["extract"] or given["matts"]
    # On by default where runs teach: without it, they may teach about another ontology.
    sense = given["l0"] if given["l0"] is not None else learns
    layers = [name for name, on in (("L0", sense), ("L1", given["l1"]), ("L2", given["l2"]), ("L3", given["l3"])) if on]
    chosen = {name: given[name] for name in _CHOSEN}
    if given["iterations"] is not None:
        chosen["iterations"] = given["iterations"]
    models = {name: given[name] for name in MODELS} | ({} if given["lm"] is not None else {"lm": UNNAMED})
    return LoopSettings(
        **parse_models(models, given["api_base"], given["lm_args"]),  # type: ignore[arg-type]
        **chosen,
        layers=tuple(layers),
        budgets=dict(map(parse_budget, given["budgets"])),
        constraints=read_constraints(given["constraints"], given["paths"]) if given["l1"] else None,
        guide=read_guide(given["guide_file"], given["paths"], source, bank) if given["l3"] else None,
        extract=learns,
        consolidation="append" if given["no_dedup"] else None,
        rollouts=(given["matts_k"] or _rollouts(bank)) if given["matts"] else 1,
        perturbation=given["perturb"],
        temperature=given["temperature"],
        bounds=parse_loop_bounds(given["bounds"])[0],
    )


def _rollouts(bank: Bank | None) -> int:
    """Return the number of rollouts by the bank's selection policy, or by that of a bank that is still to be made."""
    from rbank_es.policies import selection_policy

    return selection_policy(bank.policy_choice("selection") if bank is not None else None).k


def _warn(given: dict[str, Any], settings: LoopSettings, source: Source, bank: Bank | None) -> None:
    """Warn of options that work, but are probably not meant."""
    if "L0" not in settings.layers and settings.extract:
        warn("without L0 an agent may take the ontology for another one, and learn from that")
    if "L3" in settings.layers and settings.guide is None:
        from rbank_es.context.guide_summary import latest_guide

        if bank is None or latest_guide(bank, source.id) is None:
            warn(f"there is no guide to {source.id}, so L3 is empty; rbank-es guide writes one")
    warn_of_experiment(settings.budgets)
    if given["dry_run"]:
        _warn_of_dry_run(given)
    if settings.scripted:
        warn(SCRIPTED)


def _warn_of_dry_run(given: dict[str, Any]) -> None:
    if given["load_mem"] is not None:
        warn("a dry run writes nothing, so the items of --load-mem are not in the context shown")
    writes = (("--save-mem", given["save_mem"]), ("--heads", given["heads"]))
    idle = [flag for flag, on in writes if on]
    if idle:
        warn(f"a dry run writes nothing, neither for {' nor for '.join(idle)}")


# ---------------------------------------------------------------- the loop


def _run(
    place: str,
    tasks: Sequence[Task],
    suite: str | None,
    settings: LoopSettings,
    source: Source,
    given: dict[str, Any],
    results: list[TaskResult],
) -> tuple[dict[str, Any], int]:
    """Run the loop, appending each result to `results` as it comes; return facts about the bank, and `_save`'s code."""
    from rbank_es.loop.closed_loop import advice, run_closed_loop
    from rbank_es.loop.watched_bank import watched

    live = LoopDisplay(verbose=given["verbose"])
    opened, made = open_or_create(place, may_be_lost=True)
    if not locate(place).engine.outlives_process:
        warn(f"the bank {place} is lost when this command ends; --save-mem keeps its items")
    with (
        opened,
        search_vectors(opened, given["embeddings_url"]) as vectors,
        interruptible(lambda: kept_of(len(results), len(tasks), live.ends), advice(given["again"])),
        live,
    ):
        # Resolve the path before the first task: a bad one must not cost a whole loop.
        saved = outside(opened, writable(Path(given["save_mem"]))) if given["save_mem"] is not None else None
        # Opened now, for the same reason: heads that can't be noted must not be missed only after a night.
        heads = heads_file(opened, Path(given["heads"])) if given["heads"] is not None else None
        if given["load_mem"] is not None:
            from rbank_es.exchange import import_paths

            import_paths(opened, [given["load_mem"]])

        def ended(result: TaskResult) -> None:
            results.append(result)
            live.result(result)
            if heads is not None:
                note_head(opened, heads)

        options = {"again": given["again"], "on_task": live.task, "on_result": ended, "suite": suite}
        options |= {"vectors": vectors, "curriculum": given["curriculum"]}
        options["bounds"] = parse_loop_bounds(given["bounds"])[1]
        unsaved = 0
        try:
            run_closed_loop(tasks, watched(opened, live.events), settings, source, **options)
        finally:
            # Save after an error too, because finished tasks have taught items.
            if saved is not None:
                unsaved = _save(opened, saved)
        facts = {
            "bank": opened.name,
            "created": made,
            "scripted": settings.scripted,
            "model": settings.lm.name,
            "config_digest": settings.digest,
            "head": str(opened.head()),
            "endings": endings_of(live.ends),
        }
        return facts, unsaved


def _save(bank: Bank, path: Path) -> int:
    """Write the active items to a file; where that fails, warn, because the results are still to be reported.

    Returns the exit code of the failure, or 0.
    """
    from rbank_es.cli.export import save
    from rbank_es.exchange.exporters import export

    try:
        save(path, export(bank, None, "items"))
    except OSError as error:
        refused = CannotWrite(str(path), error)
        warn(f"{refused}. Nothing is lost: the items are in the bank, and rbank-es export writes them too")
        return refused.exit_code
    return 0


def _try_judging(given: dict[str, Any], *, as_json: bool) -> None:
    from rbank_es.cli.shared.self_test import try_judging

    if given["lm"] is None:
        raise BadInput("no model is named to judge and extract: give --lm, such as openai/gpt-4.1-mini or script:FILE")
    models = parse_models(
        {name: given[name] for name in ("lm", "judge_lm", "extractor_lm")}, given["api_base"], given["lm_args"]
    )
    try_judging(models, verbose=given["verbose"], as_json=as_json)


# ---------------------------------------------------------------- printing


def _report(facts: dict[str, Any], results: Sequence[TaskResult], place: str) -> None:
    _report_tasks(results)
    print_endings(facts["endings"], place)
    echo()
    echo_fields(totals(results) | {"bank": facts["bank"], "model": facts["model"], "head": facts["head"]})
    if facts["scripted"]:
        echo_scripted()


def _report_stopped(results: Sequence[TaskResult], tasks: int) -> None:
    """Print the tasks finished before the loop stopped; the error itself goes to standard error."""
    _report_tasks(results)
    if len(results) < tasks:
        echo(styled(f"\nstopped after {len(results)} of {count(tasks, 'task')}", "yellow"))


def _report_tasks(results: Sequence[TaskResult]) -> None:
    print_results(results)
    print_spreads(results)
    for result in results:
        for note in (*result.notes, *([result.error] if result.error else [])):
            echo(styled(f"{safe_line(result.task)}: {safe_line(note)}", "yellow"))


def print_results(results: Sequence[TaskResult]) -> None:
    """Print the table of results, a row for each task."""
    headers = ["task", "outcome", "verdict", "score", "steps", "calls", "tokens", "cost", "new", "known", "reason"]
    rows: list[list[Cell]] = [
        [
            result.task,
            f"{result.outcome} ({result.error_code})" if result.error_code else result.outcome,
            result.verdict or NOT_JUDGED,
            {"success": "right", "failure": "wrong"}.get(result.scored or "", result.scored),
            result.iterations,
            result.lm_calls,
            result.tokens,
            format_cost(result.cost_usd),
            len(result.added),
            "done before" if result.how == "known" else None,
            result.reason,
        ]
        for result in results
    ]
    # Without columns of no value, because the table must fit a terminal.
    echo_table(headers, rows, flexible=["reason", "task"], optional=["cost", "score", "known"])


def print_spreads(results: Sequence[TaskResult]) -> None:
    """Print a table of the rollouts of each task, if there were several."""
    rows: list[list[Cell]] = []
    for result in results:
        spread = result.spread
        if spread is not None:
            varied = f"{spread.diversity:.2f} ({spread.diversity_of})" if spread.diversity is not None else None
            judged = [spread.pass_at_1, spread.pass_at_k, spread.best_of_n]
            scored = [spread.scored_pass_at_1, spread.scored_pass_at_k, spread.scored_best_of_n]
            for by, figures in (("verdict", judged), ("score", scored)):
                if figures[0] is not None or by == "verdict":
                    share = f"{figures[0]:.2f}" if figures[0] is not None else None
                    rows.append([result.task, by, spread.rollouts, share, *figures[1:], varied, spread.best])
    headers = ["task", "by", "rollouts", "pass@1", "pass@k", "best of n", "diversity", "best"]
    echo_section("rollouts", headers, rows, flexible=["best", "task"])


def _share(verdict: str, among: Sequence[str | None], how: str) -> str:
    return f"{among.count(verdict)} of {len(among)} {how}"


def totals(results: Sequence[TaskResult]) -> dict[str, Cell]:
    """Return the totals of all tasks, by name."""
    judged = [result for result in results if result.verdict is not None]
    decided = [result for result in judged if result.verdict != "undecided"]
    scored = [result for result in results if result.scored not in (None, "undecided")]
    return {
        "tasks": len(results),
        "successes": _share("success", [each.verdict for each in decided], "decided") if judged else None,
        "undecided": len(judged) - len(decided) or None,
        "right": _share("success", [each.scored for each in scored], "scored") if scored else None,
        "new items": len({item for result in results for item in result.added}),
        "calls": known_sum(result.lm_calls for result in results),
        "tokens": known_sum(result.tokens for result in results),
        "cost": format_cost(known_sum(result.cost_usd for result in results)),
    }
