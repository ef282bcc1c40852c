"""Summaries: the results of an experiment in Markdown, for people who want the table and what it may not say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rbank_es import limits
from rbank_es.events.readable_text import count, safe_line
from rbank_es.experiments.contrast import Contrast
from rbank_es.experiments.experiment_folder import TrialRead
from rbank_es.experiments.experiment_results import ConditionResult, ContrastSaid, Results
from rbank_es.experiments.metrics import METRICS
from rbank_es.experiments.statistics import Estimate

HEADLINE = ("success", "exact", "converged", "lm_calls", "tokens", "cost_usd", "items_in_bank", "judge_accuracy")
"""The metrics of the summary's table, where any condition has a value; the page and `conditions.json` have all."""

POINTS = "points"

NO_MODEL_WORDS = {
    "SIMULATED": "chance stood in for the agent, so they say nothing about a model",
    "SCRIPTED": "a script stood in for the model, so they say nothing about one",
}


def summary_of(results: Results) -> str:
    """Return the summary as Markdown."""
    blocks = [
        *_marks(results),
        f"# {_md(results.experiment)}: {_md(results.title)}",
        *([_md(results.question)] if results.question else []),
        _about(results),
        "## Conditions",
        *_conditions(results),
        "## Contrasts",
        *_contrasts(results),
        *_guides(results),
        "## Contamination",
        *_contamination(results),
        "## Left out",
        *_left_out(results),
    ]
    return "\n\n".join(blocks) + "\n"


def _md(text: str) -> str:
    """Return a text on one line that Markdown shows as it is."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#!&" else char for char in safe_line(text))


def _marks(results: Results) -> Iterator[str]:
    for mark, runs in results.marks.items():
        yield f"**{mark}**: in {runs:,} of {count(results.runs, 'run')} {NO_MODEL_WORDS[mark]}."


def _about(results: Results) -> str:
    models = ", ".join(f"{_md(role)} {_md(name)}" for role, name in results.models.items()) or "none named"
    trials = f"{count(len(results.trials), 'trial')}, {len(results.trials) - len(results.incomplete):,} finished"
    return "\n".join(
        (
            f"- Suite: {_md(results.suite_name)}, {count(results.suite_tasks, 'task')}, `{results.suite[:12]}`",
            f"- Models: {models}",
            f"- Code: {_md(results.release)}, commit {_md(results.commit[:12] or 'unknown')}",
            f"- {trials}; {count(results.runs, 'run')}",
        )
    )


# ---------------------------------------------------------------- conditions


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, of which all columns but the first hold numbers."""
    lines = [headings, ["---", *["---:" for _ in headings[1:]]], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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


def _conditions(results: Results) -> Iterator[str]:
    known = [name for name in HEADLINE if any(each.metrics[name].estimate is not None for each in results.conditions)]
    units = [
        f"{METRICS[name].title}, {METRICS[name].units}".removesuffix(", share").replace(", share,", ",")
        for name in known
    ]
    rows = [
        [_md(each.name) + (" (baseline)" if each.baseline else ""), _n(each), *_values(each, known)]
        for each in results.conditions
    ]
    yield table(["condition", f"{results.unit}s", *units], rows)
    yield (
        f"Means of {results.unit}s, with 95 % intervals of Student's t over them, those of shares within 0 and 100 %: "
        f"trials of one {results.unit} are averaged first. Where all {results.unit}s have the same share, the interval "
        f"is Wilson's, of as many cases; other values have none then, nor where there is one {results.unit}. Intervals "
        "of two conditions may overlap although they differ, because conditions share orders: only the contrasts "
        "compare."
    )


def _n(condition: ConditionResult) -> str:
    return str(len(condition.metrics["success"].units))


def _values(condition: ConditionResult, known: Sequence[str]) -> list[str]:
    return [with_interval(condition.metrics[name].estimate, METRICS[name].unit) for name in known]


# ---------------------------------------------------------------- contrasts


def _contrasts(results: Results) -> Iterator[str]:
    for about, contrasts in contrast_groups(results):
        yield about
        if contrasts:
            yield "\n".join(f"- **{_md(compared(each.result.contrast))}**: {each.said}." for each in contrasts)


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


def _guides(results: Results) -> Iterator[str]:
    if results.guides:
        yield "## Guides"
        yield "\n".join(f"- {sentence}" for sentence in guide_sentences(results))


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


# ---------------------------------------------------------------- contamination and runs left out


def _contamination(results: Results) -> Iterator[str]:
    lines = []
    for each in results.conditions:
        share = with_interval(each.metrics["contaminated"].estimate, "share")
        kinds = ", ".join(f"{kind}: {n:,}" for kind, n in each.contaminated.items()) or "none"
        mode = "on" if each.leave_one_out else "off"
        lines.append([_md(each.name), mode, share, kinds])
    yield table(["condition", "leave-one-out", "runs given what could hold the answer", "runs by kind"], lines)
    broken = [each.name for each in results.conditions if each.leave_one_out and each.contaminated.get("same task")]
    if broken:
        yield (
            f"**Leave-one-out did not hold** in {', '.join(map(_md, broken))}: runs were given items that were drawn "
            "from runs of their own task. Don't take their gains for learning."
        )


def _left_out(results: Results) -> Iterator[str]:
    lines = [*_trials(results), *_runs(results)]
    yield "\n".join(lines) if lines else "Nothing: all trials are finished, and no run breaks a quality gate."


def _trials(results: Results) -> Iterator[str]:
    for each in results.incomplete[: limits.TABLE_ROWS]:
        ran = f", {count(each.runs, 'run')} ended; {_md(each.why)}" if each.state != "missing" else ""
        yield f"- Trial {_md(each.place)}: {each.state}{ran}. It is in no number above."
    if len(results.incomplete) > limits.TABLE_ROWS:
        yield f"- {len(results.incomplete) - limits.TABLE_ROWS:,} more trials that are missing, unfinished or altered."
    for each in results.trials:
        if each.earlier:
            yield f"- Trial {_md(each.place)} was run again: {said_again(each)}. It is in the numbers above."
    for place in results.unplanned[: limits.TABLE_ROWS]:
        yield f"- {_md(place)} is of no planned trial: it was not read."


def said_again(trial: TrialRead) -> str:
    """Return that a trial had begun before, in words."""
    return f"it had begun {count(trial.earlier, 'time')} before, in a bank that was removed"


def _runs(results: Results) -> Iterator[str]:
    for each in results.left_out[: limits.TABLE_ROWS]:
        yield f"- Run {_md(each.run)} in {_md(each.place)} breaks {', '.join(each.gates)}."
    if len(results.left_out) > limits.TABLE_ROWS:
        more = len(results.left_out) - limits.TABLE_ROWS
        yield f"- {more:,} more runs break a gate: `results/conditions.json` lists all."
