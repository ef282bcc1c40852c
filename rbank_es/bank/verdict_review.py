"""The verdicts that a person should check first: those whose being wrong would cost most. Pure, and without a model.

The expected loss of a verdict is the probability that it is wrong, times the weight of what rests on it alone.

Probability. It follows from what was checked in this bank, by judge, value, family of tasks and confidence, and from
the other judges of the run: see `rbank_es.bank.verdict_error`.

Weight. The items that would leave at once if the verdict were the other one, their uses, and the runs that were given
them. It is a first-order figure: a correction makes decisions again, so the same lesson may come in from another run.
`overrule --dry-run` shows the whole effect of one verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.verdict_error import Doubt, ErrorModel, Judge, Opinion, fitted, opinions_of
from rbank_es.events import JudgmentOverruled, RunJudged
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import LiveState, State
from rbank_es.law.validity import law_of, said_by
from rbank_es.system.progress import OnProgress

JUDGMENTS = frozenset({"run_judged", "judgment_overruled"})
"""The types of events that a review reads beside the state."""

OPPOSITE: Mapping[VerdictValue, VerdictValue] = {"success": "failure", "failure": "success"}

ITEM_WEIGHT, USE_WEIGHT, RUN_WEIGHT = 1.0, 0.02, 0.02
"""Weights of an item, of one use of it, and of a run that was given any. Our own choice: an item without uses may
still be used, each use shows that it fits, and a run that it misled is in doubt itself. Uses weigh little, because an
item is in doubt by the verdict and not by its uses. Chosen on simulated banks, of which
`benchmarks/review_order.py` counts the items saved."""

CHARS_PER_MINUTE = 1_430
"""Reading speed: 238 words of prose a minute (source: Brysbaert 2019, doi:10.1016/j.jml.2019.104047), of 6 characters
with the blank."""

MINUTES_EACH = 1.0
"""Minutes to find out the right answer beside reading, the least for any verdict. Assumed."""


class Stake(Struct, frozen=True, kw_only=True):
    """The things that rest on one verdict alone: active items, their uses, and the runs that were given any of them."""

    items: tuple[str, ...] = ()
    uses: int = 0
    runs: tuple[str, ...] = ()

    @property
    def weight(self) -> float:
        """The weighted sum of items, uses and runs."""
        return ITEM_WEIGHT * len(self.items) + USE_WEIGHT * self.uses + RUN_WEIGHT * len(self.runs)


class DoubtfulVerdict(Struct, frozen=True, kw_only=True):
    """A verdict on which items rest alone. `seq` is the position of its judgment, `loss` the expected loss."""

    run: str
    verdict: VerdictValue
    judge: str
    kind: str
    seq: int
    doubt: Doubt
    stake: Stake
    loss: float


def doubts_at(bank: OpenBank, position: int, progress: OnProgress | None = None) -> tuple[DoubtfulVerdict, ...]:
    """Return the doubtful verdicts of a bank at a position, as `doubtful_verdicts` does."""
    if position < bank.log.position():
        return _of_state(bank, bank.state(position), progress)
    with bank.latest.at(position) as basis:
        return _of_state(bank, basis.state, progress)


def _of_state(bank: OpenBank, state: State, progress: OnProgress | None) -> tuple[DoubtfulVerdict, ...]:
    events = bank.log.read(upto=state.position, types=JUDGMENTS)
    judgments = (each for each in events if isinstance(each, RunJudged | JudgmentOverruled))
    return doubtful_verdicts(state, judgments, progress)


def doubtful_verdicts(
    state: State, judgments: Iterable[RunJudged | JudgmentOverruled], progress: OnProgress | None = None
) -> tuple[DoubtfulVerdict, ...]:
    """Return the verdicts of a state on which items rest alone, the highest expected loss first, then the earliest.

    `judgments` are all of the bank up to the state's position. What a person said is left out, and what is undecided:
    nothing rests on it. `progress` is called with the number of runs done and their total.
    """
    # By rule 2 the verdict of a judge, or of people, that counts is the one that was given last.
    ordered = judgments if law_of(state.policies) == 1 else sorted(judgments, key=said_by)
    opinions = opinions_of(ordered, state.runs)
    errors = fitted(opinions)
    standing = [(run, each) for (run, purpose), each in state.verdicts.items() if purpose == "learning"]
    found = []
    for number, (run, verdict) in enumerate(standing):
        if progress is not None and number % 100 == 0:
            progress(number, len(standing))
        if verdict.kind == "human" or verdict.verdict == "undecided":
            continue
        stake = stake_of(state, run, verdict.verdict)
        if stake.items:
            found.append(_doubtful(state, run, stake, opinions.get(run, {}), errors))
    # Rounded, because a difference in the last digit must not outweigh the position.
    return tuple(sorted(found, key=lambda each: (-round(each.loss, 9), each.seq)))


def _doubtful(
    state: State, run: str, stake: Stake, opinions: Mapping[Judge, Opinion], errors: ErrorModel
) -> DoubtfulVerdict:
    standing, started = state.verdicts[run, "learning"], state.runs.get(run)
    given = Opinion.of(standing, "learning", started)
    doubt = errors.doubt(given, [each for by, each in opinions.items() if by != given.by])
    return DoubtfulVerdict(
        run=run,
        verdict=standing.verdict,
        judge=given.judge,
        kind=standing.kind,
        seq=standing.seq,
        doubt=doubt,
        stake=stake,
        loss=doubt.probability * stake.weight,
    )


# ---------------------------------------------------------------- the weight


def stake_of(state: State, run: str, verdict: VerdictValue) -> Stake:
    """Return the things that rest on a verdict alone: those that would leave at once if it were the other one."""
    if not state.relying.get(run):
        return Stake()
    # The fold itself, so that no second rule says what stands.
    trial = LiveState(state)
    changed = trial.advance([_otherwise(run, verdict, state.position + 1)])
    left = sorted(
        id
        for id in changed
        if id in state.items and state.items[id].state == "active" and trial.state.items[id].state != "active"
    )
    given = dict.fromkeys(run for id in left for run in state.uses.get(id, ()))
    return Stake(items=tuple(left), uses=sum(len(state.uses.get(id, ())) for id in left), runs=tuple(sorted(given)))


def _otherwise(run: str, verdict: VerdictValue, seq: int) -> JudgmentOverruled:
    return JudgmentOverruled(
        id="otherwise",
        seq=seq,
        run=run,
        purpose="learning",
        verdict=OPPOSITE[verdict],
        judge="human",
        judge_version="1",
        kind="human",
        by="review",
    )


# ---------------------------------------------------------------- the time of a person


def minutes_to_check(chars: int) -> float:
    """Return the minutes that a person needs to check a verdict, given the characters that have to be read."""
    return MINUTES_EACH + chars / CHARS_PER_MINUTE


def within(minutes: Iterable[float], limit: float) -> list[int]:
    """Return the indices of what fits into so many minutes, taken in order; what is too long for the rest is passed
    over."""
    chosen, spent = [], 0.0
    for index, each in enumerate(minutes):
        if spent + each <= limit:
            chosen.append(index)
            spent += each
    return chosen
