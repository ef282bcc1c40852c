"""`show`: one item, run or event with all its recorded facts at a point in time."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from rbank_es.answers import BankReader
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.id_arguments import find_thing
from rbank_es.cli.shared.output import echo, echo_heading, echo_json, styled
from rbank_es.errors import BadInput
from rbank_es.limits import answer_limits

if TYPE_CHECKING:
    from rbank_es.answers.lineage import LineageAnswer


@command(
    "show",
    "rbank-es show notes 120",
    "rbank-es show notes@HEAD~50 item:3f2a9c01b7de",
    "rbank-es show notes 3f2a9c01b7de --tree",
    "rbank-es show notes run:lights-L1-1-3f2a9c1b-1 --prompts",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("thing", metavar="THING", required=False)
@click.option("--tree", is_flag=True, help="What it comes from and what it led to, as trees.")
@click.option(
    "--depth", metavar="N", type=click.IntRange(1, answer_limits.LINEAGE_TREE_DEPTH_MOST),
    help=f"Levels of the trees; default: {answer_limits.LINEAGE_TREE_DEPTH}.",
)  # fmt: skip
@click.option("--prompts", is_flag=True, help="Of a run: what its models were asked and replied.")
def show(bank: str, thing: str | None, tree: bool, depth: int | None, prompts: bool, as_json: bool) -> None:
    """Show everything about THING as it was then: an item id, a run id, an event id, or an event's position.

    An item is shown with its text, state, uses, wins, the verdicts that it rests on and what would end it, the runs
    that used it, and its history. A run is shown with its task, its verdicts and which of them stands, what was given
    to it and learned from it, its leakage and timeline. Any beginning of an id will do that no other id has. Where
    THING is ambiguous, write item:ID, run:ID or event:ID.

    With --prompts, the calls of a run's models are shown instead, of each request what is new in it, and by each reply
    that was of no use the reason.

    With --tree, causes and effects are shown instead. Causes: decision, candidate, extraction, the call of the model,
    the verdict, runs and the items given to them. Effects: uses with their outcomes, and the items drawn from those
    runs.
    """
    if thing is None:
        raise click.UsageError(
            f"name THING, an item, a run or an event: `rbank-es items {bank}` lists items, `rbank-es runs {bank}` "
            f"runs, `rbank-es log {bank} --tail 20` the last events, and `rbank-es ask {bank} overview` shows the bank."
        )
    if depth is not None and not tree:
        raise BadInput("--depth is of the trees: add --tree, or leave it out")
    if prompts and tree:
        raise BadInput("--prompts and --tree show different things: leave one out")
    with opened_reader(bank) as reader:
        kind, name = find_thing(reader, thing)
        if prompts:
            _show_prompts(reader, kind, name, as_json=as_json)
            return
        if tree:
            _show_trees(reader, kind, name, depth or answer_limits.LINEAGE_TREE_DEPTH, as_json=as_json)
            return
        most = {} if kind == "event" else {"limit": answer_limits.ANSWER_ROWS_MOST}
        found = reader.ask(kind, **{kind: name}, **most)
        print_answer(found, kind, lambda: _print(kind, found), as_json)


def _print(kind: str, found: Any) -> None:
    # Each with its own imports, because people wait for them.
    if kind == "item":
        from rbank_es.cli.shared.shown_items import print_item

        print_item(found)
    else:
        from rbank_es.cli.shared.shown_runs import print_event, print_run

        (print_run if kind == "run" else print_event)(found)


def _show_prompts(reader: BankReader, kind: str, name: str, *, as_json: bool) -> None:
    from rbank_es.cli.shared.shown_prompts import print_prompts

    if kind != "run":
        raise BadInput(f"--prompts are of a run, and {name} is an {kind}: name a run, or leave it out")
    found = reader.ask("prompts", run=name)
    print_answer(found, "prompts", lambda: print_prompts(found, shlex.quote(reader.command)), as_json)


def _show_trees(reader: BankReader, kind: str, name: str, depth: int, *, as_json: bool) -> None:
    from rbank_es.cli.shared.lineage_tree import node_line, tree_lines

    causes, effects = (_lineage(reader, kind, name, direction, depth) for direction in ("causes", "effects"))
    if as_json:
        echo_json({"causes": causes, "effects": effects})
        return
    echo(styled(node_line(effects.tree), "bold"))
    for title, found in (("comes from", causes), ("led to", effects)):
        echo_heading(title)
        echo("\n".join(tree_lines(found.tree, relations=found is effects)) or "nothing on record")


def _lineage(reader: BankReader, kind: str, name: str, direction: str, depth: int) -> LineageAnswer:
    found: LineageAnswer = reader.ask("lineage", kind=kind, id=name, direction=direction, depth=depth)
    return found
