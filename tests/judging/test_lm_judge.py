"""The judge that is a model: asked once at temperature 0, read a bounded number of times, every call recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LmFailed
from rbank_es.events import LmCalled
from rbank_es.events.items import Item
from rbank_es.judging.gold_answers import Gold
from rbank_es.judging.judges import decide, judge
from rbank_es.judging.lm_judge import NONE, Precedents, judge_by_lm, precedents_for
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms
from rbank_es.policies import CheckJudging, LmJudging
from tests.judging.answers import add, run_of

THINGS = "SELECT ?x WHERE { ?x a <http://example.org/Thing> }"
RUN = run_of(THINGS, "Which owls have a type?", answer="a and b", run="r")
YES = "[[ ## success ## ]]\nTrue\n\n[[ ## reason ## ]]\nIt is right.\n\n[[ ## completed ## ]]"
NO = YES.replace("True", "False").replace("right", "wrong")


class Replies:
    """An engine that gives replies in order, and keeps what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.replies, self.requests = list(replies), list[Any]()

    def complete(self, request: Any) -> Any:
        from dspy.lm15 import Message, Response, Usage

        self.requests.append(request)
        text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        message = Message(role="assistant", parts=Message.user(text).parts)
        return Response(id="1", model="stub", message=message, finish_reason="stop", usage=Usage())


@contextmanager
def models(bank: Bank, engine: Replies) -> Iterator[Lms]:
    choice = LmChoice(model="openai/stub")
    with Lms(bank, "r", {"judge": choice}, model_for=lambda *_: engine, sleep=lambda _: None) as lms:
        yield lms


def calls(bank: Bank) -> list[LmCalled]:
    return [event for event in bank.events(resolve=True) if isinstance(event, LmCalled)]


PIECES = st.text(max_size=8) | st.sampled_from(
    ["[" * 3_000, '{"a":' * 900, "\u2028", "[[ ## success ## ]]", "```", "NaN"]
)


class Dropping(Replies):
    """An engine whose first connections break off."""

    def __init__(self, drops: int, reply: str) -> None:
        super().__init__(reply)
        self.drops = drops

    def complete(self, request: Any) -> Any:
        from rbank_es.models.model_call import failed

        found = super().complete(request)
        if len(self.requests) <= self.drops:
            raise failed("bad_response", "the answer broke off")
        return found


def test_after_as_many_dropped_connections_as_there_are_tries_there_is_no_verdict(bank: Bank) -> None:
    with models(bank, Dropping(3, YES)) as lms, pytest.raises(LmFailed, match="broke off"):
        judge_by_lm(RUN, lms)
    assert len(calls(bank)) == limits.JUDGE_TRIES


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["[", '{"a":', '["a" b '])
def test_a_verdict_that_is_brackets_all_the_way_is_none_and_takes_no_time(bank: Bank, unit: str) -> None:
    """It ended the loop with a RecursionError, or held it up for hours."""
    reply = f"[[ ## success ## ]]\n{unit * 30_000}\n[[ ## reason ## ]]\nx"
    with models(bank, Replies(reply)) as lms:
        assert judge_by_lm(RUN, lms).verdict == "undecided"
    assert len(calls(bank)) == limits.JUDGE_TRIES


def test_the_signature_has_its_name() -> None:
    from rbank_es.judging import lm_judge

    signature = lm_judge.TrajectoryJudge
    assert signature.__name__ == "TrajectoryJudge"
    assert list(signature.input_fields) == [
        *("task", "answer", "sparql", "rows", "steps", "suspicions", "principles", "cases")
    ]
    assert list(signature.output_fields) == ["verdict", "confidence", "reason"]
    with pytest.raises(AttributeError):
        _ = lm_judge.Nothing


# ---------------------------------------------------------------- principles and past cases


def test_precedents_are_as_of_a_point_and_of_active_items(bank: Bank) -> None:
    before = bank.position
    add(bank, Item.make("Owls need a type", "Owls.", "principle"))
    assert precedents_for(RUN, bank, point=before) == Precedents()
    found = precedents_for(RUN, bank)
    assert (len(found.items), found.cases) == (1, NONE)
    assert precedents_for(RUN, bank, principles=0) == Precedents()


def test_no_principle_is_withheld_that_shares_one_word_with_the_question_and_a_past_case_is(bank: Bank) -> None:
    """A person wrote a principle for every case; a past case that is about something else would mislead."""
    words = ("An answer names its unit", "Metres or feet: a height of owls without either is a failure.")
    principle, case = (Item.make(*words, src) for src in ("principle", "episode"))
    add(bank, principle, case, *(Item.make(f"Seen {place}", "Owls.", "success") for place in ["north", "south"]))
    asked = msgspec.structs.replace(RUN, task="Which forest shelters most owls every winter?", sparql="")
    assert precedents_for(asked, bank).items == (principle.id,)


def test_past_cases_of_the_task_come_before_those_of_the_query_and_neither_question_hides_those_of_the_other(
    bank: Bank,
) -> None:
    """Of task and query together, a case about one of them has too little to be given."""
    of_query = Item.make("SELECT by example", "SELECT ?x WHERE { ?x a <http://example.org/Thing> }", "episode")
    of_task = Item.make("Owls need a type", "Owls.", "episode")
    add(bank, of_query, of_task)
    assert precedents_for(RUN, bank).items == (of_task.id, of_query.id)
    assert precedents_for(RUN, bank, cases=1).items == (of_task.id,)
    assert precedents_for(msgspec.structs.replace(RUN, sparql=""), bank).items == (of_task.id,)


def test_precedents_keep_to_their_budget(bank: Bank) -> None:
    add(bank, *(Item.make(f"Owls by type, rule {n}", f"owls {n} " + "word " * 200, "principle") for n in range(5)))
    found = precedents_for(RUN, bank)
    assert 1 <= len(found.items) < 5
    assert len(found.principles) <= limits.JUDGE_MEMORY_CHARS
    add(bank, Item.make("Case: which owls have a type", "owls " * 2_000, "episode"))
    assert len(precedents_for(RUN, bank).cases) == limits.JUDGE_MEMORY_CHARS


# ---------------------------------------------------------------- by a policy


def test_gold_scores_and_teaches_only_under_supervision() -> None:
    fewer = run_of(THINGS)
    gold = Gold(sparql="SELECT ?x ?y WHERE { ?x a ?y }")
    assert decide(fewer, gold=gold).verdict == "undecided"
    assert decide(fewer, gold=gold, purpose="scoring").verdict == "failure"
    assert decide(fewer, gold=gold, policy=CheckJudging(supervised=True)).verdict == "failure"
    assert decide(RUN, gold=gold, policy=CheckJudging(supervised=True)).purpose == "learning"
    assert decide(RUN, purpose="scoring").judge == "checks"


def test_a_policy_that_asks_a_model_needs_one_where_it_comes_to_that() -> None:
    with pytest.raises(BadInput, match="--judge-lm"):
        decide(RUN, policy=LmJudging())
    assert decide(run_of(THINGS, outcome="failed"), policy=LmJudging()).verdict == "failure"
    assert decide(run_of("no query"), policy=LmJudging()).verdict == "failure"
    assert decide(RUN, policy=LmJudging(), gold=Gold(sparql=THINGS), purpose="scoring").verdict == "success"
    assert decide(RUN, policy=LmJudging(supervised=True), gold=Gold(sparql=THINGS)).verdict == "success"


def test_judge_says_success_and_reason_first() -> None:
    class Result:
        answer, sparql, converged, iters = "An Activity occurs over time.", THINGS, True, 5

    told = judge(Result(), "What is Activity?")
    assert list(told)[:2] == ["success", "reason"]
    assert (told["success"], told["verdict"], told["judge"]) == (None, "undecided", "checks-1")
    Result.converged = False
    assert judge(Result(), "What is Activity?")["success"] is False
    assert msgspec.json.decode(msgspec.json.encode(told)) == told | {"evidence": []}
