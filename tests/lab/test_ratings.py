"""Ratings by rubric: recorded beside the experiment, shown beside the other metrics, and never a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, JudgeFailed
from rbank_es.events import LmCalled, RunJudged
from rbank_es.judging.rubric import RUBRICS, rate, read_rating
from rbank_es.lab.experiment_definition import parse_experiment
from rbank_es.lab.experiment_folder import FolderHead, read_experiment
from rbank_es.lab.experiment_plan import planned
from rbank_es.lab.ratings import RatingCounts, known_ratings, rate_experiment
from rbank_es.lab.report import PAGE, ROWS, write_report
from rbank_es.lab.report_check import check_report
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms
from tests.lab.folders import DEFINITION_TEXT, written
from tests.lab.test_experiment_run import GUIDED
from tests.lab.trials import FREE, materials, ran
from tests.loop.loops import source
from tests.loop.test_closed_loop import of_type
from tests.loop.test_guide_run import SCRIPT as GUIDE_SCRIPT
from tests.sandbox.sandboxes import require_dspy

require_dspy()

ANSWER = {"addressed": 4, "supported": 3, "complete": 4, "sound": 1}
RATED = """
[[task]]
id = "rubric:answer"
[[task.judge]]
fields = { ratings = { addressed = 4, supported = 3, complete = 4, sound = 1 }, reason = "The query is odd." }
"""
GUIDE_RATED = """
[[task]]
id = "rubric:guide"
[[task.judge]]
fields = { ratings = { oriented = 4, usable = 4, warned = 0, brief = 2 }, reason = "It warns of nothing." }
"""


def script(place: Path, text: str) -> LmChoice:
    file = place / "rating.toml"
    file.write_text(text)
    return LmChoice(model=f"script:{file}")


def test_a_rating_is_the_mean_of_its_criteria_and_its_calls_are_recorded(tmp_path: Path) -> None:
    unread = RATED.replace("[[task.judge]]", '[[task.judge]]\ntext = "very good"\n[[task.judge]]', 1)
    rubric = RUBRICS["answer"]
    with Bank.create("memory:") as bank:
        with Lms(bank, "r", {"judge": script(tmp_path, unread)}, task=rubric.judge) as lms:
            rating = rate(rubric, "Forty-five.", lms, task="How high?", query="SELECT ?m { ?l lt:focalHeight ?m }")
        calls = of_type(bank, LmCalled)
        assert (rating.scores, rating.share, rating.reason) == (ANSWER, 0.75, "The query is odd.")
        assert rating.calls == tuple(call.id for call in calls) and len(calls) == 2
        assert {(call.role, call.parameters["temperature"]) for call in calls} == {("judge", 0.0)}
        assert "Forty-five." in (bank.text(calls[0].request) or "")


@pytest.mark.parametrize(
    "reply",
    ["", "all fine", "{}", '{"addressed": 4}', "{" * 9_999,
     '{"addressed": 5, "supported": 3, "complete": 4, "sound": 1}',
     '{"addressed": true, "supported": 3, "complete": 4, "sound": 1}', "[4, 4, 4, 4]",
     '{"addressed": 1e999, "supported": 3, "complete": 4, "sound": 1}'],
)  # fmt: skip
def test_a_reply_without_every_rating_in_its_range_is_none(reply: str) -> None:
    assert isinstance(read_rating(reply, RUBRICS["answer"]), str)


def test_replies_that_nobody_can_read_give_no_rating(tmp_path: Path) -> None:
    mute = '[[task]]\nid = "rubric:guide"\n' + '[[task.judge]]\ntext = "good"\n' * 3
    models = {"judge": script(tmp_path, mute)}
    with (
        Bank.create("memory:") as bank,
        Lms(bank, "r", models, task="rubric:guide") as lms,
        pytest.raises(JudgeFailed, match="3 replies could not be read"),
    ):
        rate(RUBRICS["guide"], "# Guide", lms)


@pytest.mark.slow
def test_ratings_stand_beside_the_metrics_change_no_log_and_are_given_once(tmp_path: Path) -> None:
    folder = written(tmp_path / "pair")
    before = read_experiment(folder)
    head, choice = FolderHead.of(folder), script(tmp_path, RATED)
    counts = [rate_experiment(folder, head.experiment, head.suite, choice, ("answer",)) for _ in range(2)]
    assert counts == [RatingCounts(before=0, now=24, unreadable=0), RatingCounts(before=24, now=0, unreadable=0)]
    after = read_experiment(folder)
    assert after.trials == before.trials, "heads and states are as they were"
    assert {row.rubric for row in before.rows} == {None} and {row.rubric for row in after.rows} == {0.75}
    with Bank.open(folder / "ratings") as bank:
        assert {each.verdict for each in of_type(bank, RunJudged)} == {"undecided"}
        assert of_type(bank, RunJudged)[0].evidence == ("addressed:4", "supported:3", "complete:4", "sound:1")
    write_report(after, folder)
    assert b'"rubric":0.75' in (folder / ROWS).read_bytes()
    assert check_report(folder).holds


@pytest.mark.slow
def test_a_rating_that_was_changed_added_or_removed_is_found(tmp_path: Path) -> None:
    folder = written(tmp_path / "pair")
    head = FolderHead.of(folder)
    rate_experiment(folder, head.experiment, head.suite, script(tmp_path, RATED), ("answer",))
    write_report(read_experiment(folder), folder)
    rated = next(iter(known_ratings(folder).shares))
    with Bank.open(folder / "ratings") as bank:
        bank.append(
            RunJudged(
                run=rated, purpose="scoring", verdict="undecided", judge="rubric:answer:me", judge_version="1",
                kind="lm", confidence=1.0,
            )
        )  # fmt: skip
    first = check_report(folder).differences[0]
    assert (first.file, first.place) == ("ratings", "its end: 1 events came later")
    (folder / "ratings").rename(tmp_path / "elsewhere")
    assert check_report(folder).differences[0].file == "ratings"
    (folder / "ratings").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="symbolic link"):
        read_experiment(folder)


def test_no_contrast_is_declared_in_an_opinion() -> None:
    text = 'metrics = ["rubric"]\n' + DEFINITION_TEXT.format(orders=1)
    with pytest.raises(BadInput, match="an opinion beside the other metrics"):
        parse_experiment(text.encode())


@pytest.mark.slow
def test_an_experiment_that_asks_for_it_has_its_guide_rated_once_and_says_so(tmp_path: Path) -> None:
    definition = parse_experiment(GUIDED.replace("orders = 2", 'orders = 1\nrubrics = ["guide"]').encode())
    given = materials(tmp_path, definition, FREE + GUIDE_SCRIPT + GUIDE_RATED)
    [plan] = planned(given).ratings
    assert (plan.role, plan.calls_least, plan.calls_most) == ("judge", 1, 3)
    for _ in range(2):
        ran(given, tmp_path / "run")
        assert [*known_ratings(tmp_path / "run").shares.values()] == [10 / 16]
    data = read_experiment(tmp_path / "run", source())
    assert [guide.rated for guide in data.guides] == [0.625] and {row.rubric for row in data.rows} == {None}
    write_report(data, tmp_path / "run")
    assert "A model rates it 0.62 of 1" in (tmp_path / "run" / PAGE).read_text()
