"""Ratings by rubric: a model rates the answers and the guides of an experiment that was run, beside its other metrics.

They are recorded in a bank of their own, `ratings` in the experiment's folder: so none can change a verdict, teach
anything, or make a trial's log another one. Each names, as its run, the id of the event that holds what was rated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events import ArtifactMaterialised, RunFinished, RunJudged
from rbank_es.judging.rubric import RUBRICS, Rating, Rubric, Subject, rate
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.trial_place import RATINGS, TrialPlace, base_place, directory, opened
from rbank_es.system.progress import OnProgress, reported

if TYPE_CHECKING:
    from rbank_es.lab.experiment_definition import Experiment
    from rbank_es.lab.task_suite import Suite
    from rbank_es.models.model_choice import LmChoice


class Rated(Struct, frozen=True, kw_only=True):
    """A text that a rubric is for. `source` is the id of the event that holds it; `rate` asks the model about it."""

    source: str
    subject: Subject
    text: str
    task: str = ""
    query: str = ""
    steps: str = ""


class RatingCounts(Struct, frozen=True, kw_only=True):
    """Numbers of texts to rate: those rated before, those rated now, and those of which no reply could be read."""

    before: int
    now: int
    unreadable: int


class KnownRatings(Struct, frozen=True, kw_only=True):
    """The ratings of an experiment: the latest of each text, 0 to 1, by the id of its event; the head of their log."""

    shares: Mapping[str, float] = {}
    rubrics: tuple[str, ...] = ()
    head: str = ""


def ratings_place(folder: Path) -> Path | None:
    """Return the bank of ratings in a folder; None where there is none. Raises `BadInput` for a link in its place."""
    return directory(folder / RATINGS)


def known_ratings(folder: Path) -> KnownRatings:
    """Return the ratings in an experiment's folder; those by another version of a rubric are left out."""
    bank = opened(ratings_place(folder))
    if bank is None:
        return KnownRatings()
    shares, named = dict[str, float](), dict[str, None]()
    with bank:
        for event in bank.events(types={"run_judged"}):
            rubric = _rubric_of(event) if isinstance(event, RunJudged) else None
            if rubric is not None and isinstance(event, RunJudged) and event.confidence is not None:
                shares[event.run] = event.confidence
                named[f"{rubric.subject}-{rubric.version} by {event.judge.removeprefix(f'{rubric.judge}:')}"] = None
        return KnownRatings(shares=shares, rubrics=tuple(sorted(named)), head=str(bank.head()))


def _rubric_of(event: RunJudged) -> Rubric | None:
    return next(
        (
            each
            for each in RUBRICS.values()
            if event.judge.startswith(f"{each.judge}:") and event.judge_version == each.version
        ),
        None,
    )


def rate_experiment(
    folder: Path,
    experiment: Experiment,
    suite: Suite,
    choice: LmChoice,
    subjects: Sequence[Subject],
    *,
    progress: OnProgress | None = None,
    **parts: Any,
) -> RatingCounts:
    """Rate each text of these subjects that has no rating yet, and record each rating as it is given.

    Interrupted, the same call goes on. A text about which no reply could be read stays without a rating. `parts` are of
    `Lms`. Raises `LmFailed` where the model gives no reply, `BadInput` as the folder's places.
    """
    known = known_ratings(folder).shares
    texts = [each for each in _texts(folder, experiment, suite) if each.subject in subjects]
    left = [each for each in texts if each.source not in known]
    with _bank(folder, experiment) as bank:
        unreadable = sum(not _rated(bank, each, choice, parts) for each in reported(left, progress))
    return RatingCounts(before=len(texts) - len(left), now=len(left) - unreadable, unreadable=unreadable)


def _bank(folder: Path, experiment: Experiment) -> Bank:
    place = ratings_place(folder)
    if place is not None:
        return Bank.open(place)
    return Bank.create(folder / RATINGS, purpose=f"ratings of the experiment {experiment.name}")


def _rated(bank: Bank, text: Rated, choice: LmChoice, parts: Mapping[str, Any]) -> bool:
    """Ask about a text and record the rating; return whether there is one."""
    from rbank_es.models.run_models import Lms

    rubric = RUBRICS[text.subject]
    # A script answers under the rubric's name: the turns of its tasks are those of the runs themselves.
    with Lms(bank, text.source, {"judge": choice}, task=rubric.judge, **parts) as lms:
        try:
            rating = rate(rubric, text.text, lms, task=text.task, query=text.query, steps=text.steps)
        except JudgeFailed:
            # No rating is recorded, so the next call asks for it again.
            return False
    bank.append(_event(text, rubric, choice, rating))
    return True


def _event(text: Rated, rubric: Rubric, choice: LmChoice, rating: Rating) -> RunJudged:
    return RunJudged(
        run=text.source,
        purpose="scoring",
        # A rating says how good a text is, not whether it is right.
        verdict="undecided",
        judge=f"{rubric.judge}:{choice.name}",
        judge_version=rubric.version,
        kind="lm",
        confidence=rating.share,
        evidence=tuple(f"{name}:{score}" for name, score in rating.scores.items()),
        calls=rating.calls,
        reason=rating.reason,
    )


def _texts(folder: Path, experiment: Experiment, suite: Suite) -> Iterator[Rated]:
    """Yield the texts that can be rated: guides in the common bank, then the answers of each trial."""
    tasks = {task.id for task in suite.tasks}
    base = directory(folder, base_place(folder))
    if base is None:
        raise BadInput(f"{folder} holds no runs of {experiment.name} yet: run it first")
    with Bank.open(base) as bank:
        for event in bank.events(types={"artifact_materialised"}, resolve=True):
            if isinstance(event, ArtifactMaterialised) and event.kind == "guide":
                yield Rated(source=event.id, subject="guide", text=bank.text(event.text) or "")
    for trial in trials(experiment):
        path = TrialPlace(folder, trial).found_bank
        if path is not None:
            with Bank.open(path) as bank:
                yield from _answers(bank, tasks)


def _answers(bank: Bank, tasks: set[str]) -> Iterator[Rated]:
    ours = {row["run"] for row in _runs(bank) if row["task_id"] in tasks}
    for event in bank.events(types={"run_finished"}):
        if isinstance(event, RunFinished) and event.run in ours and event.outcome == "submitted":
            found = outcome_of(bank, event.run)
            yield Rated(
                source=event.id,
                subject="answer",
                text=found.answer,
                task=found.task,
                query=found.sparql,
                steps=found.ending,
            )


def _runs(bank: Bank) -> list[dict[str, Any]]:
    with bank.as_of() as view:
        return [*view.rows("runs")]
