"""The page of an experiment: one self-contained HTML file, which needs neither a network nor a script."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rbank_es.events.readable_text import count, safe_line
from rbank_es.lab.experiment_folder import TrialRead
from rbank_es.lab.experiment_results import ConditionResult, Results
from rbank_es.lab.metrics import METRICS
from rbank_es.lab.report_chart import curve_chart, interval_chart
from rbank_es.lab.report_words import (
    POINTS,
    compared,
    contrast_groups,
    guide_sentences,
    mark_sentences,
    said_again,
    with_interval,
)
from rbank_es.lab.run_rows import TrialRun
from rbank_es.lab.trial_pages import page_command, paged, run_address
from rbank_es.limits import experiment_limits, page_limits
from rbank_es.page.escaped_html import Html, amount, element, join, short_name, shorten
from rbank_es.page.page_frame import TableColumn, document, number, table, text

CHARTED = ("success", "lm_calls", "tokens")
"""The metrics of which the intervals are drawn, where they have values; tables have all."""

AREAS = (
    ("quality", "Quality and convergence", ("quality", "convergence")),
    ("efficiency", "Efficiency", ("efficiency", "rollouts")),
    ("leakage", "Leakage", ("leakage",)),
    ("memory", "Memory, judges and contamination", ("memory", "judge", "contamination")),
)
"""The tables of metrics: their ids, their headings, and the areas of the metrics in each."""


def page_of(results: Results, rows: Sequence[TrialRun]) -> str:
    """Return the page as text; the same results and rows give the same page, byte for byte."""
    body = join(
        _header(results), element("main", *_sections(results, rows), id="main", tabindex="-1"), _footer(results)
    )
    return document(f"{shorten(results.experiment)}: {shorten(results.title)}", body)


def _header(results: Results) -> Html:
    finished = len(results.trials) - len(results.incomplete)
    models = ", ".join(f"{role}: {short_name(name)}" for role, name in results.models.items())
    place = {
        "Suite": f"{short_name(results.suite_name)}, {count(results.suite_tasks, 'task')}",
        "Trials": f"{finished:,} finished of {len(results.trials):,}",
        "Runs": f"{results.runs:,}",
        "Models": models or "none named",
        "Code": f"{short_name(results.release)}, {short_name(results.commit[:12]) or 'no commit'}",
    }
    entries = [element("div", element("dt", name), element("dd", value)) for name, value in place.items()]
    return element(
        "header",
        *(element("p", f"{said}.", class_="note") for said in mark_sentences(results)),
        element("p", "Experiment", class_="kind"),
        element("h1", f"{shorten(results.experiment)}: {shorten(results.title)}"),
        *(
            [element("p", shorten(results.question, page_limits.DASHBOARD_PURPOSE_CHARS), class_="purpose")]
            if results.question
            else []
        ),
        element("dl", *entries, class_="place"),
    )


def _sections(results: Results, rows: Sequence[TrialRun]) -> Iterator[Html]:
    made = [
        ("findings", "Findings", _findings(results)),
        ("curves", "Learning curves", _curves(results)),
        *((key, heading, _metrics(results, areas)) for key, heading, areas in AREAS),
        ("growth", "Growth of the banks", _growth(results)),
        ("left-out", "Left out", _left_out(results)),
        ("tasks", "Tasks", _tasks(results)),
        ("runs", "Runs", _runs(results, rows)),
    ]
    links = (element("li", element("a", heading, href=f"#{key}")) for key, heading, _ in made)
    yield element("nav", element("ul", *links), aria_label="Sections")
    for key, heading, parts in made:
        yield element("section", element("h2", heading), *parts, id=key, aria_label=heading)


# ---------------------------------------------------------------- findings and curves


def _findings(results: Results) -> Iterator[Html]:
    for about, contrasts in contrast_groups(results):
        yield element("p", about)
        said = (
            element("li", element("strong", safe_line(compared(each.result.contrast))), f": {each.said}.")
            for each in contrasts
        )
        yield element("ul", *said, class_="findings")
    if results.guides:
        yield element("ul", *(element("li", each) for each in guide_sentences(results)), class_="findings")
    charts = []
    for name in CHARTED:
        if any(each.metrics[name].estimate is not None for each in results.conditions):
            metric = METRICS[name]
            about = f"Mean over {results.unit}s with its 95 % interval, {metric.units}."
            drawn = interval_chart(
                results.conditions, name, metric, f"{metric.title} by condition; the table has it too"
            )
            charts.append(_figure(metric.title, about, drawn))
    yield element("div", *charts, class_="charts")


def _figure(title: str, about: str, drawing: Html) -> Html:
    return element("figure", element("figcaption", element("h3", title), element("p", about, class_="about")), drawing)


def _baseline(results: Results) -> ConditionResult | None:
    return next((each for each in results.conditions if each.baseline), None)


def _curves(results: Results) -> Iterator[Html]:
    baseline = _baseline(results)
    width = results.conditions[0].curve.width
    beside = f" The dashed line is the baseline, {short_name(baseline.name)}." if baseline else ""
    yield element(
        "p",
        f"Share of tasks answered rightly, by place in the order; each point is the mean of the "
        f"{count(width, 'task')} up to there, the band its 95 % interval over {results.unit}s.{beside}",
    )
    drawn = (
        _figure(
            short_name(each.name),
            _gain(each),
            curve_chart(
                each.curve,
                baseline.curve if baseline is not None and not each.baseline else None,
                "share",
                f"Learning curve of {short_name(each.name)}. {_gain(each)}",
            ),
        )
        for each in results.conditions
    )
    yield element("div", *drawn, class_="charts")


def _gain(condition: ConditionResult) -> str:
    parts = []
    if condition.curve.gain is not None:
        parts.append(f"Its second half less its first: {with_interval(condition.curve.gain, POINTS)}.")
    if condition.curriculum:
        parts.append("By a curriculum: hard tasks come late, so compare all tasks and not places.")
    elif condition.gap is not None and condition.gap.gain is not None:
        parts.append(f"That, less the same of the baseline: {with_interval(condition.gap.gain, POINTS)}.")
    if condition.gap is not None and condition.gap.area is not None:
        parts.append(f"Over all tasks, less the baseline: {with_interval(condition.gap.area, POINTS)}.")
    return " ".join(parts) or "No finished trial has values."


def _growth(results: Results) -> Iterator[Html]:
    yield element("p", f"Active items as each task began, mean over {results.unit}s.")
    drawn = [
        _figure(
            short_name(each.name),
            f"{amount(each.growth.points[-1].value.mean)} items as the last task began.",
            curve_chart(each.growth, None, "items", f"Active items of {short_name(each.name)}"),
        )
        for each in results.conditions
        if each.growth.points and any(point.value.mean for point in each.growth.points)
    ]
    yield element("div", *drawn, class_="charts") if drawn else element("p", "No bank held an item.", class_="nothing")


# ---------------------------------------------------------------- tables


def _metrics(results: Results, areas: Sequence[str]) -> Iterator[Html]:
    known = {
        name: metric
        for name, metric in METRICS.items()
        if metric.area in areas and any(each.metrics[name].estimate is not None for each in results.conditions)
    }
    if not known:
        yield element("p", "Nothing of this was recorded.", class_="nothing")
        return
    columns = [
        TableColumn(
            "Metric", lambda row: join(row["title"], element("span", row["unit"], class_="second")), number=False
        )
    ]
    columns += [TableColumn(short_name(each.name), _cell(each)) for each in results.conditions]
    rows = [
        {"name": name, "title": metric.title, "unit": _unit(metric.units, metric.better)}
        for name, metric in known.items()
    ]
    heading = f"Mean over {results.unit}s, with its 95 % interval."
    yield element("div", table(heading, columns, rows), class_="metrics")
    if "contamination" in areas:
        yield from _warnings(results)


def _unit(unit: str, better: str) -> str:
    return f"{unit}; {better} is better" if better else unit


def _cell(condition: ConditionResult) -> Callable[[Any], str]:
    """Return the cells of a condition: the mean, and its interval in a line of its own, because columns are many.

    A narrow window shows one condition below the other, so each cell names its own.
    """

    def cell(row: Any) -> str:
        mean, bracket, interval = with_interval(
            condition.metrics[row["name"]].estimate, METRICS[row["name"]].unit
        ).partition(" (")
        which = element("span", short_name(condition.name), class_="which")
        return join(
            which, element("span", mean, *([element("span", interval[:-1], class_="second")] if bracket else []))
        )

    return cell


def _warnings(results: Results) -> Iterator[Html]:
    for each in results.conditions:
        if each.leave_one_out and each.contaminated.get("same task"):
            yield element(
                "p", f"Leave-one-out did not hold in {short_name(each.name)}: "
                f"{count(each.contaminated['same task'], 'run')} were given items drawn from runs of their own task.",
                class_="note",
            )  # fmt: skip


def _left_out(results: Results) -> Iterator[Html]:
    rows = [
        {
            "what": each.place,
            "why": "; ".join(filter(None, (each.state, each.why, f"{count(each.runs, 'run')} ended"))),
        }
        for each in results.incomplete
    ]
    rows += [
        {"what": each.place, "why": f"run again, and in the numbers: {said_again(each)}"}
        for each in results.trials
        if each.earlier
    ]
    rows += [{"what": place, "why": "of no planned trial; not read"} for place in results.unplanned]
    rows += [
        {"what": f"{each.place} {each.run}", "why": f"breaks {', '.join(each.gates)}"} for each in results.left_out
    ]
    if not rows:
        yield element("p", "Nothing: all trials are finished, and no run breaks a quality gate.", class_="nothing")
        return
    columns = [TableColumn("Trial or run", text("what"), number=False), TableColumn("Why", text("why"), number=False)]
    yield table("Trials and runs that are in no number.", columns, rows, cut="the first; conditions.json has all")


def _tasks(results: Results) -> Iterator[Html]:
    columns = [
        TableColumn("Task", lambda row: element("a", row["task"], href=f"#{_anchor(row['at'])}"), number=False),
        TableColumn("Family", text("family"), number=False),
        TableColumn("Level", number("level")),
        *(TableColumn(short_name(each.name), _right(each.name)) for each in results.conditions),
    ]
    rows = [
        {
            "at": at,
            "task": shorten(each.task_id, experiment_limits.REPORT_TASK_CHARS),
            "family": each.family,
            "level": each.level,
            "right": each.right,
        }
        for at, each in enumerate(results.tasks)
    ]
    yield table(
        "Right runs of those counted, by condition; a task leads to its runs.", columns, rows,
        cut="conditions.json has all", most=experiment_limits.REPORT_RUNS,
    )  # fmt: skip


def _anchor(at: int) -> str:
    """Return the id of the runs of the task at a place."""
    return f"task-{at}"


def _right(condition: str) -> Callable[[Any], str]:
    def cell(row: Any) -> str:
        right, runs = row["right"].get(condition, (0, 0))
        return f"{right:,} of {runs:,}" if runs else "none"

    return cell


def _runs(results: Results, rows: Sequence[TrialRun]) -> Iterator[Html]:
    yield element(
        "p", "By task; open one to see its runs. A run leads to the page of its bank: why it failed, what it was told, "
        "and the bank at any moment. A command shows it in a terminal: start it in the folder of this report. "
        "results/runs.csv has all runs with all their facts."
    )  # fmt: skip
    trials = {(each.condition, each.order, each.repetition): each for each in results.trials}
    with_page = {each.place for each in paged(results.trials)}
    yield from _unpaged([each for each in results.trials if each.head and each.place not in with_page])
    of_task: dict[str, list[dict[str, Any]]] = {each.task_id: [] for each in results.tasks}
    for row in rows[: experiment_limits.REPORT_RUNS]:
        trial = trials[row.condition, row.order, row.repetition]
        of_task[row.task_id].append({"trial": trial, "row": row, "paged": trial.place in with_page})
    if len(rows) > experiment_limits.REPORT_RUNS:
        yield element(
            "p", f"The first {experiment_limits.REPORT_RUNS:,} of {len(rows):,} runs are here.", class_="note"
        )
    for at, (task, own) in enumerate(of_task.items()):
        right = sum(each["row"].success for each in own)
        said = f"{shorten(task, experiment_limits.REPORT_TASK_CHARS)}: {count(len(own), 'run')}, {right:,} right"
        # Around the table alone, because a link to what is inside of a closed fold opens it.
        inside = element(
            "div",
            table(f"Runs of {shorten(task, experiment_limits.REPORT_TASK_CHARS)}", _RUN_COLUMNS, own, most=len(own)),
            id=_anchor(at),
        )
        yield element("details", element("summary", said), inside)


def _unpaged(trials: Sequence[TrialRead]) -> Iterator[Html]:
    if trials:
        named = trials[: experiment_limits.REPORT_UNPAGED]
        said = f"The banks of {count(len(trials), 'trial')} are too long for pages beside this report. A page of one:"
        yield element("p", said, class_="note")
        yield element("ul", *(element("li", element("code", page_command(each))) for each in named))


def _run(row: Any) -> str:
    run, trial = row["row"].run, row["trial"]
    name = element("span", short_name(run), class_="mono")
    address = run_address(trial, run) if row["paged"] else None
    return join(element("a", name, href=address) if address else name, element("span", trial.place, class_="second"))


def _command(row: Any) -> str:
    return element("code", f"rbank-es show ./{row['trial'].place} {_shell_word(row['row'].run)}")


def _shell_word(word: str) -> str:
    """Return a word as a shell takes it, shortened if it is too long to be typed."""
    return shlex.quote(short_name(word))


_RUN_COLUMNS = (
    TableColumn("Run", _run, number=False),
    TableColumn("Right", lambda row: row["row"].score or "not scored", number=False),
    TableColumn("Judged", lambda row: row["row"].verdict or "not judged", number=False),
    TableColumn("Items given", lambda row: amount(len(row["row"].given))),
    TableColumn("Could hold the answer", lambda row: "yes" if row["row"].contamination else "no", number=False),
    TableColumn("Show it", _command, number=False),
)


def _footer(results: Results) -> Html:
    return element(
        "footer",
        element(
            "p",
            "Suite ",
            element("code", results.suite),
            ". Every number is computed from the logs of the banks and from the suite; "
            "rbank-es experiment check DIR computes them again. This page works offline and makes no network "
            "requests; the pages of runs are in the folder pages beside it.",
        ),
    )
