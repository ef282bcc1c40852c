"""Charts of the page, each with its reading in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from rbank_es.dashboard import figures, page_facts
from rbank_es.dashboard.figures import Figure, label, light, tick
from rbank_es.dashboard.page_facts import Measure, Picture, Row
from rbank_es.dashboard.page_text import (
    NOT_RECORDED,
    clean,
    count,
    moment,
    percent,
    plural,
    points,
    short_name,
    shorten,
)
from rbank_es.limits import WIN_RATE_USES

# Bars of one chart of the dashboard, each with a name to read.
DASHBOARD_BARS = 20

_STATE_COLOURS = {
    "active": "accent",
    "pending": "teal",
    "superseded": "pale",
    "merged": "plum",
    "forgotten": "sand",
    "unsupported": "second",
    "withdrawn": "rust",
    "rejected": "flag",
}


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart with its texts. `figure` is None where there is nothing to draw; `reading` then gives the reason."""

    key: str
    title: str
    about: str
    reading: str
    figure: Figure | None = None


class ChartLine(msgspec.Struct, frozen=True):
    """One line of a chart over the log: a column of its rows, and its style."""

    column: str
    name: str
    colour: str = "accent"
    dash: str = "solid"


def all_charts(picture: Picture) -> list[Chart]:
    """Return the charts in the order of the page."""
    charts = [_run_chart(measure, picture.runs) for measure in page_facts.MEASURES] if picture.runs else []
    rows = [picture.health[i] for i in page_facts.latest(len(picture.health))]
    course = [_size_chart(rows), _novelty_chart(rows), _drift_chart(rows)] if rows else []
    return [*charts, _tool_chart(picture), *course, _item_chart(picture), _stock_chart(picture)]


def _run_chart(measure: Measure, runs: Sequence[Row]) -> Chart:
    series = page_facts.values(runs, measure.column)
    recorded = [value for value in series if value is not None]
    return Chart(
        key=f"run-{measure.column.replace('_', '-')}",
        title=measure.title,
        about=measure.about,
        reading=page_facts.reading(measure, runs),
        figure=_run_figure(measure, runs, series, max(recorded)) if recorded else None,
    )


def _run_figure(measure: Measure, runs: Sequence[Row], series: Sequence[float | None], largest: float) -> Figure:
    shown = page_facts.peaks(series)
    over = [measure.threshold is not None and (series[i] or 0) > measure.threshold for i in shown]
    line = figures.scatter(
        [i + 1 for i in shown],
        [series[i] for i in shown],
        [_run_hover(runs[i], series[i], measure) for i in shown],
        line={"color": light("pale"), "width": 1},
        mode="lines+markers",
        marker={
            "color": [light("flag" if flagged else "accent") for flagged in over],
            "symbol": ["diamond" if flagged else "circle" for flagged in over],
            "size": figures.marker_px(len(shown)),
        },
        cliponaxis=False,
    )
    # Room for the highest marker, and for the threshold even where all runs stay below it.
    top = 1.12 * max(largest, measure.threshold or 0, 1)
    yaxis = figures.side_axis(
        range=[0, top], tickformat="~s" if top > 10 else ",d", **({"dtick": 1} if top < 6 else {})
    )
    layout = figures.layout(
        xaxis=figures.axis(title="runs, by the time at which they began", **figures.ordinal(len(runs))), yaxis=yaxis
    )
    limit = figures.threshold(measure.threshold) if measure.threshold is not None else {}
    return figures.figure([line], layout | limit)


def _run_hover(row: Row, value: float | None, measure: Measure) -> str:
    parts = [
        f"{count(value)} {measure.unit}" if value is not None else NOT_RECORDED,
        label(short_name(row["run"])),
    ]
    parts += [label(row["task"], 100, 50)] if row.get("task") else []
    parts += [moment(row["started_at"])] if row.get("started_at") else []
    return "<br>".join(parts)


def _tool_chart(picture: Picture) -> Chart:
    title, about = "Returned by each tool", "Characters returned by each tool, over all runs."
    tools = [row for row in picture.tools if row["total_chars_returned"] is not None]
    if not tools:
        why = "Tool returns were not recorded." if picture.tools else "No tool call was recorded."
        return Chart(key="tools", title=title, about="", reading=why)
    total, top = sum(row["total_chars_returned"] for row in tools), tools[0]
    most = top["total_chars_returned"] or 0
    share = f", {percent(top['total_chars_returned'] / total)} of all" if total else ""
    shown = tools[:DASHBOARD_BARS]
    hover = [f"{label(short_name(row['tool']))}<br>{count(row['total_chars_returned'])} characters" for row in shown]
    bars = figures.bar(page_facts.values(shown, "total_chars_returned"), hover, "accent")
    return Chart(
        key="tools",
        title=title,
        about=about + _left_out(len(shown), len(tools), "tools that returned most"),
        reading=f"Most by {shorten(top['tool'], 40)}: {count(top['total_chars_returned'])} characters{share}.",
        figure=figures.figure([bars], figures.bars_layout([tick(row["tool"]) for row in shown], "characters", most)),
    )


def _left_out(shown: int, n: int, things: str) -> str:
    return f" Drawn: the {shown:,} {things}, of {n:,}." if shown < n else ""


def _size_chart(rows: Sequence[Row]) -> Chart:
    size = [value for value in page_facts.values(rows, "size") if value is not None]
    at_most = f"; at most {max(size):,}" if size and max(size) > size[-1] else ""
    return Chart(
        key="bank-size",
        title="Size of the bank",
        about="Active items, by position in the log.",
        reading=f"{plural(size[-1], 'active item')} at the end{at_most}." if size else "Not recorded.",
        figure=_course(
            rows, [ChartLine("size", "active items")], shape="hv", tickformat="~s" if max(size or [0]) > 10 else ",d"
        ),
    )


def _novelty_chart(rows: Sequence[Row]) -> Chart:
    new, known = (percent(rows[-1][name]) for name in ("novelty_rate", "duplicate_rate"))
    lines = [ChartLine("novelty_rate", "new"), ChartLine("duplicate_rate", "duplicate", "sand", "dash")]
    return Chart(
        key="bank-novelty",
        title="New and duplicate candidates",
        about="Shares of the candidates so far: added as new items, and known already.",
        reading=f"At the end: {new} new (solid line), {known} duplicate (dashed line).",
        figure=_course(rows, lines, shape="hv", tickformat=".0%"),
    )


def _drift_chart(rows: Sequence[Row]) -> Chart:
    lines = [
        ChartLine("win_rate_last", "last uses"),
        ChartLine("win_rate_before", "before", "second", "dash"),
        ChartLine("win_rate_drift", "drift", "plum", "dot"),
    ]
    return Chart(
        key="bank-drift",
        title="Win rate and its drift",
        about=(
            f"The win rate of the last {WIN_RATE_USES} uses, of the {WIN_RATE_USES} before them, and their difference, "
            "the drift."
        ),
        reading=_drift_reading(rows[-1]),
        figure=_course(rows, lines, tickformat=".0%"),
    )


def _drift_reading(last: Row) -> str:
    if last["win_rate_last"] is None:
        return "No item has been used yet."
    now = f"At the end: {percent(last['win_rate_last'])} (solid line)"
    if last["win_rate_drift"] is None:
        return f"{now}. The drift needs {2 * WIN_RATE_USES} uses."
    before = f"{percent(last['win_rate_before'])} before (dashed line)"
    return f"{now}, {before}, drift {points(last['win_rate_drift'])} (dotted line)."


def _course(
    rows: Sequence[Row], lines: Sequence[ChartLine], *, tickformat: str, shape: str = "linear"
) -> Figure | None:
    """Return lines over the positions of the log; None where no line has a value."""
    recorded = [line for line in lines if any(row[line.column] is not None for row in rows)]
    if not recorded:
        return None
    traces = [_course_line(rows, line, shape, share=tickformat.endswith("%")) for line in recorded]
    legend = len(lines) > 1
    look = {"showlegend": legend, "margin": {"l": 44, "r": 14, "t": 34 if legend else 10, "b": 8}}
    xaxis = figures.axis(title="position in the log", tickformat="~s" if rows[-1]["seq"] > 9999 else "d")
    yaxis = figures.side_axis(tickformat=tickformat)
    return figures.figure(traces, figures.layout(xaxis=xaxis, yaxis=yaxis, height=figures.HEIGHT_PX + 20, **look))


def _course_line(rows: Sequence[Row], line: ChartLine, shape: str, *, share: bool) -> Any:
    series = page_facts.values(rows, line.column)
    shown = percent if share else count
    hover = [f"{shown(value)} {line.name}<br>{_place(row)}" for value, row in zip(series, rows, strict=True)]
    # Add dots where there are few values, because a line shows no value without a neighbour.
    few = sum(value is not None for value in series) < 8
    return figures.scatter(
        page_facts.values(rows, "seq"),
        series,
        hover,
        name=line.name,
        mode="lines+markers" if few else "lines",
        line={"color": light(line.colour), "width": 2, "dash": line.dash, "shape": shape},
        marker={"color": light(line.colour), "size": 5},
    )


def _place(row: Row) -> str:
    return f"position {row['seq']:,}" + (f"<br>{moment(row['at'])}" if row.get("at") else "")


def _item_chart(picture: Picture) -> Chart:
    title = "Uses and wins by item"
    about = "Runs in which an item was injected or read in full (uses), and the successes among them (wins)."
    used = picture.used[:DASHBOARD_BARS]
    if not used:
        return Chart(key="items-used", title=title, about=about, reading="No item has been used yet.")
    hover = [f"{label(row['title'], wrap=50)}<br>{_score(row)}" for row in used]
    uses = figures.bar(page_facts.values(used, "uses"), hover, "pale", name="uses")
    wins = figures.bar([row["wins"] or 0 for row in used], hover, "accent", name="wins")
    most = max(row["uses"] for row in used)
    layout = figures.bars_layout([tick(row["title"]) for row in used], "runs", most, row_px=36, legend_px=26)
    return Chart(
        key="items-used",
        title=title,
        about=about + _left_out(len(used), len(picture.used), "items used most"),
        reading=f"Used most: {short_name(used[0]['title'])} ({_score(used[0])}).",
        figure=figures.figure([uses, wins], layout | {"barmode": "overlay"}),
    )


def _score(row: Row) -> str:
    return f"{plural(row['uses'], 'use')}, {plural(row['wins'] or 0, 'win')}"


def _stock_chart(picture: Picture) -> Chart:
    title, about = "Items by source and state", "All items ever stored, by source."
    if not picture.items:
        return Chart(key="items-stock", title=title, about=about, reading="There are no items yet.")
    sources = page_facts.sources(picture.items)
    bars = [_stock_bar(picture, state, sources) for state in page_facts.states(picture.items)]
    total, active = picture.items.total(), picture.active
    total_of = {source: sum(n for (of, _), n in picture.items.items() if of == source) for source in sources}
    layout = figures.bars_layout([tick(source) for source in sources], "items", max(total_of.values()), legend_px=46)
    return Chart(
        key="items-stock",
        title=title,
        about=about,
        reading=f"{plural(total, 'item')} from {plural(len(sources), 'source')}; {active:,} active.",
        figure=figures.figure(bars, layout | {"barmode": "stack"}),
    )


def _stock_bar(picture: Picture, state: str, sources: Sequence[str]) -> Any:
    n = [picture.items[source, state] for source in sources]
    hover = [f"{plural(k, 'item')} {clean(state)}<br>{label(name, 30)}" for k, name in zip(n, sources, strict=True)]
    return figures.bar(n, hover, _STATE_COLOURS.get(state, "second"), name=label(state, 30))
