"""Simulated banks with planted errors: the items that a person saves by checking verdicts in the order of `review`,
against random order and newest first.

Nothing here says how often a real judge errs. Models of error differ in who errs, where, and whether confidence, other
judges or earlier checks betray it; in some of them what the order goes by misleads. A person who checks is always
right, and asks again after each verdict. The order was chosen on the first eighteen models, with banks of other seeds;
the six others were written before its last change, and first run behind that. Tried and left out, because they saved
less on the whole: how often the runs fail that were given a verdict's lessons (it helps only where wrong lessons
mislead), how many lessons a run taught, a list spread over families, a value's errors by family, how often the runs of
a family succeed, the mean of the posterior in place of its mode, and the upper end of an interval, which asks first
where little is known. Other widths of the priors change a few hundredths.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from math import gamma
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from benchmarks.corpus import SEED, vocabulary
from benchmarks.measure import Goal, Row
from benchmarks.sizes import Sizes
from rbank_es import Bank, Item
from rbank_es.bank.verdict_acts import Ruling
from rbank_es.bank.verdict_review import OPPOSITE, doubts_at
from rbank_es.events import (
    ContextBuilt,
    Event,
    MemoriesConsolidated,
    MemoriesExtracted,
    Reliance,
    RunJudged,
    RunStarted,
)
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import active
from rbank_es.law.decisions import append_decided

RUNS = 120
FAMILIES = 12
CHECKED_SHARE = 0.1
"""The share of the verdicts that a person checks."""

RANDOM_ORDERS = 20
RESAMPLINGS = 400
TWINS = 0.3
"""The share of lessons that nearly repeat one of their family, so that two verdicts support it."""


class Case(NamedTuple):
    """A run before it is judged: its number, the family and level of its task, and whether it succeeded."""

    number: int
    family: int
    level: int
    success: bool


class Judged(NamedTuple):
    """A verdict of a simulated model: who gave it, whether it is wrong, the confidence, and how many lessons follow.

    `chance` is the probability that it is wrong for somebody who knows the model and sees all but whether it is.
    `seconded` is whether a check that isn't sure gave the same verdict, None without such a check.
    """

    judge: str
    version: str
    wrong: bool
    chance: float
    confidence: float | None
    lessons: int
    seconded: bool | None = None


class Confidence(NamedTuple):
    """The beta distributions of the confidence in wrong and in right verdicts."""

    wrong: tuple[int, int]
    right: tuple[int, int]

    def drawn(self, wrong: bool, dice: random.Random) -> float:
        """Return the confidence in a verdict."""
        return round(dice.betavariate(*(self.wrong if wrong else self.right)), 2)

    def odds(self, confidence: float) -> float:
        """Return how much more probable a confidence is for a wrong verdict."""
        inside = min(0.995, max(0.005, confidence))
        return _density(inside, *self.wrong) / _density(inside, *self.right)


def _density(x: float, a: int, b: int) -> float:
    return x ** (a - 1) * (1 - x) ** (b - 1) * gamma(a + b) / gamma(a) / gamma(b)


LESS_CONFIDENT = Confidence((4, 2), (9, 1))
MORE_CONFIDENT = Confidence((9, 1), (4, 2))
NEARLY_AS_CONFIDENT = Confidence((6, 2), (8, 2))
SAME_CONFIDENCE = Confidence((9, 1), (9, 1))


def _judge(
    case: Case,
    dice: random.Random,
    if_success: float,
    if_failure: float,
    *,
    confidence: Confidence | None = None,
    lessons: Callable[[random.Random, bool], int] = lambda dice, wrong: dice.randint(1, 3),
    lessons_odds: Callable[[int], float] = lambda lessons: 1.0,
    judge: str = "lm",
    version: str = "1",
) -> Judged:
    """Judge a run that is judged wrongly with a probability that depends on its outcome."""
    wrong = dice.random() < (if_success if case.success else if_failure)
    sure = None if confidence is None else confidence.drawn(wrong, dice)
    taught = lessons(dice, wrong)
    said_success = case.success is not wrong
    odds = if_failure / (1 - if_success) if said_success else if_success / (1 - if_failure)
    odds *= 1.0 if confidence is None or sure is None else confidence.odds(sure)
    odds *= lessons_odds(taught)
    return Judged(judge, version, wrong, odds / (1 + odds), sure, taught)


def _independent(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.1, 0.3)


def _one_bad_judge(case: Case, dice: random.Random) -> Judged:
    judge, error = dice.choice((("good", 0.05), ("fair", 0.15), ("bad", 0.5)))
    return _judge(case, dice, error, error, judge=judge)


def _by_family(case: Case, dice: random.Random) -> Judged:
    error = 0.9 if case.family % 4 == 0 else 0.05
    return _judge(case, dice, error, error)


def _less_confident(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.1, 0.3, confidence=LESS_CONFIDENT)


def _more_confident(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.1, 0.3, confidence=MORE_CONFIDENT)


def _few_teach_much(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.1, 0.3, lessons=lambda dice, wrong: min(10, int(dice.paretovariate(1.2))))


def _errors_teach_little(case: Case, dice: random.Random) -> Judged:
    return _judge(
        case,
        dice,
        0.1,
        0.3,
        lessons=lambda dice, wrong: 1 if wrong else dice.randint(1, 3),
        lessons_odds=lambda lessons: 3.0 if lessons == 1 else 0.0,
    )


def _harsh(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.3, 0.1)


def _by_level(case: Case, dice: random.Random) -> Judged:
    error = (0.02, 0.05, 0.1, 0.3, 0.6)[case.level - 1]
    return _judge(case, dice, error, error)


def _worse_version(case: Case, dice: random.Random) -> Judged:
    error, version = (0.05, "1") if case.number < RUNS // 2 else (0.45, "2")
    return _judge(case, dice, error, error, version=version)


def _by_family_unsure(case: Case, dice: random.Random) -> Judged:
    error = 0.6 if case.family % 3 == 0 else 0.1
    return _judge(case, dice, error, error, confidence=NEARLY_AS_CONFIDENT)


class Model(NamedTuple):
    """A model of error: what its name says, how runs are judged, and the share of runs with a gold score.

    `misled` is how much less likely a run succeeds if all that it was given was drawn from wrong verdicts, `twins` the
    share of lessons that nearly repeat another one. `popular`: runs are given the first items of their family, not the
    latest.
    """

    words: str
    judge: Callable[[Case, random.Random], Judged]
    scored: float = 0.0
    misled: float = 0.0
    twins: float = TWINS
    popular: bool = False


def _opposite_faults(case: Case, dice: random.Random) -> Judged:
    if dice.random() < 0.5:
        return _judge(case, dice, 0.4, 0.05, judge="strict")
    return _judge(case, dice, 0.05, 0.4, judge="lax")


def _worsening(case: Case, dice: random.Random) -> Judged:
    error = 0.05 + 0.45 * case.number / RUNS
    return _judge(case, dice, error, error)


def _passing_families(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.1, 0.9 if case.family % 6 == 0 else 0.15)


def _hard_and_unsure(case: Case, dice: random.Random) -> Judged:
    error = 0.05 * case.level
    return _judge(case, dice, error, 2 * error, confidence=NEARLY_AS_CONFIDENT)


def _few_teach_much_unsure(case: Case, dice: random.Random) -> Judged:
    return _judge(
        case,
        dice,
        0.15,
        0.35,
        confidence=NEARLY_AS_CONFIDENT,
        lessons=lambda dice, wrong: min(8, int(dice.paretovariate(1.5))),
    )


MODELS = (
    Model("errors independent, more false successes", _independent),
    Model("one of three judges bad, a fifth of the runs scored by gold", _one_bad_judge, 0.2),
    Model("errors in some families only, a fifth scored", _by_family, 0.2),
    Model("less confident when wrong", _less_confident),
    Model("more confident when wrong", _more_confident),
    Model("few runs teach much", _few_teach_much),
    Model("wrong runs teach little", _errors_teach_little),
    Model("wrong lessons make later runs fail", _independent, misled=0.4),
    Model("more false failures", _harsh),
    Model("a judge whose second version is worse, a tenth scored", _worse_version, 0.1),
    Model("errors by the level of the task, a tenth scored", _by_level, 0.1),
    Model("some families worse, less confident when wrong", _by_family_unsure),
    Model("less confident when wrong, wrong lessons make later runs fail", _less_confident, misled=0.5),
)
"""The models on which the order was chosen, with banks of other seeds."""

SEEN = (
    Model("a strict judge and a lax one, a tenth scored", _opposite_faults, 0.1),
    Model("a judge that gets worse from run to run", _worsening),
    Model("two families pass whatever they do, a tenth scored", _passing_families, 0.1),
    Model("errors by the level of the task, less confident when wrong", _hard_and_unsure),
    Model("few runs teach much, less confident when wrong, wrong lessons mislead", _few_teach_much_unsure, misled=0.3),
)
"""The models on which two shifts, of time and of leniency, and the weight of uses were chosen beside the first."""


def _three_difficulties(case: Case, dice: random.Random) -> Judged:
    error = (0.5, 0.2, 0.05)[case.family % 3]
    return _judge(case, dice, error, error)


def _four_judges(case: Case, dice: random.Random) -> Judged:
    judge, error = dice.choice((("a", 0.05), ("b", 0.1), ("c", 0.25), ("d", 0.45)))
    return _judge(case, dice, error, error, judge=judge)


def _one_tells(case: Case, dice: random.Random) -> Judged:
    if dice.random() < 0.5:
        return _judge(case, dice, 0.2, 0.3, judge="vain", confidence=SAME_CONFIDENCE)
    return _judge(case, dice, 0.2, 0.3, judge="frank", confidence=LESS_CONFIDENT)


def _seconded(case: Case, dice: random.Random) -> Judged:
    first = _judge(case, dice, 0.1, 0.3)
    repeats, error = 0.6, 0.25
    agrees = dice.random() < repeats or (dice.random() < error) is first.wrong
    if_wrong, if_right = repeats + (1 - repeats) * error, repeats + (1 - repeats) * (1 - error)
    odds = first.chance / (1 - first.chance)
    odds *= if_wrong / if_right if agrees else (1 - if_wrong) / (1 - if_right)
    return first._replace(chance=odds / (1 + odds), seconded=agrees)


def _unsure(case: Case, dice: random.Random) -> Judged:
    return _judge(case, dice, 0.15, 0.3, confidence=NEARLY_AS_CONFIDENT)


UNSEEN = (
    Model("families of three difficulties, a tenth scored", _three_difficulties, 0.1),
    Model("four judges, from good to bad, a tenth scored", _four_judges, 0.1),
    Model("two judges, of which one is less confident when wrong, a tenth scored", _one_tells, 0.1),
    Model("a check that often repeats the judge's error", _seconded),
    Model(
        "few items are used much, less confident when wrong, wrong lessons mislead", _unsure, misled=0.3, popular=True
    ),
    Model("lessons repeat each other in chains, less confident when wrong", _unsure, twins=0.6),
)
"""The models that were written before the order was last changed, put aside, and run once it was."""


class Saved(NamedTuple):
    """Items saved per verdict checked, in each order. `knowing` is that of who knows the model of error, the most that
    an order can reach without knowing the errors; `best` that of who knows these."""

    ours: float
    random: float
    newest: float
    knowing: float
    best: float


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row for each model of error, and one for the mean of each group of them."""
    yield from _rows(MODELS, "mean of the models on which the order was chosen", sizes)
    yield from _rows(SEEN, "mean of five models that were unseen when most of it was chosen", sizes)
    yield from _rows(UNSEEN, "mean of six models unseen when the order was chosen", sizes)


def _rows(models: Sequence[Model], together: str, sizes: Sizes) -> Iterator[Row]:
    found = []
    for model in models:
        found.append([_saved(model, SEED + number) for number in range(sizes.review_banks)])
        yield _row(model.words, [found[-1]], sizes)
    yield _row(together, found, sizes, Goal("≥", 3, "x random"))


def _row(words: str, found: Sequence[Sequence[Saved]], sizes: Sizes, goal: Goal | None = None) -> Row:
    share = f"{CHECKED_SHARE:.0%} of {RUNS}, {sizes.review_banks} banks"
    saved, (low, high) = _mean(found), _interval(found)
    return Row(
        "review order",
        f"SIMULATED: items saved per verdict checked, {share}; {words}",
        f"{saved.ours:.2f} ({saved.ours / saved.random:.1f} x random, {low:.1f} to {high:.1f} in 95 % of resamplings)",
        f"random {saved.random:.2f}, newest first {saved.newest:.2f}",
        f"who knows the model {saved.knowing:.2f} ({saved.knowing / saved.random:.1f} x), the errors {saved.best:.2f}",
        goal=goal,
        value=saved.ours / saved.random if goal else None,
    )


def _mean(found: Sequence[Sequence[Saved]]) -> Saved:
    """Return the mean over models of the mean over banks."""
    of_models = [[mean(values) for values in zip(*of_model, strict=True)] for of_model in found]
    return Saved(*(mean(values) for values in zip(*of_models, strict=True)))


def _interval(found: Sequence[Sequence[Saved]]) -> tuple[float, float]:
    """Return between what the gain over random order lies in 95 % of resamplings of the banks of each model."""
    dice, gains = random.Random(SEED), []
    for _ in range(RESAMPLINGS):
        saved = _mean([dice.choices(of_model, k=len(of_model)) for of_model in found])
        gains.append(saved.ours / saved.random)
    gains.sort()
    return gains[RESAMPLINGS // 40], gains[-1 - RESAMPLINGS // 40]


def _saved(model: Model, seed: int) -> Saved:
    """Make one bank and check its verdicts in each order; the last one, ours, really corrects it."""
    dice, budget = random.Random(f"{seed} {model.words}"), round(CHECKED_SHARE * RUNS)
    with Bank.create("memory:") as bank:
        wrong, chances = _fill(bank, model, dice)
        runs = [f"run-{number:04d}" for number in range(RUNS)]
        listed = doubts_at(bank, bank.position)
        rest = {each.run: len(each.stake.items) for each in listed}
        best = _left(bank, sorted(wrong.keys() & rest.keys(), key=lambda run: (-rest[run], run))[:budget], wrong)
        drawn = [_left(bank, dice.sample(runs, budget), wrong) for _ in range(RANDOM_ORDERS)]
        newest = _left(bank, runs[-budget:], wrong)
        asked = sorted(rest, key=lambda run: -chances[run] * rest[run])
        knowing = _left(bank, asked[:budget], wrong)
        # Last, because it changes the bank.
        ours = _checked_by_us(bank, wrong, budget)
        return Saved(*(saved / budget for saved in (ours, mean(drawn), newest, knowing, best)))


def _left(bank: Bank, checked: Sequence[str], wrong: dict[str, VerdictValue]) -> int:
    """Return the number of items that leave when somebody checks these runs."""
    rulings = [Ruling(run, OPPOSITE[wrong[run]], "checked") for run in checked if run in wrong]
    return len(bank.overrule_many(rulings, dry_run=True).left) if rulings else 0


def _checked_by_us(bank: Bank, wrong: dict[str, VerdictValue], budget: int) -> int:
    """Check the first verdict of the review, and ask again; return the number of items that left."""
    before = active(bank.state())
    for _ in range(budget):
        if asked := doubts_at(bank, bank.position):
            first = asked[0]
            found = OPPOSITE[first.verdict] if first.run in wrong else first.verdict
            bank.overrule(first.run, found, reason="checked")
    return len(before.keys() - active(bank.state()).keys())


# ---------------------------------------------------------------- a bank


def _fill(bank: Bank, model: Model, dice: random.Random) -> tuple[dict[str, VerdictValue], dict[str, float]]:
    """Let runs be judged and teach; return the wrong verdicts by run, and the probability of each to be wrong."""
    wrong: dict[str, VerdictValue] = {}
    chances: dict[str, float] = {}
    taught: list[list[Item]] = [[] for _ in range(FAMILIES)]
    misleading = set[str]()
    for number in range(RUNS):
        family = dice.randrange(FAMILIES)
        known = taught[family]
        given = tuple(dict.fromkeys(item.id for item in (known if model.popular else reversed(known))))[:2]
        misled = len(misleading.intersection(given)) / max(1, len(given))
        case = Case(number, family, number % 5 + 1, dice.random() < 0.5 - model.misled * misled)
        judged, run = model.judge(case, dice), f"run-{number:04d}"
        verdict: VerdictValue = "success" if case.success is not judged.wrong else "failure"
        if judged.wrong:
            wrong[run] = verdict
        scored = dice.random() < model.scored
        chances[run] = float(judged.wrong) if scored else judged.chance
        bank.append(_events(run, case, judged, verdict, given, scored))
        learned = _learned(
            bank, run, verdict, [_lesson(dice, known, verdict, model.twins) for _ in range(judged.lessons)]
        )
        known += learned
        misleading.update(item.id for item in learned if judged.wrong)
    return wrong, chances


def _events(
    run: str, case: Case, judged: Judged, verdict: VerdictValue, given: tuple[str, ...], scored: bool
) -> list[Event]:
    """Return a run that was given the two latest items of its family, its judgment, and perhaps its score."""
    truth: VerdictValue = "success" if case.success else "failure"
    events: list[Event] = [
        RunStarted(run=run, family=f"family-{case.family}", level=case.level, scripted=True),
        ContextBuilt(run=run, chars=0, items=given),
        RunJudged(
            run=run,
            purpose="learning",
            verdict=verdict,
            judge=judged.judge,
            judge_version=judged.version,
            kind="lm",
            confidence=judged.confidence,
        ),
    ]
    if judged.seconded is not None:
        second = verdict if judged.seconded else OPPOSITE[verdict]
        events.append(
            RunJudged(run=run, purpose="learning", verdict=second, judge="check", judge_version="1", kind="check")
        )
    if scored:
        events.append(
            RunJudged(run=run, purpose="scoring", verdict=truth, judge="gold", judge_version="1", kind="gold")
        )
    return events


def _lesson(dice: random.Random, known: list[Item], verdict: VerdictValue, share: float) -> Item:
    twins = [item for item in known if item.src == verdict]
    if twins and dice.random() < share:
        twin = dice.choice(twins)
        return Item.make(twin.title, twin.content.rpartition(" ")[0], twin.src)
    words, weights = vocabulary()
    text = dice.choices(words, cum_weights=weights, k=30)
    return Item.make(" ".join(text[:6]), " ".join(text[6:]), "success" if verdict == "success" else "failure")


def _learned(bank: Bank, run: str, verdict: VerdictValue, lessons: list[Item]) -> list[Item]:
    """Record the lessons of a run; return those that are items now, and no support of others."""
    extracted = MemoriesExtracted(
        kind="success" if verdict == "success" else "failure",
        runs=(run,),
        relied=(Reliance(run=run, verdict=verdict),),
        heads=tuple(item.head for item in lessons),
        candidates=tuple(item.text for item in lessons),
    )
    made = append_decided(bank.log, bank.latest, [extracted]).events
    decisions = (each for event in made if isinstance(event, MemoriesConsolidated) for each in event.decisions)
    return [lessons[each.candidate] for each in decisions if each.action == "add"]
