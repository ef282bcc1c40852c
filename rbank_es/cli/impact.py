"""`impact`: everything downstream of an item, a run or an event, counted, as a tree or as JSON."""

from __future__ import annotations

import click

from rbank_es.answers.lineage import LineageAnswer
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.hook_spool import tell_of_waiting
from rbank_es.cli.shared.id_arguments import find_thing
from rbank_es.cli.shared.lineage_tree import counted, node_line, tree_lines
from rbank_es.cli.shared.output import echo, styled
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count
from rbank_es.limits import answer_limits


@command(
    "impact",
    "rbank-es impact notes 3f2a9c01b7de",
    "rbank-es impact notes@HEAD~50 run:lights-L1-1 --depth 3",
    "rbank-es impact notes 120 --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("thing", metavar="ITEM|RUN|SEQ")
@click.option(
    "--depth", metavar="N", type=click.IntRange(1, answer_limits.LINEAGE_TREE_DEPTH_MOST),
    default=answer_limits.LINEAGE_TREE_DEPTH, show_default=True, help="Levels of the tree.",
)  # fmt: skip
@click.option(
    "--width", metavar="N", type=click.IntRange(1, answer_limits.LINEAGE_NODES),
    default=answer_limits.LINEAGE_TREE_WIDTH, show_default=True, help="Branches that are shown of each node.",
)  # fmt: skip
@click.option(
    "--limit", metavar="N", type=click.IntRange(0, answer_limits.ANSWER_ROWS_MOST),
    help=f"Nodes that --json lists, the nearest first; default: {answer_limits.LINEAGE_NODES}.",
)  # fmt: skip
def impact(bank: str, thing: str, depth: int, width: int, limit: int | None, as_json: bool) -> None:
    """Show everything downstream of an item, a run or an event, as of a point in time.

    Downstream of an item are the runs that were given it, the judgments whose judge was shown it, and the items that it
    took the place of; of a run, its judgments, the items drawn from it and the guide that it wrote; of a guide, the
    runs that were given its summary; of a decision, its item. An event that ended an item leads to the item and no
    further; one that came to support it, or brought it back, to its uses since. Each thing is counted once, at its
    least number of steps. The counts include what the tree leaves out. THING is named as for show; an event of a run
    that led to nothing itself means its run. The JSON is that of `rbank-es ask BANK lineage`, which has causes too.
    """
    if limit is not None and not as_json:
        raise BadInput("--limit is of the list: add --json, or bound the tree with --depth and --width")
    listed = answer_limits.LINEAGE_NODES if limit is None else limit
    with opened_reader(bank) as reader:
        kind, name = find_thing(reader, thing)
        found: LineageAnswer = reader.ask("lineage", kind=kind, id=name, depth=depth, width=width, limit=listed)
        print_answer(found, "lineage", lambda: _print(found), as_json)
        tell_of_waiting(reader.bank)


def _print(found: LineageAnswer) -> None:
    echo(styled(node_line(found.tree), "bold"))
    if found.total:
        echo(f"downstream: {counted(found.counts)}; the farthest is {count(found.depth, 'step')} away")
    else:
        echo("nothing on record has followed from it")
    for line in tree_lines(found.tree, relations=True):
        echo(line)
