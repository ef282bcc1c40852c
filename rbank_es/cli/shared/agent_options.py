"""What the commands that set an agent to work have in common: the options of models and sources, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from rbank_es.cli.shared.ontology_sources import ONTOLOGY_HELP, is_shipped, loaded, places, refuse_mixtures
from rbank_es.cli.shared.output import complain
from rbank_es.data import lights
from rbank_es.errors import BadInput

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.executors.executor import Executor
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.models.choice import LmChoice
    from rbank_es.registry import Registry
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


class ExecutorName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """The name of an executor, one of a plugin too. The registry is imported when a name is parsed or listed."""

    name = "executor"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the names as help shows them."""
        return f"[{'|'.join(self._registry().names())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises `BadParameter` for an unknown one, listing the known ones."""
        try:
            self._registry().check(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)
        return value

    def _registry(self) -> Registry[type[Executor]]:
        from rbank_es.executors.executor import EXECUTORS

        return EXECUTORS


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
        "--executor", type=ExecutorName(), default="rlm", show_default=True,
        help="How the agent works: in code, or by single tool calls; see docs/agents.md.",
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
    from rbank_es.loop.resources import check

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
    from rbank_es.context.constraints import curated_beside, parse_curated
    from rbank_es.context.layer import read_text

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
    from rbank_es.context.guide_summary import latest_guide
    from rbank_es.context.layer import read_text

    if given is not None:
        return read_text(Path(given))
    if any(map(is_shipped, paths)) and (bank is None or latest_guide(bank, source.id) is None):
        return read_text(lights().guide)
    return None
