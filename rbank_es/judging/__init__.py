"""Judging: whether a run did what it was asked, by checks, by the right answer, or by a model.

The public names below are found on first use. `judge` and `TrajectoryJudge` are those of the source; a `Gold` is what a
right answer is, and `calibrate` measures any judge on cases that an expert has judged.
"""

from typing import TYPE_CHECKING

from rbank_es.registry import exports

if TYPE_CHECKING:
    from rbank_es.judging.calibration import Calibration, Case, calibrate, load_cases
    from rbank_es.judging.checks import judge_by_checks
    from rbank_es.judging.gold import Gold, gold_of, judge_by_gold
    from rbank_es.judging.judges import decide, judge
    from rbank_es.judging.lm_judge import TrajectoryJudge, judge_by_lm
    from rbank_es.judging.run_outcome import RunOutcome, outcome_of
    from rbank_es.judging.verdict import Finding, Verdict

__all__ = [
    "Calibration",
    "Case",
    "Finding",
    "Gold",
    "RunOutcome",
    "TrajectoryJudge",
    "Verdict",
    "calibrate",
    "decide",
    "gold_of",
    "judge",
    "judge_by_checks",
    "judge_by_gold",
    "judge_by_lm",
    "load_cases",
    "outcome_of",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "Calibration": "rbank_es.judging.calibration",
        "Case": "rbank_es.judging.calibration",
        "Finding": "rbank_es.judging.verdict",
        "Gold": "rbank_es.judging.gold",
        "RunOutcome": "rbank_es.judging.run_outcome",
        "TrajectoryJudge": "rbank_es.judging.lm_judge",
        "Verdict": "rbank_es.judging.verdict",
        "calibrate": "rbank_es.judging.calibration",
        "decide": "rbank_es.judging.judges",
        "gold_of": "rbank_es.judging.gold",
        "judge": "rbank_es.judging.judges",
        "judge_by_checks": "rbank_es.judging.checks",
        "judge_by_gold": "rbank_es.judging.gold",
        "judge_by_lm": "rbank_es.judging.lm_judge",
        "load_cases": "rbank_es.judging.calibration",
        "outcome_of": "rbank_es.judging.run_outcome",
    },
)
