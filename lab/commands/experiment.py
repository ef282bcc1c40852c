"""`experiment`: run experiments from files, and see what they will cost."""

from __future__ import annotations

import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.agent_options import (
    agent_model_options,
    learning_model_options,
    parse_models,
    read_constraints,
    server_options,
    source_options,
)
from rbank_es.cli.shared.arguments import NumberRange
from rbank_es.cli.shared.command_registry import CommandGroup, command
from rbank_es.cli.shared.ending_table import endings_of, print_endings
from rbank_es.cli.shared.interruption import interruptible
from rbank_es.cli.shared.loop_progress import LoopDisplay
from rbank_es.cli.shared.ontology_options import open_named
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_command,
    echo_fields,
    echo_heading,
    echo_json,
    echo_paragraph,
    echo_scripted,
    echo_table,
    warn,
)
from rbank_es.data import LIGHTS
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count, format_cost, safe_line
from rbank_es.events.run_totals import known_sum
from rbank_es.lab.commands.experiment_rate import rate
from rbank_es.lab.commands.experiment_report import REPORT_COMMANDS
from rbank_es.lab.commands.experiment_shards import slurm_script, status
from rbank_es.lab.commands.experiment_simulate import simulate
from rbank_es.limits import experiment_limits

if TYPE_CHECKING:
    from rbank_es.answers.endings import EndingRow
    from rbank_es.events.run_events import Role, Trial
    from rbank_es.lab.experiment_definition import Condition, Experiment
    from rbank_es.lab.experiment_inputs import Materials
    from rbank_es.lab.experiment_plan import ExperimentPlan, Prices, RolePlan
    from rbank_es.lab.task_suite import Suite
    from rbank_es.lab.trial import TrialOutcome
    from rbank_es.loop.closed_loop import TaskResult
    from rbank_es.models.model_choice import LmChoice
    from rbank_es.sparql.data_source import Source

ROLE_OF: dict[str, Role] = {"lm": "agent", "sub_lm": "sub", "judge_lm": "judge", "extractor_lm": "extractor"}


@click.group("experiment", cls=CommandGroup)
def experiment() -> None:
    """Run experiments: conditions over a suite of tasks, each trial in a bank of its own.

    An experiment is a file in TOML; E1 to E14 come with rbank-es, and `experiment show E9 --toml` is the beginning of
    one of your own. All commands print JSON with --json.
    """


# ---------------------------------------------------------------- list and show


@command("list", "rbank-es experiment list")
def list_(as_json: bool) -> None:
    """List the experiments that come with rbank-es."""
    from rbank_es.lab.experiment_definition import load_experiment, shipped_experiments

    loaded = [load_experiment(name) for name in shipped_experiments()]
    if as_json:
        echo_json([_facts(each) for each in loaded])
        return
    rows: list[list[Cell]] = [
        [each.name, each.title, len(each.condition), each.orders, each.repetitions, each.trials] for each in loaded
    ]
    echo_table(["name", "title", "conditions", "orders", "repetitions", "trials"], rows, flexible=["title"])


@command("show", "rbank-es experiment show E9", "rbank-es experiment show E9 --toml > mine.toml")
@click.argument("name", metavar="NAME|FILE")
@click.option("--toml", "as_toml", is_flag=True, help="Print the definition with every default filled in.")
def show(name: str, as_toml: bool, as_json: bool) -> None:
    """Show an experiment: its question, its conditions and how they differ, and the contrasts that it declares."""
    from rbank_es.lab.experiment_definition import load_experiment

    loaded = load_experiment(name)
    if as_toml and as_json:
        raise click.UsageError("--toml and --json are two forms of the same: leave one out.")
    if as_toml:
        echo(loaded.to_toml().rstrip("\n"))
    elif as_json:
        echo_json(_facts(loaded))
    else:
        _print_experiment(loaded)


def _facts(loaded: Experiment) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(loaded)
    return facts | {"trials": loaded.trials, "digest": loaded.digest}


def _print_experiment(loaded: Experiment) -> None:
    echo_heading(f"{safe_line(loaded.name)}: {safe_line(loaded.title)}")
    echo_paragraph(safe_line(loaded.question))
    rows: list[list[Cell]] = [[each.name, each.about, _differences(each, loaded)] for each in loaded.condition]
    echo_table(
        ["condition", "what it is", "settings that differ"], rows, flexible=["what it is", "settings that differ"]
    )
    echo_fields(
        {
            "suite": loaded.suite,
            "trials": f"{loaded.trials}: {count(len(loaded.condition), 'condition')} x {count(loaded.orders, 'order')} "
            f"x {count(loaded.repetitions, 'repetition')}",
            "baseline": loaded.baseline,
            "contrasts": "; ".join(f"{one} against {other}" for one, other in loaded.contrasts) or None,
            "interactions": "; ".join(
                f"{one} against {other}, less {third} against {fourth}"
                for one, other, third, fourth in loaded.interactions
            )
            or None,
        }
    )


def _differences(condition: Condition, loaded: Experiment) -> str:
    """Return the settings in which the conditions of an experiment differ, as one of them has them."""
    own = _flat(msgspec.to_builtins(condition))
    others = [_flat(msgspec.to_builtins(each)) for each in loaded.condition]
    differing = [name for name in own if any(each.get(name) != own[name] for each in others)]
    return ", ".join(f"{name}={_shown(own[name])}" for name in differing if name not in ("name", "about"))


def _flat(facts: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in facts.items():
        place = before if name == "policies" else f"{before}{name}"
        flat |= _flat(value, f"{place}." if place else "") if isinstance(value, dict) else {place: value}
    return flat


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "+".join(map(str, value)) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- run


@command(
    "run",
    "rbank-es experiment run E9 --lm openai/gpt-4.1-mini --dry-run",
    "rbank-es experiment run E9 --lm openai/gpt-4.1-mini --jobs 4 --into results/e9",
    "rbank-es experiment run E9 --lm openai/gpt-4.1-mini --shard 3/40 --into /shared/e9",
    "rbank-es experiment run mine.toml --tasks tasks.json --ont model.ttl --lm openai/any --api-base http://localhost:8000/v1",
)
@click.argument("name", metavar="NAME|FILE")
@source_options
@click.option("--tasks", "tasks_file", metavar="FILE", help="The suite; default: that of the experiment.")
@agent_model_options
@learning_model_options
@server_options
@click.option(
    "--orders",
    metavar="N",
    type=click.IntRange(1, experiment_limits.EXPERIMENT_TRIALS),
    help="Shuffled orders of tasks.",
)
@click.option(
    "--repeat",
    metavar="N",
    type=click.IntRange(1, experiment_limits.EXPERIMENT_TRIALS),
    help="Repetitions of each order.",
)
@click.option(
    "--jobs", metavar="N", type=click.IntRange(1, experiment_limits.EXPERIMENT_JOBS), default=1, show_default=True,
    help="Trials side by side.",
)  # fmt: skip
@click.option("--into", metavar="DIR", help="The folder of the results; default: experiments/NAME.")
@click.option("--shard", metavar="N/OF", help="Be one of several processes, on any machines, that share the folder.")
@click.option("--slurm", is_flag=True, help="Print a script for Slurm that runs this command as all shards.")
@click.option(
    "--patience", "patience_min", metavar="MINUTES", default=experiment_limits.EXPERIMENT_PATIENCE_S / 60,
    show_default=True, type=NumberRange(0, experiment_limits.EXPERIMENT_PATIENCE_MOST_S / 60),
    help="How long to wait for a model that fails, before the experiment stops.",
)  # fmt: skip
@click.option("--constraints", metavar="FILE", help="Curated constraints for L1; default: those beside the ontology.")
@click.option("--dry-run", is_flag=True, help="Print the trials, and an estimate of calls and cost; write nothing.")
@click.option("--prices", metavar="IN,OUT", help="US dollars per million tokens of prompts and answers, for --dry-run.")
def run(name: str, as_json: bool, **given: Any) -> None:
    """Run an experiment: every condition, in every order and repetition, each trial in a bank of its own.

    All banks are forks of one that has the ontology, and a guide where one is needed.
    Interrupted in any way, the same command goes on: a task counts whole or not at all. A folder of another experiment,
    another suite or other code is refused. Keys are read from environment variables alone, such as OPENAI_API_KEY.

    With --shard 3/40 it is one of 40 processes: each trial is run by the first that claims it and published once; who
    has no trial left takes those that nobody is at. The same command goes on after an interruption; `experiment status`
    shows how far they are.
    """
    from rbank_es.lab.experiment_definition import load_experiment
    from rbank_es.lab.shards import Shard

    shard = Shard.parse(given["shard"]) if given["shard"] is not None else None
    if (shard or given["slurm"]) and (shard is None or given["into"] is None):
        raise BadInput("shards share a folder: name them with --shard N/OF, and it with --into DIR")
    if shard is not None and given["slurm"]:
        echo(slurm_script(sys.argv[1:], shard.of))
        return

    if given["prices"] is not None and not given["dry_run"]:
        raise BadInput("--prices are for the estimate: add --dry-run, or leave them out")
    prices = _prices(given["prices"])
    chosen = _chosen(load_experiment(name), given)
    with ExitStack() as stack:
        materials = _materials(chosen, name, given, stack)
        if given["dry_run"]:
            from rbank_es.lab.experiment_plan import planned

            _print_plan(planned(materials, prices), as_json=as_json)
            return
        folder = Path(given["into"] or Path("experiments") / chosen.name)
        live = LoopDisplay()
        outcomes = _run(materials, folder, given | {"shard": shard}, live)
        if shard is not None and not outcomes:
            warn(f"no trial was left for this shard; see: rbank-es experiment status {shlex.quote(str(folder))}")
    endings = endings_of(live.ends)
    scripted = any(choice.scripted for choice in chosen.models.values())
    if as_json:
        facts = {"experiment": chosen.name, "folder": str(folder), "scripted": scripted}
        echo_json(facts | {"trials": outcomes, "endings": endings})
    else:
        _print_outcomes(chosen, folder, outcomes, endings, scripted=scripted)


def _chosen(loaded: Experiment, given: dict[str, Any]) -> Experiment:
    """Return the experiment with what the command line replaces. Raises `BadInput`."""
    named: dict[str, LmChoice | None] = parse_models(
        {option: given[option] for option in ROLE_OF}, given["api_base"], given["lm_args"]
    )
    models = {ROLE_OF[option]: choice for option, choice in named.items() if choice is not None}
    if not models and not loaded.models and given["dry_run"]:
        from rbank_es.lab.experiment_definition import UNNAMED

        models = {"agent": UNNAMED}
    return msgspec.structs.replace(
        loaded,
        models=loaded.models | models,
        suite=given["tasks_file"] or loaded.suite,
        orders=given["orders"] or loaded.orders,
        repetitions=given["repeat"] or loaded.repetitions,
    )


def _materials(chosen: Experiment, name: str, given: dict[str, Any], stack: ExitStack) -> Materials:
    from rbank_es.lab.experiment_inputs import gather
    from rbank_es.lab.task_suite import load_suite

    folder = Path(name).parent if Path(name).suffix == ".toml" else Path()
    beside = folder / chosen.suite
    # A file beside the definition comes before a shipped suite of that name.
    place = beside if given["tasks_file"] is None and beside.exists() else chosen.suite
    suite = load_suite(place)
    folders = Path(place).parent
    sources = {} if given["paths"] or given["endpoint"] else _several(suite, folders, stack, given["whole"])
    named = msgspec.structs.replace(chosen, suite=suite.name)
    if sources:
        if given["constraints"] is not None:
            raise BadInput(
                "--constraints are about one ontology, and the suite's tasks are about several: leave it out"
            )
        first, *_ = sources.values()
        return gather(named, suite, first, others=sources, folder=folder)
    paths, endpoint = _only_source(suite, folders, given)
    id = given["id"] or (suite.ontology if paths else None)
    own = suite.is_whole(suite.ontology) if not given["paths"] and endpoint is None else None
    whole = own if given["whole"] is None else given["whole"]
    source = open_named(paths, stack, endpoint=endpoint, void=given["void"], id=id, whole=whole)
    curated = read_constraints(given["constraints"], paths) if paths else None
    return gather(named, suite, source, constraints=curated, folder=folder)


def _several(suite: Suite, folder: Path, stack: ExitStack, whole: bool | None) -> dict[str, Source]:
    """Open the sources of a suite whose tasks name several; return none where they name one, or none.

    Raises `BadInput` for an ontology without files.
    """
    from rbank_es.lab.experiment_inputs import about

    names = dict.fromkeys(name for task in suite.tasks if (name := about(task)) is not None)
    endpoints = {task.endpoint for task in suite.tasks if task.ontology is None}
    if len(names) < 2:
        return {}

    def opened(name: str) -> Source:
        if name in endpoints:
            return open_named((), stack, endpoint=name, whole=whole)
        declared = suite.is_whole(name) if whole is None else whole
        return open_named(_files_of(suite, name, folder), stack, id=name, whole=declared)

    return {name: opened(name) for name in names}


def _files_of(suite: Suite, about: str, folder: Path) -> tuple[str, ...]:
    if about in suite.files:
        return tuple(str(folder / file) for file in suite.files[about])
    if about == LIGHTS:
        return (LIGHTS,)
    raise BadInput(
        f"the suite {suite.name} is about {about}: name its files with --ont, or those of each ontology in the suite"
    )


def _only_source(suite: Suite, folder: Path, given: dict[str, Any]) -> tuple[Sequence[str], str | None]:
    """Return the files or the endpoint that all tasks ask: those on the command line, else the suite's.

    Raises `BadInput` where neither names one.
    """
    if given["paths"] or given["endpoint"] is not None:
        return given["paths"], given["endpoint"]
    # One at most: the sources of a suite that names several are opened by `_several`.
    for about in suite.ontologies:
        return _files_of(suite, about, folder), None
    for endpoint in filter(None, (task.endpoint for task in suite.tasks)):
        return (), endpoint
    raise BadInput(
        f"the suite {suite.name} names neither an ontology nor an endpoint: name one source with --ont or --endpoint"
    )


def _prices(text: str | None) -> Prices | None:
    from rbank_es.lab.experiment_plan import Prices

    if text is None:
        return None
    try:
        usd_in, usd_out = (float(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"--prices {text!r}: write two numbers, such as 0.4,1.6") from None
    if not (0 <= usd_in < float("inf") and 0 <= usd_out < float("inf")):
        raise BadInput(f"--prices {text!r}: prices are 0 or more")
    return Prices(usd_in=usd_in, usd_out=usd_out)


def _run(materials: Materials, folder: Path, given: dict[str, Any], live: LoopDisplay) -> tuple[TrialOutcome, ...]:
    from rbank_es.lab.experiment_run import run_experiment
    from rbank_es.loop.closed_loop import GOES_ON

    total = materials.experiment.trials * len(materials.suite.tasks)
    done, notes, began = 0, Counter[tuple[str, str]](), time.monotonic()

    def place_of(done: int) -> str:
        left_min = (time.monotonic() - began) * (total - done) / done / 60 if done else 0
        return f"{done:,} of {count(total, 'task')}" + (f", {left_min:,.0f} min left" if left_min >= 1 else "")

    with ExitStack() as stack:
        # Report it also if the experiment stops: unreadable extractions would look like a memory without effect.
        stack.callback(_warn_of, notes)
        stack.enter_context(interruptible(lambda: f"Kept: each finished task, {done} of them now", GOES_ON))
        stack.enter_context(live)
        live.place(place_of(0))

        def on_task(trial: Trial, result: TaskResult) -> None:
            nonlocal done
            done += 1
            notes.update((trial.condition, note) for note in result.notes)
            live.place(place_of(done))

        watching: dict[str, Any] = {"on_task": on_task, "on_events": live.events}
        watching |= {"jobs": given["jobs"], "shard": given["shard"], "patience_s": 60 * given["patience_min"]}
        return run_experiment(materials, folder, **watching)


# ---------------------------------------------------------------- printing


def _warn_of(notes: Counter[tuple[str, str]]) -> None:
    """Say which stages were left undone, and in how many tasks of a condition."""
    for (condition, note), tasks in notes.most_common(experiment_limits.NOTES_NAMED):
        warn(f"{safe_line(condition)}, {count(tasks, 'task')}: {safe_line(note)}")


def _print_plan(plan: ExperimentPlan, *, as_json: bool) -> None:
    if as_json:
        echo_json({"written": False, "runs": plan.runs, "usd_most": plan.usd_most, **msgspec.to_builtins(plan)})
        return
    echo_heading(
        f"{safe_line(plan.experiment)}: {count(plan.trials, 'trial')} over {count(plan.tasks, 'task')}, "
        f"{count(plan.runs, 'run')}"
    )
    rows = [row for each in plan.conditions for row in _plan_rows(each.condition, each.runs, each.roles)]
    rows += _plan_rows("the guide, once", 1, plan.guide)
    rows += _plan_rows("ratings", None, plan.ratings)
    headers = ["condition", "runs", "role", "model", "calls at least", "at most", "characters in", "and out", "dollars"]
    echo_table(headers, rows, optional=["dollars"])
    least, most = sum(role.calls_least for role in plan.roles), sum(role.calls_most for role in plan.roles)
    cost = f", ${plan.usd_most:,.2f}" if plan.usd_most is not None else ""
    echo_paragraph(
        f"{least:,} to {most:,} calls{cost}; characters and cost are those of the most calls, where every run takes "
        "all its steps and every sub-call. Calls that fail come on top. No model was called and nothing was written."
    )


def _plan_rows(name: str, runs: int | None, roles: Sequence[RolePlan]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for number, role in enumerate(roles):
        first: list[Cell] = [name, runs] if not number else [None, None]
        calls: list[Cell] = [role.calls_least, role.calls_most, role.chars_in_most, role.chars_out_most]
        cost = f"{role.usd_most:,.2f}" if role.usd_most is not None else None
        rows.append([*first, role.role, role.model, *calls, cost])
    return rows


def _print_outcomes(
    chosen: Experiment,
    folder: Path,
    outcomes: Sequence[TrialOutcome],
    endings: Sequence[EndingRow],
    *,
    scripted: bool,
) -> None:
    rows: list[list[Cell]] = []
    for condition in chosen.condition:
        own = [each for each in outcomes if each.trial.condition == condition.name]
        rows.append(
            [
                condition.name,
                len(own),
                sum(each.runs for each in own),
                sum(each.right for each in own),
                sum(each.successes for each in own),
                known_sum(each.lm_calls for each in own),
                known_sum(each.tokens for each in own),
                format_cost(known_sum(each.cost_usd for each in own)),
                sum(each.cuts for each in own) or None,
            ]
        )
    headers = ["condition", "trials", "runs", "right", "judged right", "calls", "tokens", "cost", "cut off"]
    echo_table(headers, rows, optional=["cost", "cut off"])
    print_endings(endings, None)
    echo(f"{count(len(outcomes), 'trial')} in {safe_line(str(folder))}")
    if scripted:
        echo_scripted()
    echo("\nWhat came of it, with intervals and curves:")
    echo_command(f"experiment report {shlex.quote(str(folder))}")


experiment.add_commands(list_, show, run, status, rate, simulate, *REPORT_COMMANDS)
