"""`search`: find items by words, as of any point in time."""

from __future__ import annotations

from contextlib import ExitStack

import click

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.arguments import nearest_hint, open_at, view_at
from rbank_es.cli.shared.output import Cell, count, echo_json, echo_table, warn
from rbank_es.cli.shared.stored_bank import stored_bank
from rbank_es.events.items import JUDGE_SOURCES
from rbank_es.projections.search_result import FoundItem
from rbank_es.projections.view import View


@command(
    "search",
    'rbank-es search notes "how are labels queried?"',
    'rbank-es search notes@HEAD~50 "labels" -k 3 --polarity failure',
    'rbank-es search notes "which lights are tall?" --ontology lights',
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("query")
@click.option("-k", "k", metavar="N", type=int, help="The most hits; default: by the bank's policy.")
@click.option("--polarity", metavar="P", help="Only strategies (success) or guardrails (failure).")
@click.option("--domain", metavar="D", help="Only items about this ontology.")
@click.option(
    "--ontology", metavar="ID",
    help="The ontology of the question, as of a run on it: the bank's policy may rank its items first.",
)  # fmt: skip
def search(
    bank: str,
    query: str,
    k: int | None,
    polarity: str | None,
    domain: str | None,
    ontology: str | None,
    as_json: bool,
) -> None:
    """Find the active items that fit a query best, ranked exactly as the bank ranked them at that point in time.

    The query is plain words: quotes, OR, * and the like have no special meaning. Scores are BM25's; lower is better.
    In the place of BANK, a file that `replay --into` or `whatif --into` wrote.
    """
    with ExitStack() as open_things:
        if (stored := stored_bank(bank)) is not None:
            name, view = stored.name, open_things.enter_context(stored.view())
        else:
            opened, point = open_at(bank)
            name = open_things.enter_context(opened).name
            view = open_things.enter_context(view_at(opened, opened.resolve(point)))
        found = view.search(query, k, polarity=polarity, domain=domain, ontology=ontology)
        if as_json:
            echo_json({"bank": name, "position": view.position, "query": query, "hits": found})
        else:
            print_hits(found)
        if not found:
            warn(_why_nothing(view, query, polarity, domain))


def _why_nothing(view: View, query: str, polarity: str | None, domain: str | None) -> str:
    """Return why a search found nothing: a query without words, a filter that no item passes, or other words."""
    if not view.retrieval_policy().words(query):
        return "the query has no words to search for"
    active = [row for row in view.items("active") if row["src"] not in JUDGE_SOURCES]
    domains = sorted({row["domain"] for row in active if row["domain"]})
    if domains and domain is not None and domain not in domains:
        return f"no active item is about {domain}; {nearest_hint(domain, domains)}"
    passing = [row for row in active if polarity in (None, row["polarity"]) and domain in (None, row["domain"])]
    if active and not passing:
        return f"none of {count(len(active), 'active item')} passes the filters"
    if not active:
        return "there are no active items"
    return f"none of {count(len(passing), 'active item')} has a word of the query"


def score_in_words(score: float) -> str:
    """Return a score with three digits after the point; `≈ 0` for one that they can't tell from 0."""
    shown = f"{score:.3f}"
    return shown if float(shown) else "≈ 0"


def print_hits(found: list[FoundItem]) -> None:
    """Print hits, best first."""
    rows: list[list[Cell]] = [
        [hit.rank, score_in_words(hit.score), hit.id, hit.src, hit.title, hit.desc] for hit in found
    ]
    echo_table(
        ["rank", "score", "item", "source", "title", "description"],
        rows,
        flexible=["description", "title"],
        none="nothing found",
    )
