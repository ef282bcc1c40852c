"""What the commands that set an agent to work have in common: the options of models and sources, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from rbank_es.cli.context import parse_budget
from rbank_es.cli.shared.arguments import ONTOLOGY_HELP, is_shipped, loaded, places, refuse_mixtures
from rbank_es.cli.shared.output import complain
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.models.choice import SCRIPT

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.models.choice import LmChoice
    from rbank_es.sparql.source import Source


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

SCRIPTED = "scripted: a script stood in for the model"
"""What every report says of runs in which no model answered."""


def decorated(*options: Decorator) -> Decorator:
    """Several options as one decorator, in their order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


source_options = decorated(
    click.option("--ont", "paths", metavar="PATH", multiple=True, help=ONTOLOGY_HELP),
    click.option("--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead: its URL, or a profile's name."),
    click.option("--void", metavar="FILE", help="A VoID description of the endpoint: its schema, with no query."),
    click.option(
        "--id", "id", metavar="ID", help="What the bank calls what is asked; the first file's name, or the endpoint's."
    ),
)

agent_model_options = decorated(
    click.option("--lm", metavar="MODEL", help="The agent's model, as dspy.LM takes it, or script:FILE."),
    click.option("--sub-lm", metavar="MODEL", help="The model that the agent's code may ask; --lm, unless given."),
)

learning_model_options = decorated(
    click.option("--judge-lm", metavar="MODEL", help="The model that judges; --lm, unless given."),
    click.option("--extractor-lm", metavar="MODEL", help="The model that draws items from runs; likewise."),
)

server_options = decorated(
    click.option("--api-base", metavar="URL", help="A model server of one's own, for all the models named."),
    click.option("--lm-arg", "lm_args", metavar="K=V", multiple=True, help="A parameter, for all the models named."),
)

executor_options = decorated(
    click.option(
        "--executor", type=click.Choice(["rlm", "react", "scratchpad"]), default="rlm", show_default=True,
        help="Code with the whole history; single calls of tools; code with a short history.",
    ),
    click.option("--iterations", metavar="N", type=click.IntRange(1), help="Steps that a run may take; default: 12."),
    click.option("--unsafe-local", is_flag=True, help="Run the agent's code WITHOUT a sandbox."),
)  # fmt: skip


def chosen_models(
    given: dict[str, str | None], api_base: str | None, arguments: Sequence[str]
) -> dict[str, LmChoice | None]:
    """The models by the names of their options, each with the same address and arguments. Raises `BadInput`."""
    from rbank_es.models.choice import LmChoice

    return {
        name: LmChoice.parse(model, api_base=api_base, arguments=arguments) if model is not None else None
        for name, model in given.items()
    }


def check_settings(settings: LoopSettings) -> None:
    """Raise what every run would fail of, before a bank is made for it. Nothing is sent.

    Raises `LmFailed` for a key that is missing, `BadInput` for a script or a parameter, `SandboxUnavailable`.
    """
    from rbank_es.loop.run_context import check

    check(settings)


def opened_source(
    paths: Sequence[str], endpoint: str | None, void: str | None, id: str | None, stack: ExitStack
) -> Source:
    """The one source that is named, closed with the stack. Raises `BadInput` where none or several are."""
    from rbank_es.ontology.loader import checked_id
    from rbank_es.sparql.source import open_source

    refuse_mixtures(paths, endpoint, void)
    if endpoint is not None:
        source = open_source(endpoint=endpoint, void=void)
        source = source if id is None else msgspec.structs.replace(source, id=checked_id(id))
    elif paths:
        source = open_source(ontology=loaded(paths, id))
    else:
        raise BadInput("what should the agent ask? Name an ontology with --ont, or an endpoint with --endpoint")
    stack.callback(source.close)
    return source


@contextmanager
def resumable(again: bool) -> Iterator[None]:
    """Whoever interrupts a loop is told how it goes on; `again` is whether all tasks were to be run again."""
    try:
        yield
    except KeyboardInterrupt:
        from rbank_es.loop.closed_loop import advice

        complain(f"interrupted. {advice(again)}")
        raise


def constraints_text(given: str | None, paths: Sequence[str]) -> str | None:
    """The text of the curated constraints: of the file that is named, else of the one beside the ontology.

    Raises `BadContextFile` for a file that can't be used.
    """
    from rbank_es.context.curated_constraints import curated_beside, parse_curated
    from rbank_es.context.files import read_text

    if given is not None:
        place: Path | None = Path(given)
    elif any(map(is_shipped, paths)):
        place = lights().constraints
    else:
        place = next(filter(None, map(curated_beside, places(paths))), None)
    if place is None:
        return None
    text = read_text(place)
    parse_curated(text, str(place))
    return text


def guide_text(given: str | None, paths: Sequence[str], source: Source, bank: Bank | None) -> str | None:
    """The text of the guide that is named; that of the shipped ontology where the bank has none; else None."""
    from rbank_es.context.files import read_text
    from rbank_es.context.guide import latest_guide

    if given is not None:
        return read_text(Path(given))
    if any(map(is_shipped, paths)) and (bank is None or latest_guide(bank, source.id) is None):
        return read_text(lights().guide)
    return None


Given = Mapping[str, Any]
"""The options of a command by the names of their parameters, given or not."""

MODELS = ("lm", "sub_lm", "judge_lm", "extractor_lm")

CANNED = frozenset({"bank", "canned", "extract", "lm", "judge_lm", "extractor_lm", "api_base", "lm_args", "verbose"})
"""What `--test` heeds."""


class Idle(NamedTuple):
    """Options that do nothing where `where` holds, and why; `{}` stands for their names."""

    names: tuple[str, ...]
    where: Callable[[Given], bool]
    why: str


OF_THE_AGENT = (
    Idle(("sub_lm", "unsafe_local"), lambda given: given["executor"] == "react", "react runs no code: leave out {}"),
    Idle(
        ("api_base",),
        lambda given: given["lm"] is not None and not any(_is_of_a_server(given.get(name)) for name in MODELS),
        "a script is asked at no address: leave out {}",
    ),
)
"""Of every command that sets an agent to work."""

OF_A_LOOP = (
    *OF_THE_AGENT,
    Idle(("constraints",), lambda given: not given["l1"], "constraints reach an agent by L1: add --l1 to {}"),
    Idle(("guide_file",), lambda given: not given["l3"], "a guide reaches an agent by L3: add --l3 to {}"),
    Idle(("extractor_lm",), lambda given: not _learns(given), "nothing is extracted: add --extract to {}"),
    Idle(("judge_lm",), lambda given: given["judge"] != "lm", "no model is asked to judge: leave out --judge or {}"),
    Idle(("supervised",), lambda given: given["judge"] == "none", "nobody judges: leave out --judge none or {}"),
    Idle(
        ("supervised",),
        lambda given: given["question"] is not None,
        "a --task has no right answer to judge by: leave out {}, or give one in a file with --tasks",
    ),
    Idle(
        ("perturb",),
        lambda given: given["perturb"] != "none" and (not given["matts"] or given["matts_k"] == 1),
        "{} puts the question otherwise to each of several rollouts: add --matts, with more than one",
    ),
    Idle(
        ("l2",),
        lambda given: given["mode"] == ("tools" if given["l2"] else "both"),
        "{} contradicts --mode: items are put in the context with auto and both, and not with tools",
    ),
)
"""Of `run`."""


def refuse_idle(context: click.Context, given: Given, rules: tuple[Idle, ...]) -> None:
    """Raise `BadInput` for the first of the options given that would do nothing."""
    flags = flags_given(context)
    for rule in rules:
        idle = [flags[name] for name in rule.names if name in flags]
        if idle and rule.where(given):
            raise BadInput(rule.why.format(" and ".join(idle)))


def refuse_beside_test(context: click.Context) -> None:
    """Raise `BadInput` for options that `--test` has no use for."""
    idle = [flag for name, flag in flags_given(context).items() if name not in CANNED]
    if idle:
        raise BadInput(
            f"--test tries judging and extracting on made-up runs of its own, and heeds no {', '.join(idle)}: "
            f"leave {'it' if len(idle) == 1 else 'them'} out, or leave out --test"
        )


def refuse_idle_budgets(given: Given, layers: tuple[str, ...]) -> None:
    """Raise `BadInput` for the budget of a layer that is off, or for a second one of a layer."""
    named = [parse_budget(text)[0] for text in given["budgets"]]
    shown = {"base", *layers} - ({"L2"} if given["mode"] == "tools" else set())
    for layer in named:
        if layer in ("L0", "L1", "L2", "L3") and layer not in shown:
            advice = "leave out --no-l2 and --mode tools" if layer == "L2" else f"add --{layer.lower()}"
            raise BadInput(f"--budget {layer} has nothing to bound, for the layer is off: {advice}, or leave it out")
        if named.count(layer) > 1:
            raise BadInput(f"--budget {layer} is there {named.count(layer)} times; give it once")


def flags_given(context: click.Context) -> dict[str, str]:
    """The options that stand on the command line, as they are written, by the names of their parameters."""
    return dict(_flags(context))


def _flags(context: click.Context) -> Iterator[tuple[str, str]]:
    for option in context.command.params:
        name = str(option.name)
        on_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if on_line and isinstance(option, click.Option) and name not in ("as_json", "help"):
            off = option.secondary_opts and not context.params[name]
            yield name, (option.secondary_opts if off else option.opts)[0]


def _learns(given: Given) -> bool:
    return bool(given["extract"] or given["matts"])


def _is_of_a_server(model: str | None) -> bool:
    return model is not None and not model.startswith(SCRIPT)
