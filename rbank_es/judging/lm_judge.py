"""The judge `lm`: a language model at temperature 0, given the bank's principles and past cases, and its replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, BadPolicy, LmFailed
from rbank_es.events.items import Item
from rbank_es.judging.verdict import Finding, Verdict, bounded
from rbank_es.judging.verdict_reply import LmReply, read_reply
from rbank_es.models.call_recorder import NO_WORD
from rbank_es.models.dspy_adapter import signature_of
from rbank_es.models.prompt import Message, Prompt, asked_again
from rbank_es.models.prompt_truncation import ask_with_room
from rbank_es.models.replies import ModelReply
from rbank_es.models.role_prompts import prompt_for
from rbank_es.policies import LmJudging
from rbank_es.policies.judging_and_extraction import Strictness
from rbank_es.sparql.results import row_line
from rbank_es.system.text_cuts import cut, cut_middle

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.events.run_events import Purpose
    from rbank_es.judging.judge_protocol import JudgeInputs
    from rbank_es.judging.run_outcome import RunOutcome
    from rbank_es.models.run_models import Lms

    TrajectoryJudge: Any
    from rbank_es.projections.search_result import FoundItem
    from rbank_es.sparql.results import Answer


JUDGE, VERSION = "lm", "1"

LEANINGS: dict[Strictness, str] = {
    "strict": "Be strict. Say success only where {shown}. In doubt, and where anything that was asked is missing, "
    "unproven or added, say failure.",
    "plain": "",
    "lenient": "Be lenient. Say success where a reasonable reader would take the answer for what was asked, even if "
    "some of it is missing or added, or its form is another one. In doubt, say success.",
}
"""The instruction about doubtful cases, by the policy's setting. Another wording is another version."""

SHOWN = {
    True: "each row and each part of the answer is shown by the query and its rows",
    False: "each part of the answer, and each act that it reports, is shown by the steps",
}
"""What a strict judge demands, for runs over a source and for others."""

NONE = "none"
"""The text of an empty field: to a model, a field with no text looks like a mistake."""

LOST = frozenset({"bad_response", "timeout", "server_error", "rate_limited"})
"""Codes of calls that another try may make good: the connection broke off, or the provider was busy."""


def may_ask_again(failure: LmFailed, tries: int) -> bool:
    """Return whether another call may make a failure good, after so many recorded tries."""
    # A call retries this one itself: the tries of all calls together are bounded.
    return failure.code in LOST and (failure.code != NO_WORD or tries < limits.JUDGE_TRIES)


class LmJudge:
    """The judge that asks the model in the role `judge` about runs that no check is sure of."""

    needs = frozenset({"model"})
    policy = LmJudging()

    def judge(self, outcome: RunOutcome, inputs: JudgeInputs) -> Verdict:
        """Return the model's verdict, with what the checks suspected. Raises as `judge_by_lm`."""
        if inputs.lms is None:
            raise BadInput("the judge lm asks a model, and none was given")
        settings = inputs.policy
        if not isinstance(settings, LmJudging):
            # A policy of another name may ask this judge too; another version of its own has settings it can't obey.
            if settings.name == self.policy.name:
                raise BadPolicy(
                    f"the judge lm-{VERSION} can't judge by {type(settings).__name__}, another version of it"
                )
            settings = self.policy
        known = None
        if inputs.bank is not None:
            k = {"principles": settings.principles, "cases": settings.cases}
            known = precedents_for(outcome, inputs.bank, **k, point=inputs.point)
        seen = Evidence(inputs.checked.findings, inputs.answer, outcome.ending) if settings.evidence else Evidence()
        over_source = outcome.over_source(inputs.source)
        options: dict[str, Any] = {"purpose": inputs.purpose, "strictness": settings.strictness}
        return judge_by_lm(outcome, inputs.lms, known, seen, over_source=over_source, **options)


class Evidence(NamedTuple):
    """The texts that a judging model is shown beside the submission.

    `findings` are those of the checks, `answer` is the answer of the submitted query, `ending` the run's last steps.
    """

    findings: tuple[Finding, ...] = ()
    answer: Answer | None = None
    ending: str = ""


LM = LmJudge()


def __getattr__(name: str) -> Any:
    """Return `TrajectoryJudge`, dspy's signature of the prompt, created on first use. `MissingExtra` without dspy."""
    if name == "TrajectoryJudge":
        return _signature()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _signature() -> Any:
    return signature_of(prompt_for("judge"), {})


def judge_by_lm(
    outcome: RunOutcome,
    lms: Lms,
    precedents: Precedents | None = None,
    evidence: Evidence | None = None,
    *,
    purpose: Purpose = "learning",
    strictness: Strictness = "plain",
    over_source: bool | None = None,
) -> Verdict:
    """Return the verdict of the model in the role `judge`, at temperature 0, with its confidence if it gave one.

    `strictness` chooses what the model is told about doubtful cases, `over_source` (that of the outcome unless given)
    whether it is asked about a query and its rows. The judge's version names what differs: `1-general-strict`.

    After a reply that gives no one verdict, the model is asked again with the reason, and after a lost connection
    without, `JUDGE_TRIES` times in all; then the run is undecided. Every call is recorded, and there are no others.

    Raises `LmFailed` if the model gave no reply: there is no verdict then.
    """
    known, seen = precedents or Precedents(), evidence or Evidence()
    about = outcome.over_source() if over_source is None else over_source
    prompt = prompt_for("judge", over_source=about).telling(LEANINGS[strictness].format(shown=SHOWN[about]))
    asked = {
        "task": within(outcome.task, limits.JUDGE_ANSWER_CHARS),
        "answer": within(outcome.answer, limits.JUDGE_ANSWER_CHARS),
        "sparql": within(outcome.sparql, limits.JUDGE_QUERY_CHARS),
        "rows": within(_rows(seen.answer), limits.JUDGE_ROWS_CHARS),
        "steps": within(seen.ending, limits.JUDGE_STEPS_CHARS),
        "suspicions": within(_listed(seen.findings), limits.JUDGE_REASON_CHARS),
        "principles": known.principles,
        "cases": known.cases,
    }
    before = len(lms.calls.ids)
    reply = _reply(lms, asked, prompt)
    return Verdict(
        verdict=reply.verdict,
        reason=bounded(reply.reason),
        kind="lm",
        judge=f"{JUDGE}:{lms.choice('judge').name}",
        judge_version="-".join([VERSION, *([] if about else ["general"]), *([strictness] * (strictness != "plain"))]),
        purpose=purpose,
        confidence=reply.confidence,
        findings=seen.findings,
        calls=tuple(lms.calls.ids[before:]),
        precedents=known.items,
    )


def _rows(answer: Answer | None) -> str:
    """Return the first rows of an answer, a line each, with their number; empty for an unknown answer."""
    if answer is None:
        return ""
    if answer.form == "ask":
        return f"{answer.boolean}".lower()
    more = f", the first {limits.JUDGE_ROWS} of them" if len(answer.rows) > limits.JUDGE_ROWS else ""
    least = "at least " if answer.truncated else ""
    lines = (row_line(row) for row in answer.rows[: limits.JUDGE_ROWS])
    return "\n".join([f"{least}{len(answer.rows):,} rows{more}; columns: {', '.join(answer.variables)}", *lines])


def _listed(findings: tuple[Finding, ...]) -> str:
    return "\n".join(f"- {each.code}: {each.message}" for each in findings)


def within(text: str, chars: int) -> str:
    """Return a text truncated in its middle; `none` for an empty one."""
    return (text.strip() or NONE) if len(text) <= chars else cut_middle(text, chars)


def _reply(lms: Lms, asked: dict[str, str], prompt: Prompt) -> LmReply:
    def settled(given: Mapping[str, str]) -> LmReply | str:
        return settled_reply(lms, prompt.messages(given), read_reply, prompt.schema)

    found = ask_with_room(asked, settled)
    if isinstance(found, LmReply):
        return found
    return LmReply("undecided", f"{limits.JUDGE_TRIES} replies gave no one verdict; of the last one: {found}")


Reading = TypeVar("Reading")


def settled_reply(
    lms: Lms,
    messages: list[Message],
    read: Callable[[ModelReply], Reading | str],
    schema: Mapping[str, Any] | None = None,
) -> Reading | str:
    """Return what was read in a judge's reply, or why its last one can't be read, after `JUDGE_TRIES` tries.

    The reply keeps the JSON `schema` where the server has that. After a reply that can't be read the model is asked
    again, with it and the reason; after a lost connection without. Raises `LmFailed` if the model gave no reply.
    """
    problem: Reading | str = ""
    before = len(lms.calls.ids)
    for left in reversed(range(limits.JUDGE_TRIES)):
        try:
            # At 0, because the verdict on the same run should be the same again.
            reply = lms.ask("judge", messages, temperature=0.0, schema=schema)
        except LmFailed as failure:
            if not left or not may_ask_again(failure, len(lms.calls.ids) - before):
                raise
            continue
        problem = read(reply)
        if not isinstance(problem, str):
            break
        messages = asked_again(messages, reply.text, f"Your reply could not be read: {problem}.")
    return problem


# ---------------------------------------------------------------- principles and past cases


class Precedents(msgspec.Struct, frozen=True, kw_only=True):
    """Principles and past cases as a judging model reads them, each within its budget, and the ids of the items."""

    principles: str = NONE
    cases: str = NONE
    items: tuple[str, ...] = ()


def precedents_for(
    outcome: RunOutcome,
    bank: Bank,
    *,
    principles: int = limits.JUDGE_PRINCIPLES,
    cases: int = limits.JUDGE_CASES,
    point: str | int | None = None,
) -> Precedents:
    """Return the active principles and past cases that best match a run's task, then its query, as of a point.

    They are items with the sources `principle` and `episode`, ranked by the bank's retrieval policy, which may prefer
    those of the run's ontology, and may withhold past cases that have too little of a question; agents never see them.
    Each kind takes at most `JUDGE_MEMORY_CHARS`: whole items, or the beginning of the first if it is longer.
    """
    # Two questions, because a precedent about the one has too little of both to be given.
    questions = (outcome.task, outcome.sparql)
    with bank.live() if point is None else bank.as_of(point) as view:
        found = {
            source: _best([view.search_for_judge(words, k, source, domain=outcome.ontology) for words in questions], k)
            for source, k in (("principle", principles), ("episode", cases))
        }
        position = view.position
    chosen = {source: _items(bank, ids, position) for source, ids in found.items()}
    return Precedents(
        principles=_packed(chosen["principle"]),
        cases=_packed(chosen["episode"]),
        items=tuple(item.id for items in chosen.values() for item in items),
    )


def _best(found: Iterable[Iterable[FoundItem]], k: int) -> list[str]:
    """Return the ids of at most `k` items, each once, those of the first question before those of the next."""
    return list(dict.fromkeys(hit.id for hits in found for hit in hits))[:k]


def _items(bank: Bank, ids: list[str], position: int) -> list[Item]:
    """Return the items that fit into the budget, but at least the first."""
    items = bank.get(ids, max_n=len(ids), point=position) if ids else []
    kept: list[Item] = []
    for item in items:
        if kept and len("\n".join(map(_line, [*kept, item]))) > limits.JUDGE_MEMORY_CHARS:
            break
        kept.append(item)
    return kept


def _packed(items: list[Item]) -> str:
    text = "\n".join(map(_line, items))
    return cut(text, limits.JUDGE_MEMORY_CHARS) or NONE


def _line(item: Item) -> str:
    """Return an item in one line, with its description if it has no content."""
    body = " ".join((item.content or item.desc).split())
    return f"- {' '.join(item.title.split())}: {body}"
