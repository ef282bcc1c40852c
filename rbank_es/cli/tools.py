"""`tools`: the manual of an agent's tools, and a trial of calls: their results and the events recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.bank.memory_graph import MemoryGraph
from rbank_es.cli.shared.agent_options import bound_option, memory_graph_option
from rbank_es.cli.shared.arguments import parse_bounds, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.ontology_options import ONTOLOGY_HELP, ontology_options, skips_unreadable
from rbank_es.cli.shared.output import echo, echo_heading, echo_json, echo_paragraph, flush, safe_block, styled
from rbank_es.data import LIGHTS
from rbank_es.errors import BadInput
from rbank_es.events import Event, RunStarted, ToolCalled, type_of
from rbank_es.events.event_sentences import summary
from rbank_es.events.readable_text import count, safe_line
from rbank_es.system.nearest_name import hint
from rbank_es.system.redacted_locator import shown_locator

if TYPE_CHECKING:
    from rbank_es.events.run_events import RunBounds
    from rbank_es.tools.shared.toolbox import Toolbox

RUN = "tried"
"""Id of the run of all calls."""

TASK = "Tried from the command line"


class PlannedCall(NamedTuple):
    """A call from the command line: a tool's name and its arguments."""

    tool: str
    arguments: dict[str, Any]


class TriedCall(NamedTuple):
    """A call with its result and the events recorded of it."""

    call: PlannedCall
    result: dict[str, Any]
    cap_chars: int
    events: tuple[Event, ...]

    @property
    def chars(self) -> int:
        """The result's characters, as JSON."""
        return next((event.chars or 0 for event in self.events if isinstance(event, ToolCalled)), 0)


@command(
    "tools",
    "rbank-es tools",
    """rbank-es tools --call 'sparql_query {"query": "SELECT ?l WHERE { ?l a lt:Lighthouse }"}'""",
    """rbank-es tools --ont model.ttl --call g_stats --call 'g_search {"text": "height"}'""",
    "rbank-es tools --endpoint uniprot",
)
@ontology_options(f"{ONTOLOGY_HELP} Default: {LIGHTS}.")
@click.option(
    "--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead: its URL, a profile's name or TOML file."
)
@click.option("--void", metavar="FILE", help="A VoID description of the endpoint: its schema, with no query.")
@click.option("--bank", metavar="BANK", help="The bank that the tools read, in a copy; default: an empty one.")
@memory_graph_option
@click.option("--call", "calls", metavar="'NAME {…}'", multiple=True, help="Call a tool with arguments as JSON.")
@bound_option
@click.option("--naive", is_flag=True, help="Return payloads instead of handles: the control condition of experiments.")
def tools(
    paths: tuple[str, ...],
    endpoint: str | None,
    void: str | None,
    bank: str | None,
    memory_graph: bool,
    calls: tuple[str, ...],
    bounds: tuple[str, ...],
    naive: bool,
    as_json: bool,
) -> None:
    """Print the manual of the tools that an agent gets for a source; with --call, call them and print the results.

    Calls are made in order and share one run, so that a later one can use a handle (results_0) of an earlier one.
    They are recorded in a temporary bank, or in a temporary copy of BANK: nothing is kept, and BANK is not written to.
    Requests go only to the endpoint that you name.
    """
    planned = [parse_call(call) for call in calls]
    allowed = parse_bounds(bounds)
    if memory_graph and bank is None:
        raise BadInput("--memory-graph offers the history of a bank: name it with --bank")
    with ExitStack() as stack:
        opened = stack.enter_context(_scratch(bank))
        # As of just before the run that was begun here, as runs of a loop get it.
        graph = stack.enter_context(MemoryGraph(opened, opened.position - 1)) if memory_graph else None
        box = stack.enter_context(_toolbox(opened, paths, endpoint, void, allowed, graph, naive=naive))
        _refuse_unknown(planned, box)
        if not planned:
            _print_manual(box, as_json=as_json)
        elif as_json:
            echo_json(_source(box) | {"calls": [_facts(tried) for tried in _try(box, planned)]})
        else:
            echo(styled(f"over {_words(box)}; recorded in {_kept(bank)}", "dim"))
            for tried in _try(box, planned):
                _print_call(tried)


# ---------------------------------------------------------------- arguments


def parse_call(text: str) -> PlannedCall:
    """Return the call in `NAME {"argument": value}`, or in `NAME` alone. Raises `BadInput`."""
    name, _, rest = text.strip().partition(" ")
    if not name:
        raise BadInput("a call needs the name of a tool: --call 'NAME {\"argument\": value}'")
    try:
        arguments = msgspec.json.decode(rest) if rest.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the arguments of {name} are not JSON: {error}; write 'NAME {{\"argument\": value}}'") from None
    if not isinstance(arguments, dict):
        raise BadInput(f'the arguments of {name} must be a JSON object, such as {{"argument": value}}')
    return PlannedCall(name, arguments)


def _refuse_unknown(calls: Sequence[PlannedCall], box: Toolbox) -> None:
    for call in calls:
        if call.tool not in box.functions:
            raise BadInput(f"no tool has the name {call.tool!r}{hint(call.tool, box.functions)}")


@contextmanager
def _scratch(given: str | None) -> Iterator[Bank]:
    """Create a temporary bank, empty or a copy of the one named, with a run started in it."""
    with ExitStack() as stack:
        if given is None:
            bank = stack.enter_context(Bank.create("memory:"))
        else:
            bank = stack.enter_context(stack.enter_context(Bank.open(whole_bank(given))).copy())
        bank.append(RunStarted(run=RUN, task=TASK, scripted=True))
        yield bank


def _toolbox(
    bank: Bank,
    paths: Sequence[str],
    endpoint: str | None,
    void: str | None,
    bounds: RunBounds,
    graph: MemoryGraph | None,
    *,
    naive: bool,
) -> Toolbox:
    from rbank_es.tools.shared.call_budget import RunMeter
    from rbank_es.tools.shared.tool_family import ToolPolicy
    from rbank_es.tools.shared.toolbox import build_tools

    meter = RunMeter(bounds)
    # Mode `both`, because the manual should list every tool, those of memory too.
    policy = ToolPolicy(payloads="naive" if naive else "handles", mode="both")
    shared: dict[str, Any] = {"run": RUN, "policy": policy, "meter": meter, "memory_graph": graph}
    names = paths or (None if endpoint is not None else LIGHTS)
    return build_tools(bank, source=names, endpoint=endpoint, void=void, skip_unreadable=skips_unreadable(), **shared)


# ---------------------------------------------------------------- calls


def _try(box: Toolbox, calls: Sequence[PlannedCall]) -> Iterator[TriedCall]:
    caps = {tool.name: tool.cap_chars for tool in box.manual()}
    bank = box.session.bank
    for call in calls:
        before = bank.position
        result = box.call(call.tool, call.arguments)
        yield TriedCall(call, result, caps[call.tool], tuple(bank.events(after=before)))


def _facts(tried: TriedCall) -> dict[str, Any]:
    return {
        "tool": tried.call.tool,
        "arguments": tried.call.arguments,
        "result": tried.result,
        "chars": tried.chars,
        "cap_chars": tried.cap_chars,
        "events": tried.events,
    }


# ---------------------------------------------------------------- printing


def _source(box: Toolbox) -> dict[str, Any]:
    source = box.session.source
    assert source is not None  # `_toolbox` always gives one
    triples = source.schema.triples if source.schema is not None else None
    return {"source": {"id": source.id, "kind": source.kind, "url": source.url, "triples": triples}}


def _words(box: Toolbox) -> str:
    source = box.session.source
    assert source is not None
    if source.url is not None:
        return f"the endpoint {safe_line(source.url)}"
    triples = source.schema.triples if source.schema is not None else None
    return f"{source.id} ({count(triples, 'triple')})" if triples is not None else source.id


def _kept(bank: str | None) -> str:
    return f"a temporary copy of {shown_locator(bank)}" if bank else "a temporary bank"


def _print_manual(box: Toolbox, *, as_json: bool) -> None:
    manual = box.manual()
    if as_json:
        echo_json(_source(box) | {"tools": [tool._asdict() for tool in manual]})
        return
    echo(styled(f"{count(len(manual), 'tool')} over {_words(box)}", "bold"))
    echo_paragraph(
        "The text under a name is the manual of a tool. A prompt holds a line of it for each common tool, and "
        "tools(name) returns all; with run --tools all, each prompt holds all. Every tool returns a small dict with "
        "ok; large results stay behind a handle. An argument that takes a handle takes its key, its alias or the "
        "whole dict."
    )
    for tool in manual:
        echo_heading(tool.usage)
        echo("\n".join(f"    {text}".rstrip() for text in safe_block(tool.doc).split("\n")))
        echo(styled(f"    (at most {tool.cap_chars:,} characters)", "dim"))


def _print_call(tried: TriedCall) -> None:
    arguments = msgspec.json.encode(tried.call.arguments).decode() if tried.call.arguments else ""
    echo_heading(f"{tried.call.tool} {safe_line(arguments)}".rstrip())
    echo(safe_block(format_result(tried.result)))
    echo(styled(f"{tried.chars:,} characters, of at most {tried.cap_chars:,}", "dim"))
    for event in tried.events:
        if isinstance(event, ToolCalled):
            facts = f"call {event.call}" + (f", payload behind {event.alias}" if event.alias else "")
        else:
            facts = summary(event)
        echo(styled(f"recorded at {event.seq:,}: {type_of(event)}, {safe_line(facts)}", "dim"))
    flush()


def format_result(result: Mapping[str, Any]) -> str:
    """Return a result as JSON, with a line for each part, and for each row of a part that has rows."""
    parts = [f"  {_json(name)}: {_part(value)}" for name, value in result.items()]
    return "{\n" + ",\n".join(parts) + "\n}"


def _part(value: Any) -> str:
    if isinstance(value, list) and len(value) > 1 and any(isinstance(entry, dict) for entry in value):
        return "[\n" + ",\n".join(f"    {_json(entry)}" for entry in value) + "\n  ]"
    return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
