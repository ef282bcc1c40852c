"""`search`: find items by words, as of any point in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import click

from rbank_es.answers.search import Found, score_in_words, share_in_words, shortfall
from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, echo, echo_table, styled, warn
from rbank_es.events.items import JUDGE_SOURCES
from rbank_es.events.readable_text import count, safe_line
from rbank_es.policies.retrieval_protocol import WordShare
from rbank_es.projections.search_result import FoundItem
from rbank_es.projections.view import View
from rbank_es.system.nearest_name import hint


@command(
    "search",
    'rbank-es search notes "how are labels queried?"',
    'rbank-es search notes@HEAD~50 "labels" -k 3 --polarity failure',
    'rbank-es search notes "which lights are tall?" --domain lights --explain',
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.argument("query")
@click.option("-k", "k", metavar="N", type=int, help="The most hits; default: by the bank's policy.")
@click.option("--polarity", metavar="P", help="Only strategies (success) or guardrails (failure).")
@click.option("--role", metavar="NAME", help="Only items that serve this role.")
@click.option(
    "--domain",
    metavar="ID",
    help="The domain of the question, as of a run on that ontology: the bank's policy may rank its items first.",
)
@click.option(
    "--level",
    metavar="N",
    type=int,
    help="The level of the question, as of its task: the bank's policy may leave out what was learned above it.",
)
@click.option("--all", "show_all", is_flag=True, help="Show the items too that the bank's policy withholds.")
@click.option("--explain", is_flag=True, help="Show for each item which words it shares with the query.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the hits as CSV.")
def search(
    bank: str,
    query: str,
    k: int | None,
    polarity: str | None,
    role: str | None,
    domain: str | None,
    level: int | None,
    show_all: bool,
    explain: bool,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Find the active items that fit a query best, ranked exactly as the bank ranked them at that point in time.

    The query is plain words: quotes, OR, * and the like have no special meaning. What fits too little by the bank's
    policy is withheld, as it is from agents; --all shows it. Scores: farther from 0 is better.
    """
    about = {"polarity": polarity, "role": role, "domain": domain, "level": level}
    with opened_reader(bank) as reader:
        view = reader.view
        policy = view.retrieval_policy()
        found: Found = reader.ask("search", query=query, k=k, **about)
        shown = [*found.hits, *(found.withheld if show_all else ())]
        print_answer(found, "search", lambda: (_print_explained if explain else print_hits)(shown), as_json, as_csv)
        if found.fallback is not None:
            warn(_fallback_note(found.fallback))
        if level is not None and policy.level_bound(level) is None:
            warn(f"the bank's policy gives items of every level: policy {found.bank} --set retrieval.levels=up_to")
        slip = _unknown_name(view, "domain", domain) or _unknown_name(view, "role", role)
        if slip is not None:
            warn(slip)
        if not found.hits and (slip is None or policy.domains != "filter"):
            above = frozenset[str]() if (bound := policy.level_bound(level)) is None else view.items_above(bound)
            warn(_why_nothing(view, found, {"polarity": polarity, "role": role}, above))
        elif found.withheld and not (show_all or as_json or as_csv):
            echo(styled(f"{count(len(found.withheld), 'weaker match', 'weaker matches')} withheld; see --all", "dim"))


def _unknown_name(view: View, fact: Literal["domain", "role"], name: str | None) -> str | None:
    """Return a warning about a domain or role that no item has: where it only ranks, a slip would go unnoticed."""
    known = view.known(fact) if name is not None else []
    if name is None or not known or name in known:
        return None
    return f"no item has the {fact} {safe_line(name)}{hint(name, known)}"


def _why_nothing(view: View, found: Found, asked: Mapping[str, str | None], above: frozenset[str]) -> str:
    """Return why a search found nothing: no words, weak matches, filters, other words. `above`: left out by level."""
    if not view.retrieval_policy().words(found.query):
        return f"the query {safe_line(found.query)!r} has no words to search for: give at least one word"
    if found.withheld:
        return f"nothing is given: the best match {_shortfall(found)}; --all shows what is withheld"
    # No search but a judge's finds the items that serve the judge.
    active = [row for row in view.items("active") if row["src"] not in JUDGE_SOURCES]
    if not active:
        return "there are no active items"
    passing = [
        row for row in active
        if row["id"] not in above and all(value in (None, row[name]) for name, value in asked.items())
    ]  # fmt: skip
    if not passing:
        return f"none of {count(len(active), 'active item')} passes the filters"
    return f"none of {count(len(passing), 'active item')} has a word of the query"


def _shortfall(found: Found) -> str:
    best = found.withheld[0]
    return shortfall(best.withheld, best.score, best.coverage, found.floor)


def _print_explained(found: Sequence[FoundItem]) -> None:
    """Print each item with its score, the words that it shares with the query, and why it is withheld, if it is."""
    for item in found:
        state = f"withheld: {item.withheld.replace('_', ' ')} below the floor" if item.withheld else f"rank {item.rank}"
        echo(f"{state}  {safe_line(item.id)}  {safe_line(item.title)}")
        near = {"own": "its domain is the query's", "none": "of no domain", "other": "of another domain"}
        covered = f"covers {share_in_words(item.coverage)} of the query" if item.coverage is not None else None
        facts = [f"score {score_in_words(item.score)}", covered, near.get(item.near or "")]
        echo(styled(f"    {'; '.join(each for each in facts if each)}", "dim"))
        shares = sorted((each for each in item.matched if each.share), key=lambda each: -each.share)
        if shares:
            words = ", ".join(f"{_word(each)} {share_in_words(each.share)}" for each in shares)
            echo(styled(f"    {words}", "dim"))
    if not found:
        echo("nothing found")
    elif all(item.coverage is None for item in found):
        echo(styled("the bank's policy doesn't tell which words count; bm25-3 does", "dim"))


def _word(share: WordShare) -> str:
    """Return a word of the query, and as which word of an item it is read where none has it."""
    return (
        safe_line(share.word) if share.meant is None else f"{safe_line(share.word)} (read as {safe_line(share.meant)})"
    )


def print_hits(found: Sequence[FoundItem]) -> None:
    """Print hits, best first; items withheld have no rank."""
    rows: list[list[Cell]] = [
        [hit.rank or "withheld", score_in_words(hit.score), hit.id, hit.src, hit.title, hit.desc] for hit in found
    ]
    echo_table(
        ["rank", "score", "item", "source", "title", "description"],
        rows,
        flexible=["description", "title"],
        none="nothing found",
    )


_FALLBACKS = {
    "no-query-vector": "the query has no vector, so words alone rank it: retrieval embed --query TEXT records one",
    "items-without-vector": "some items have no vector, so words rank those: retrieval embed records theirs",
}


def _fallback_note(code: str) -> str:
    """Return the warning about a fallback that a retrieval records."""
    return _FALLBACKS.get(code, f"another ranking took the policy's place: {code}")
