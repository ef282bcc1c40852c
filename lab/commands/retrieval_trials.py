"""`retrieval calibrate` and `retrieval compare`: floors and policies on labelled cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.cli.shared.arguments import NumberRange, open_at, read_bounded
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_table, warn
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import safe_line
from rbank_es.policies.retrieval_quality import CaseQuality, RelevanceCase, Search, evaluate, read_cases
from rbank_es.system.proportion import percent

if TYPE_CHECKING:
    from rbank_es.events.items import Polarity
    from rbank_es.lab.retrieval_comparison import MeasureComparison
    from rbank_es.policies import RetrievalPolicy
    from rbank_es.projections.view import View


def _searching(view: View, policy: RetrievalPolicy, progress: Progress, total: int) -> Search:
    """Return how a case is searched for: a ranking by the policy without its floor, what is given unasked with it."""
    plain, done = policy.without_floor(), 0

    def search(case: RelevanceCase, k: int, polarity: Polarity | None) -> Sequence[str]:
        nonlocal done
        progress(done := done + 1, total)
        # As many more as are taken out of the hits below.
        wanted = min(k + len(case.without), limits.SEARCH_HITS)
        chosen = plain if polarity is None else policy
        unasked = polarity is not None
        found = view.retrieve(case.query, wanted, polarity=polarity, domain=case.domain, unasked=unasked, policy=chosen)
        return [hit.id for hit in found.items if hit.id not in case.without][:k]

    return search


def _measured(view: View, policy: RetrievalPolicy, cases: Sequence[RelevanceCase], label: str) -> Sequence[CaseQuality]:
    with Progress(label) as progress:
        return evaluate(policy, cases, _searching(view, policy, progress, 3 * len(cases)))


def _cases(view: View, path: str) -> Sequence[RelevanceCase]:
    """Return the cases of a file. Raises `BadInput` for an item that the bank doesn't have active, naming it."""
    cases = read_cases(read_bounded(path))
    active = {row["id"] for row in view.items("active")}
    for case in cases:
        missing = next((id for id in case.relevant if id not in active), None)
        if missing is not None:
            raise BadInput(
                f"case {case.id}: no active item is called {missing}; name items of the bank (rbank-es items lists "
                "them), or leave it out of the case's relevant ones"
            )
    return cases


def _percent(share: tuple[float, float, float] | None) -> str:
    if share is None:
        return "none given"
    mean, low, high = share
    return f"{percent(mean)} ({percent(low)} to {percent(high)})".replace("%", " %")


# ---------------------------------------------------------------- calibrate


@command(
    "calibrate",
    "rbank-es retrieval calibrate notes --cases cases.jsonl",
    "rbank-es retrieval calibrate notes@HEAD~50 --cases cases.jsonl --precision 0.8 --json",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option(
    "--cases", "path", metavar="FILE", required=True, help="Labelled cases, a JSON object a line; - is stdin."
)
@click.option(
    "--precision", metavar="P", type=NumberRange(0, 1), default=0.9, show_default=True,
    help="The least share of given items that must help.",
)  # fmt: skip
def calibrate(bank: str, path: str, precision: float, as_json: bool) -> None:
    """Fit the floor under which nothing is given to labelled cases; print the command that would set it.

    A case is {"query": "…", "relevant": ["ITEM", …], "domain": "ONTOLOGY"}; one without relevant items is a question
    that should be given nothing, and both kinds are needed. The floor is chosen on one half of the cases: believe the
    other. Shares with 95 % intervals (Wilson): of the given items, those that help (precision); of the related cases,
    those given an item that helps (coverage); of the unrelated ones, those given anything (disturbed). Nothing is
    written. Fitted is `coverage` alone: hybrid-1 finds items by `cosine` too, which `retrieval compare` tries.
    """
    from rbank_es.policies import Bm25V2, HybridV1

    opened, point = open_at(bank)
    with opened, opened.live(point) as view:
        policy = view.retrieval_policy()
        if not isinstance(policy, Bm25V2):
            raise BadInput(
                f"{policy.label} doesn't tell how much of a query an item covers; put bm25-3 in force first: "
                f"rbank-es policy {opened.name} --set retrieval=bm25-3"
            )
        cases = _cases(view, path)

        def measure(floor: float) -> Sequence[CaseQuality]:
            return _measured(view, replace(policy, coverage=floor), cases, f"floor {floor:.2f}")

        from rbank_es.lab.retrieval_comparison import calibrate_floor  # once the cases are known to be good

        found = calibrate_floor(cases, measure, precision)
    command = f"rbank-es policy {opened.name} --set retrieval.coverage={found.best.coverage:g}"
    if isinstance(policy, HybridV1) and policy.cosine < 1:
        warn(
            f"items also pass by cosine ({policy.cosine:g} or more), which isn't fitted: try others with "
            "rbank-es retrieval compare"
        )
    if as_json:
        echo_json(
            {"bank": opened.name, "cases": len(cases), "precision": precision, "calibration": found, "set": command}
        )
        return
    rows: list[list[Cell]] = [
        [f"{each.coverage:.2f}", half, *map(_percent, (shares.precision, shares.coverage, shares.disturbed))]
        for each in found.trials
        for half, shares in (("chosen", each.chosen), ("unseen", each.unseen))
    ]
    echo_table(["floor", "half", "precision", "coverage", "disturbed"], rows)
    if not found.reached:
        warn(
            f"no floor reaches a precision of {percent(precision)} on the half that chooses; the most precise is named"
        )
    echo(f"\nbest floor: {found.best.coverage:.2f}. To set it:\n  {safe_line(command)}")


# ---------------------------------------------------------------- compare


@command(
    "compare",
    "rbank-es retrieval compare notes --cases cases.jsonl --policy bm25-2 --policy bm25-3",
    "rbank-es retrieval compare notes --cases cases.jsonl --policy bm25-3 --policy bm25-3,coverage=0.3,k_success=2",
)
@click.argument("bank", metavar="BANK[@POINT]")
@click.option("--cases", "path", metavar="FILE", required=True, help="Labelled cases, as for calibrate.")
@click.option(
    "--policy", "labels", metavar="NAME-V[,SETTING=VALUE]", multiple=True, required=True,
    help="A retrieval policy, with settings that differ from its defaults; given twice.",
)  # fmt: skip
def compare(bank: str, path: str, labels: tuple[str, ...], as_json: bool) -> None:
    """Compare two retrieval policies on the same labelled cases: paired differences, with 95 % intervals.

    Of the related cases: whether the first hit helps, the share of the items that help among the first ten hits, and
    1 / rank of the first that helps, without any floor. Of all cases: what a run would be given unasked, as for
    calibrate.
    """
    from rbank_es.lab.retrieval_comparison import compare_retrieval

    if len(labels) != 2:
        raise click.UsageError("--policy is given twice: the first is compared with the second")
    policies = [_policy(label) for label in labels]
    opened, point = open_at(bank)
    with opened, opened.live(point) as view:
        cases = _cases(view, path)
        sides = [_measured(view, each, cases, text) for each, text in zip(policies, labels, strict=True)]
        found = compare_retrieval(*sides)
    if as_json:
        echo_json({"bank": opened.name, "policies": labels, "comparison": found})
        return
    echo_table(
        ["measure", *labels, "difference"],
        [[each.measure, f"{each.first:.3f}", f"{each.second:.3f}", _difference(each)] for each in found.measures],
    )
    shares = [
        [name, *(_percent(getattr(side, name)) for side in (found.first, found.second))]
        for name in ("precision", "coverage", "disturbed")
    ]
    echo_table(["given unasked", *labels], shares)


def _difference(measure: MeasureComparison) -> str:
    found = measure.difference
    if found is None or found.low is None or found.high is None:
        return "unknown: too few related cases"
    return f"{found.mean:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def _policy(text: str) -> RetrievalPolicy:
    """Return the policy that a name, a version and settings mean. Raises `BadPolicy`."""
    from rbank_es.policies import changed, retrieval_policy
    from rbank_es.policies.policy_registry import parse_assignments

    # Not at each comma: a value may be a list.
    label, *settings = re.split(r",(?=\w+=)", text)
    tables = parse_assignments([f"retrieval={label}", *(f"retrieval.{each}" for each in settings)])
    return retrieval_policy(changed((), tables)[0])
