"""`retrieval`: the floor of a bank's searches, comparisons of policies, and vectors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rbank_es import limits
from rbank_es.cli.shared.answers import opened_reader, print_answer
from rbank_es.cli.shared.application import CommandGroup, command
from rbank_es.cli.shared.arguments import NumberRange, open_at, open_whole, read_bounded, view_at
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_table, warn
from rbank_es.errors import BadInput, CheckFailed
from rbank_es.events.readable_text import count, safe_line
from rbank_es.state.proportion import percent

if TYPE_CHECKING:
    from rbank_es.answers.curve import Curve
    from rbank_es.bank import Bank
    from rbank_es.events.items import Polarity
    from rbank_es.experiments.retrieval_comparison import MeasureComparison
    from rbank_es.models.embedder import Embedder, MissingVectors
    from rbank_es.policies import RetrievalPolicy
    from rbank_es.policies.retrieval_quality import CaseQuality, RelevanceCase, Search
    from rbank_es.projections.view import View


@click.group("retrieval", cls=CommandGroup)
def retrieval() -> None:
    """Fit and extend how a bank finds items. All commands print JSON with --json."""


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
    from rbank_es.policies.retrieval_quality import evaluate

    with Progress(label) as progress:
        return evaluate(policy, cases, _searching(view, policy, progress, 3 * len(cases)))


def _cases(view: View, path: str) -> Sequence[RelevanceCase]:
    """Return the cases of a file. Raises `BadInput` for an item that the bank doesn't have active, naming it."""
    from rbank_es.policies.retrieval_quality import read_cases

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
    with opened, view_at(opened, opened.resolve(point)) as view:
        policy = view.retrieval_policy()
        if not isinstance(policy, Bm25V2):
            raise BadInput(
                f"{policy.label} doesn't tell how much of a query an item covers; put bm25-3 in force first: "
                f"rbank-es policy {opened.name} --set retrieval=bm25-3"
            )
        cases = _cases(view, path)

        def measure(floor: float) -> Sequence[CaseQuality]:
            return _measured(view, replace(policy, coverage=floor), cases, f"floor {floor:.2f}")

        from rbank_es.experiments.retrieval_comparison import calibrate_floor  # once the cases are known to be good

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
    from rbank_es.experiments.retrieval_comparison import compare_retrieval

    if len(labels) != 2:
        raise click.UsageError("--policy is given twice: the first is compared with the second")
    policies = [_policy(label) for label in labels]
    opened, point = open_at(bank)
    with opened, view_at(opened, opened.resolve(point)) as view:
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


retrieval.add_commands(calibrate, curve, compare, embed)
