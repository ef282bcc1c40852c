"""`retrieval`: the floor of a bank's searches, comparisons of policies, and vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from rbank_es import limits
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.arguments import open_whole, read_bounded
from rbank_es.cli.shared.command_registry import CommandGroup, command
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_table, warn
from rbank_es.errors import BadInput, CheckFailed
from rbank_es.events.readable_text import count
from rbank_es.system.proportion import percent

if TYPE_CHECKING:
    from rbank_es.answers.curve import Curve
    from rbank_es.bank import Bank
    from rbank_es.models.embedder import Embedder, MissingVectors


@click.group("retrieval", cls=CommandGroup)
def retrieval() -> None:
    """Fit and extend how a bank finds items. All commands print JSON with --json."""


# ---------------------------------------------------------------- curve


@command("curve", "rbank-es retrieval curve notes", "rbank-es retrieval curve notes --choose")
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--choose", is_flag=True, help="Record the best floor as the bank's: a change of its policy.")
def curve(bank: str, choose: bool, as_json: bool) -> None:
    """Show how often items helped that covered so much of a question, by the runs that were given them.

    Floors are compared on the log alone: the same log always chooses the same. Items that were drawn from a run of the
    task itself don't count. Nothing below a floor in force was given, and the curve begins there. The best has most
    wins beyond those that the bank's runs have anyway. --choose records it, by 200 judged uses or more.
    """
    with opened_reader(bank) as reader:
        found: Curve = reader.ask("curve")
    print_answer(found, "curve", lambda: _print_curve(found), as_json)
    if not choose:
        return
    if found.best is None:
        few = f"{count(found.uses, 'judged use')} of the {limits.FLOOR_USES} that a choice takes"
        raise BadInput(f"the log doesn't tell which floor is best: it has {few}; the floor stays")
    with open_whole(bank) as opened:
        why = f"chosen by {found.uses} judged uses up to position {found.position}"
        opened.set_policies({"retrieval": {"coverage": found.best}}, why=why)


def _print_curve(found: Curve) -> None:
    rows: list[list[Cell]] = [
        [f"{each.coverage:.2f}", each.uses, each.wins, _rate(each.win_rate, each.win_rate_low, each.win_rate_high)]
        for each in found.rows
    ]
    echo_table(["floor", "uses", "wins", "win rate"], rows, none="no judged use")
    best = f"{found.best:g}" if found.best is not None else f"unknown from fewer than {limits.FLOOR_USES} judged uses"
    echo(f"\nbest floor: {best}")


def _rate(rate: float | None, low: float | None, high: float | None) -> str:
    if rate is None or low is None or high is None:
        return "no use"
    return f"{percent(rate)} ({percent(low)} to {percent(high)})".replace("%", " %")


# ---------------------------------------------------------------- embed


@command(
    "embed",
    "rbank-es retrieval embed notes --model text-embedding-3-small --dry-run",
    "rbank-es retrieval embed notes --model bge-m3 --base-url http://localhost:8080/v1 --query 'Which lamps are lit?'",
)
@click.argument("bank")
@click.option("--model", metavar="NAME", required=True, help="The model, as the endpoint calls it.")
@click.option("--base-url", metavar="URL", help="The endpoint, up to what comes before /embeddings.")
@click.option("--query", "queries", metavar="TEXT", multiple=True, help="A query to embed, too. May be repeated.")
@click.option("--cases", metavar="FILE", help="Embed the queries of labelled cases, too.")
@click.option("--recorded", is_flag=True, help="Embed the queries of all recorded retrievals, too.")
@click.option(
    "--timeout", "timeout_s", metavar="SECONDS", type=float, default=limits.EMBEDDING_TIME_S, show_default=True,
    help="How long one request may take.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only count what would be sent.")
def embed(
    bank: str,
    model: str,
    base_url: str | None,
    queries: tuple[str, ...],
    cases: str | None,
    recorded: bool,
    timeout_s: float,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Have a model give the vectors that a bank lacks, and record them: those of active items, and of queries.

    The words of items and queries are sent to the endpoint that you name, by OpenAI's protocol; a key is taken from
    the environment variable RBANK_EMBEDDINGS_KEY. What has a vector is not sent again, so the same command goes on
    where another one stopped. Retrieval policy hybrid-1 ranks by the vectors of its setting `model`.
    """
    from rbank_es.models.embedder import missing_vectors

    if base_url is None and not dry_run:
        raise BadInput("vectors come from an endpoint: --base-url URL; --dry-run counts what is missing without one")
    with open_whole(bank) as opened:
        wanted = [*queries, *(_of_cases(cases) if cases else ()), *(_recorded(opened) if recorded else ())]
        missing = missing_vectors(opened, model, wanted)
        if base_url is None or dry_run:
            _print_missing(opened, missing, as_json)
            return
        _embed(opened, missing, base_url, timeout_s, as_json)


def _of_cases(path: str) -> Iterable[str]:
    from rbank_es.policies.retrieval_quality import read_cases

    return [case.query for case in read_cases(read_bounded(path))]


def _recorded(bank: Bank) -> Iterable[str]:
    for event in bank.events(types={"memories_retrieved"}, resolve=True):
        query = getattr(event, "query", None)
        if isinstance(query, str):
            yield query


def _embed(bank: Bank, missing: MissingVectors, base_url: str, timeout_s: float, as_json: bool) -> None:
    from rbank_es.models.embedder import Embedder
    from rbank_es.models.embedding_endpoint import EmbeddingChoice, EmbeddingEndpoint

    choice = EmbeddingChoice(model=missing.model, base_url=base_url, timeout_s=timeout_s)
    with EmbeddingEndpoint(choice) as endpoint, Progress("embedding texts") as progress:
        embedder = Embedder(endpoint, missing.model)
        done = embedder.embed(bank, missing, progress=progress)
    _print_embedded(bank, missing, done, embedder, as_json)


def _print_missing(bank: Bank, missing: MissingVectors, as_json: bool) -> None:
    counts = {"items": len(missing.items), "queries": len(missing.queries), "chars": missing.chars}
    if as_json:
        echo_json({"bank": bank.name, "model": missing.model, "missing": counts})
        return
    echo(f"without a vector of {missing.model}: {_texts(missing)}")
    echo(f"would be sent: {count(missing.chars, 'character')}")


def _print_embedded(bank: Bank, missing: MissingVectors, done: int, embedder: Embedder, as_json: bool) -> None:
    failure = next(iter(embedder.failures), None)
    wanted = len(missing.items) + len(missing.queries)
    if as_json:
        error = {"code": failure.code, "message": failure.message, "hint": failure.hint} if failure else None
        echo_json(
            {"bank": bank.name, "model": missing.model, "embedded": done, "missing": wanted - done, "error": error}
        )
    elif done or failure is None:
        echo(f"recorded {count(done, 'vector')} of {missing.model}" if wanted else "nothing is missing")
    if failure is not None:
        if not as_json:
            warn(f"{count(wanted - done, 'text')} without a vector: {failure}")
        click.get_current_context().exit(CheckFailed.exit_code)


def _texts(missing: MissingVectors) -> str:
    return f"{count(len(missing.items), 'active item')}, {count(len(missing.queries), 'query', 'queries')}"


retrieval.add_commands(curve, embed)
