"""Judging: verdicts on runs, by checks, by the right answer, or by a model.

The public names below are imported on first use. `judge` and `TrajectoryJudge` are those of the source. `JUDGES` is the
registry of judges.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.judging.checks import judge_by_checks as judge_by_checks
    from rbank_es.judging.gold_answers import Gold as Gold, gold_of as gold_of
    from rbank_es.judging.gold_judge import judge_by_gold as judge_by_gold
    from rbank_es.judging.judge_protocol import Judge as Judge, JudgeInputs as JudgeInputs
    from rbank_es.judging.judges import JUDGES as JUDGES, decide as decide, judge as judge
    from rbank_es.judging.lm_judge import TrajectoryJudge as TrajectoryJudge, judge_by_lm as judge_by_lm
    from rbank_es.judging.run_outcome import RunOutcome as RunOutcome, outcome_of as outcome_of
    from rbank_es.judging.verdict import Finding as Finding, Verdict as Verdict


__getattr__, __dir__ = exports(
    __name__,
    {
        ".checks": "judge_by_checks",
        ".gold_answers": "Gold gold_of",
        ".gold_judge": "judge_by_gold",
        ".judge_protocol": "Judge JudgeInputs",
        ".judges": "JUDGES decide judge",
        ".lm_judge": "TrajectoryJudge judge_by_lm",
        ".run_outcome": "RunOutcome outcome_of",
        ".verdict": "Finding Verdict",
    },
)
