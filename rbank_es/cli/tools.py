"""`tools`: the manual of what an agent may call, and a way to try it: the answer, and what would be recorded of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.banks import whole_bank
from rbank_es.cli.shared.event_sentences import summary
from rbank_es.cli.shared.ontology_sources import ONTOLOGY_HELP, loaded, refuse_mixtures
from rbank_es.cli.shared.output import flush, heading, paragraph, say, say_json, styled
from rbank_es.cli.shared.terminal_text import block, count, line
from rbank_es.data import LIGHTS
from rbank_es.errors import BadInput
from rbank_es.events import Event, RunStarted, ToolCalled, type_of

if TYPE_CHECKING:
    from rbank_es.tools.runtime.toolbox import Toolbox

RUN = "tried"
"""The run that all calls of one command belong to."""

TASK = "Tried from the command line"


class Call(NamedTuple):
    """One call as it was written: a tool's name and its arguments."""

    tool: str
    arguments: dict[str, Any]


class Tried(NamedTuple):
    """A call, what the agent would get, and the events that were written before it got that."""

    call: Call
    result: dict[str, Any]
    cap_chars: int
    events: tuple[Event, ...]

    @property
    def chars(self) -> int:
        """Characters that the agent got, as JSON."""
        return next((event.chars or 0 for event in self.events if isinstance(event, ToolCalled)), 0)


@command(
    "tools",
    "rbank-es tools",
    """rbank-es tools --call 'sparql_query {"query": "SELECT ?l WHERE { ?l a lt:Lighthouse }"}'""",
    """rbank-es tools --ont model.ttl --call g_stats --call 'g_search {"text": "height"}'""",
    "rbank-es tools --endpoint uniprot",
)
@click.option("--ont", "paths", metavar="PATH", multiple=True, help=f"{ONTOLOGY_HELP} Default: {LIGHTS}.")
@click.option(
    "--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead: its URL, a profile's name or TOML file."
)
@click.option("--void", metavar="FILE", help="A VoID description of the endpoint: its schema, with no query.")
@click.option("--bank", metavar="BANK", help="Whose memories the tools read, in a copy; an empty one, unless given.")
@click.option("--call", "calls", metavar="'NAME {…}'", multiple=True, help="Call a tool with arguments as JSON.")
@click.option("--naive", is_flag=True, help="Payloads instead of handles: the control condition of experiments.")
def tools(
    paths: tuple[str, ...],
    endpoint: str | None,
    void: str | None,
    bank: str | None,
    calls: tuple[str, ...],
    naive: bool,
    as_json: bool,
) -> None:
    """Print the manual of the tools that an agent gets for a source; with --call, try them and print what it would get.

    Calls are made in order and share one run, so that a later one can use a handle (results_0) of an earlier one.
    They are recorded in a temporary bank, or in a temporary copy of BANK: nothing is kept, and BANK is not written to.
    No request goes anywhere but to the endpoint that you name.
    """
    refuse_mixtures(paths, endpoint, void)
    planned = [parse_call(call) for call in calls]
    with _scratch(bank) as opened, _toolbox(opened, paths, endpoint, void, naive=naive) as box:
        _refuse_unknown(planned, box)
        if not planned:
            _print_manual(box, as_json=as_json)
        elif as_json:
            say_json(_source(box) | {"calls": [_facts(tried) for tried in _try(box, planned)]})
        else:
            say(styled(f"over {_words(box)}; recorded in {_kept(bank)}", "dim"))
            for tried in _try(box, planned):
                _tell(tried)


# ---------------------------------------------------------------- what is asked for


def parse_call(text: str) -> Call:
    """A call from `NAME {"argument": value}`, or from `NAME` alone. Raises `BadInput`."""
    name, _, rest = text.strip().partition(" ")
    if not name:
        raise BadInput("a call needs the name of a tool: --call 'NAME {\"argument\": value}'")
    try:
        arguments = msgspec.json.decode(rest) if rest.strip() else {}
    except msgspec.DecodeError as error:
        raise BadInput(f"the arguments of {name} are not JSON: {error}; write 'NAME {{\"argument\": value}}'") from None
    if not isinstance(arguments, dict):
        raise BadInput(f'the arguments of {name} must be a JSON object, such as {{"argument": value}}')
    return Call(name, arguments)


def _refuse_unknown(calls: Sequence[Call], box: Toolbox) -> None:
    """All names are looked at before the first call is made."""
    for call in calls:
        if call.tool not in box.functions:
            from difflib import get_close_matches

            near = get_close_matches(call.tool, box.functions, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(box.functions)}"
            raise BadInput(f"no tool is called {call.tool!r}; {hint}")


@contextmanager
def _scratch(given: str | None) -> Iterator[Bank]:
    """A bank that goes away: an empty one, or a copy of the one that is named, with a run begun in it."""
    with ExitStack() as stack:
        if given is None:
            bank = stack.enter_context(Bank.create("memory:"))
        else:
            bank = stack.enter_context(stack.enter_context(Bank.open(whole_bank(given))).copy())
        bank.append(RunStarted(run=RUN, task=TASK, scripted=True))
        yield bank


def _toolbox(bank: Bank, paths: Sequence[str], endpoint: str | None, void: str | None, *, naive: bool) -> Toolbox:
    from rbank_es.tools.runtime.tool_session import ToolPolicy
    from rbank_es.tools.runtime.toolbox import build_tools

    policy = ToolPolicy(payloads="naive" if naive else "handles", mode="both")
    if endpoint is not None:
        return build_tools(bank, run=RUN, endpoint=endpoint, void=void, policy=policy)
    return build_tools(bank, run=RUN, ontology=loaded(paths or (LIGHTS,)), policy=policy)


# ---------------------------------------------------------------- calling


def _try(box: Toolbox, calls: Sequence[Call]) -> Iterator[Tried]:
    caps = {tool.name: tool.cap_chars for tool in box.manual()}
    bank = box.desk.bank
    for call in calls:
        before = bank.position
        result = box.call(call.tool, call.arguments)
        yield Tried(call, result, caps[call.tool], tuple(bank.events(after=before)))


def _facts(tried: Tried) -> dict[str, Any]:
    return {
        "tool": tried.call.tool,
        "arguments": tried.call.arguments,
        "result": tried.result,
        "chars": tried.chars,
        "cap_chars": tried.cap_chars,
        "events": tried.events,
    }


# ---------------------------------------------------------------- showing


def _source(box: Toolbox) -> dict[str, Any]:
    source = box.desk.source
    assert source is not None  # `_toolbox` always gives one
    triples = source.schema.triples if source.schema is not None else None
    return {"source": {"id": source.id, "kind": source.kind, "url": source.url, "triples": triples}}


def _words(box: Toolbox) -> str:
    source = box.desk.source
    assert source is not None
    if source.url is not None:
        return f"the endpoint {line(source.url)}"
    triples = source.schema.triples if source.schema is not None else 0
    return f"{source.id} ({count(triples, 'triple')})"


def _kept(bank: str | None) -> str:
    return f"a temporary copy of {bank}" if bank else "a temporary bank"


def _print_manual(box: Toolbox, *, as_json: bool) -> None:
    manual = box.manual()
    if as_json:
        say_json(_source(box) | {"tools": [tool._asdict() for tool in manual]})
        return
    say(styled(f"{count(len(manual), 'tool')} over {_words(box)}", "bold"))
    paragraph(
        "What stands under a name is what the agent is told. Every tool returns a small dict with ok; large results "
        "stay behind a handle. An argument that takes a handle takes its key, its alias or the whole dict."
    )
    for tool in manual:
        heading(tool.usage)
        say("\n".join(f"    {text}".rstrip() for text in block(tool.doc).split("\n")))
        say(styled(f"    (at most {tool.cap_chars:,} characters)", "dim"))


def _tell(tried: Tried) -> None:
    arguments = msgspec.json.encode(tried.call.arguments).decode() if tried.call.arguments else ""
    heading(f"{tried.call.tool} {line(arguments)}".rstrip())
    say(block(laid_out(tried.result)))
    say(styled(f"{tried.chars:,} characters, of at most {tried.cap_chars:,}", "dim"))
    for event in tried.events:
        if isinstance(event, ToolCalled):
            said = f"call {event.call}" + (f", payload behind {event.alias}" if event.alias else "")
        else:
            said = summary(event)
        say(styled(f"recorded at {event.seq:,}: {type_of(event)}, {line(said)}", "dim"))
    flush()


def laid_out(result: Mapping[str, Any]) -> str:
    """A result as JSON, a line for each of its parts, and for each row in a part that has rows."""
    parts = [f"  {_json(name)}: {_part(value)}" for name, value in result.items()]
    return "{\n" + ",\n".join(parts) + "\n}"


def _part(value: Any) -> str:
    if isinstance(value, list) and len(value) > 1 and any(isinstance(entry, dict) for entry in value):
        return "[\n" + ",\n".join(f"    {_json(entry)}" for entry in value) + "\n  ]"
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
