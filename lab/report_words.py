"""The results of an experiment in words, as the report and the command line say them."""

from __future__ import annotations

from collections.abc import Iterator

from rbank_es.events.readable_text import count, safe_line
from rbank_es.lab.condition_contrast import Contrast
from rbank_es.lab.experiment_folder import TrialRead
from rbank_es.lab.experiment_results import ContrastSaid, Results
from rbank_es.lab.metrics import METRICS
from rbank_es.lab.statistics import Estimate

POINTS = "points"


def mark_sentences(results: Results) -> Iterator[str]:
    """Yield in how many runs no model ran, for each mark."""
    for mark, runs in results.marks.items():
        of = count(results.runs, "run")
        yield f"{mark}: in {runs:,} of {of} a script stood in for the model, so they say nothing about one"


def with_interval(estimate: Estimate | None, unit: str) -> str:
    """Return a mean with its interval, shares in per cent."""
    if estimate is None:
        return "not known"
    mean = number(estimate.mean, unit) + (" points" if unit == POINTS else "")
    if estimate.low is None or estimate.high is None:
        return mean
    return f"{mean} ({number(estimate.low, unit)} to {number(estimate.high, unit)})"


def difference_unit(unit: str) -> str:
    """Return the unit of a difference of two values in a unit."""
    return POINTS if unit == "share" else unit


def number(value: float, unit: str) -> str:
    """Return a number of a metric for people: shares in per cent, others in three digits, or whole from 100 on.

    The unit `POINTS` is that of differences of shares: percentage points, with a sign.
    """
    if unit == POINTS:
        return f"{100 * value:+.1f}"
    if unit == "share":
        return f"{100 * value:.1f}%"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def contrast_groups(results: Results) -> Iterator[tuple[str, list[ContrastSaid]]]:
    """Yield the contrasts that were declared before the runs, and those added since, each with what they are."""
    declared, added = ([each for each in results.contrasts if each.declared is kind] for kind in (True, False))
    if declared:
        yield (
            f"Declared before the runs, as the trials recorded when they began; tested by permutation of "
            f"{results.unit}s in pairs, p values corrected for all {len(declared)} by Holm's method. “Too few to say” "
            "is no sign of no difference.",
            declared,
        )
    else:
        yield "None was declared before the runs, so none is a test of a prediction: the numbers are description.", []
    if added:
        yield (
            "Added to the definition after the runs, when the data could be seen: no test of a prediction, whatever p "
            f"is. Corrected for all {len(results.contrasts)}.",
            added,
        )


def compared(contrast: Contrast) -> str:
    """Return what a contrast compares, and in which metric, in words."""
    said = f"{contrast.condition} against {contrast.baseline}"
    if contrast.less is not None:
        said += f", less {contrast.less[0]} against {contrast.less[1]}"
    return f"{said}, {METRICS[contrast.metric].title.lower()}"


def guide_sentences(results: Results) -> Iterator[str]:
    """Yield the cost of each guide, and after how many tasks it has paid for that, in plain text."""
    for guide in results.guides:
        worth = guide.worth
        known = {"lm_calls": "calls", "tokens": "tokens", "cost_usd": "US$"}
        cost = [f"{value:,} {unit}" for name, unit in known.items() if (value := getattr(worth, name)) is not None]
        share = "not looked up" if worth.grounded_share is None else f"{100 * worth.grounded_share:.1f}%"
        verdict = worth.verdict or "nobody judged it"
        rated = f" A model rates it {worth.rated:.2f} of 1." if worth.rated is not None else ""
        yield (
            f"A guide of {worth.chars:,} characters cost {', '.join(cost) or 'an unknown amount'}. Terms in it that "
            f"exist: {share}. Verdict on it: {verdict}.{rated}"
        )
        for each in guide.break_even:
            paid = [f"{n:,} tasks in {known[name]}" for name, n in each.tasks.items() if n is not None]
            yield (
                f"{safe_line(each.condition)} against {safe_line(each.baseline)}: it has paid for its cost after "
                f"{', '.join(paid)}." if paid else
                f"{safe_line(each.condition)} against {safe_line(each.baseline)}: it saves nothing that was measured."
            )  # fmt: skip


def said_again(trial: TrialRead) -> str:
    """Return that a trial had begun before, in words."""
    return f"it had begun {count(trial.earlier, 'time')} before, in a bank that was removed"
