"""The charts: plotly figures as plain data, without a colour scheme of their own and without random ids."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.dashboard import model, words
from rbank_es.dashboard.markup import clean, shorten
from rbank_es.dashboard.model import Measure, Picture, Row
from rbank_es.dashboard.palette import light
from rbank_es.errors import MissingExtra
from rbank_es.projections.health import WINDOW

Figure = dict[str, Any]

_HEIGHT_PX = 210
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_STATE_COLOURS = {"active": "accent", "superseded": "pale", "merged": "plum", "forgotten": "sand", "retracted": "flag"}


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart with its words. `figure` is None where there is nothing to draw; `reading` then says why."""

    key: str
    title: str
    about: str
    reading: str
    figure: Figure | None = None


def plotly() -> Any:
    """Plotly's figure module, imported on first use. Raises MissingExtra where it is not installed."""
    try:
        import plotly.graph_objects
    except ImportError as missing:
        raise MissingExtra("dashboard", "a page with charts") from missing
    return plotly.graph_objects


def library() -> str:
    """The text of plotly.js in the one bundle that plotly's package ships, with newlines as a browser reads them."""
    plotly()
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")


def label(text: str, max_chars: int = limits.DASHBOARD_TEXT_CHARS, wrap: int = 0) -> str:
    """The text for use inside a chart, where plotly reads a few HTML tags: escaped, shortened, wrapped at `wrap`."""
    short = shorten(text, max_chars)
    lines = textwrap.wrap(short, wrap) if wrap else [short]
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def run_charts(picture: Picture) -> list[Chart]:
    """One chart for each measure of leakage over the runs."""
    return [_run_chart(measure, picture.runs) for measure in model.MEASURES] if picture.runs else []


def _run_chart(measure: Measure, runs: Sequence[Row]) -> Chart:
    series = model.values(runs, measure.column)
    drawn = any(value is not None for value in series)
    return Chart(
        key=f"run-{measure.column.replace('_', '-')}",
        title=measure.title,
        about=measure.about,
        reading=model.reading(measure, runs),
        figure=_run_figure(measure, runs, series) if drawn else None,
    )


def _run_figure(measure: Measure, runs: Sequence[Row], series: Sequence[float | None]) -> Figure:
    shown = model.peaks(series)
    over = [measure.threshold is not None and (series[i] or 0) > measure.threshold for i in shown]
    line = _scatter(
        [i + 1 for i in shown],
        [series[i] for i in shown],
        [_run_hover(runs[i], series[i], measure) for i in shown],
        line={"color": light("pale"), "width": 1},
        mode="lines+markers",
        marker={
            "color": [light("flag" if flagged else "accent") for flagged in over],
            "symbol": ["diamond" if flagged else "circle" for flagged in over],
            "size": _marker_px(len(shown)),
        },
    )
    layout = _layout(xaxis=_axis(title="runs, in the order they began", **_ordinal(len(runs))), yaxis=_axis(zero=True))
    if measure.threshold is not None:
        layout |= _threshold(measure.threshold, max(value for value in series if value is not None))
    return _figure([line], layout)


def _run_hover(row: Row, value: float | None, measure: Measure) -> str:
    parts = [f"{words.count(value)} {measure.unit}" if value is not None else words.NOT_RECORDED, label(row["run"], 60)]
    parts += [label(row["task"], 100, 50)] if row.get("task") else []
    parts += [words.moment(row["started_at"])] if row.get("started_at") else []
    return "<br>".join(parts)


def _threshold(value: int, largest: float) -> Figure:
    """A dashed line that is always in sight, so that staying under it can be seen too."""
    line = {"color": light("flag"), "width": 1, "dash": "dash"}
    shape = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": line,
        "layer": "below",
    }
    note = {
        **{"xref": "paper", "x": 1, "xanchor": "right", "y": value, "yanchor": "bottom", "showarrow": False},
        **{"text": f"threshold {value:,}", "font": {"color": light("flag"), "size": 11}},
    }
    y_range = [0, 1.18 * max(value, largest)]
    return {"shapes": [shape], "annotations": [note], "yaxis": _axis(range=y_range)}


def tool_chart(picture: Picture) -> Chart:
    """What each tool returned, in characters; the rest of the tools in the table."""
    tools = [row for row in picture.tools if row["total_chars_returned"] is not None][: limits.DASHBOARD_BARS]
    if not tools:
        return Chart(key="tools", title="Returned by each tool", about="", reading="No tool call was recorded.")
    top, total = tools[0], sum(row["total_chars_returned"] or 0 for row in picture.tools)
    share = f", {words.percent(top['total_chars_returned'] / total)} of all" if total else ""
    hover = [
        f"{words.count(t['total_chars_returned'])} characters<br>{words.plural(t['calls'], 'call')}" for t in tools
    ]
    bars = _bar([t["total_chars_returned"] for t in tools], hover, light("accent"))
    return Chart(
        key="tools",
        title="Returned by each tool",
        about="Characters that each tool handed back, over all runs.",
        reading=f"Most by {shorten(top['tool'], 40)}: {words.count(top['total_chars_returned'])} characters{share}.",
        figure=_figure([bars], _bars_layout([label(t["tool"], 40) for t in tools], "characters")),
    )


def bank_charts(picture: Picture) -> list[Chart]:
    """How the bank grew, how much of what came was new, and how well it served."""
    rows = [picture.health[i] for i in model.latest(len(picture.health))]
    if not rows:
        return []
    return [_size_chart(rows), _novelty_chart(rows), _drift_chart(rows)]


def _size_chart(rows: Sequence[Row]) -> Chart:
    size = [value for value in model.values(rows, "size") if value is not None]
    reading = (
        f"{words.plural(int(size[-1]), 'active item')} at the end; at most {max(size):,}." if size else "Not recorded."
    )
    return Chart(
        key="bank-size",
        title="Size of the bank",
        about="Active items, by position in the log.",
        reading=reading,
        figure=_health_figure(rows, [("size", "active items", "accent", "solid")], shape="hv", zero=True),
    )


def _novelty_chart(rows: Sequence[Row]) -> Chart:
    last = rows[-1]
    return Chart(
        key="bank-novelty",
        title="New and duplicate candidates",
        about="Of the candidates for new items, the share that was added and the share that was known already.",
        reading=f"At the end: {words.percent(last['novelty_rate'])} new (solid line), "
        f"{words.percent(last['duplicate_rate'])} duplicate (dashed line).",
        figure=_health_figure(
            rows,
            [("novelty_rate", "new", "accent", "solid"), ("duplicate_rate", "duplicate", "sand", "dash")],
            shape="hv",
            share=True,
        ),
    )


def _drift_chart(rows: Sequence[Row]) -> Chart:
    return Chart(
        key="bank-drift",
        title="Win rate and its drift",
        about=f"The win rate of the last {WINDOW} uses against that of the {WINDOW} before them. "
        "The gap between the two is the drift.",
        reading=_drift_reading(rows),
        figure=_health_figure(
            rows,
            [
                ("win_rate_last", "last uses", "accent", "solid"),
                ("win_rate_before", "uses before", "second", "dash"),
                ("win_rate_drift", "drift", "plum", "dot"),
            ],
            share=True,
        ),
    )


def _drift_reading(rows: Sequence[Row]) -> str:
    last = rows[-1]
    if last["win_rate_last"] is None:
        return "No item has been used yet."
    now = f"At the end: {words.percent(last['win_rate_last'])} (solid line)"
    if last["win_rate_drift"] is None:
        return f"{now}. The drift shows once there are {2 * WINDOW} uses."
    before = f"{words.percent(last['win_rate_before'])} before (dashed line)"
    return f"{now}, {before}, drift {words.points(last['win_rate_drift'])} (dotted line)."


def _health_figure(
    rows: Sequence[Row],
    lines: Sequence[tuple[str, str, str, str]],
    *,
    shape: str = "linear",
    share: bool = False,
    zero: bool = False,
) -> Figure | None:
    traces = []
    for column, name, colour, dash in lines:
        series = model.values(rows, column)
        if all(value is None for value in series):
            continue
        hover = [
            f"{_health_value(value, share)} {name}<br>{_health_place(row)}"
            for value, row in zip(series, rows, strict=True)
        ]
        line = {"color": light(colour), "width": 2, "dash": dash, "shape": shape}
        marker = {"color": light(colour), "size": _marker_px(len(rows), 4)}
        seqs = model.values(rows, "seq")
        traces.append(_scatter(seqs, series, hover, name=name, line=line, mode="lines+markers", marker=marker))
    if not traces:
        return None
    yaxis = _axis(zero=zero or share, **({"tickformat": ".0%"} if share else {}))
    layout = _layout(xaxis=_axis(title="position in the log"), yaxis=yaxis, showlegend=len(lines) > 1)
    return _figure(traces, layout)


def _health_value(value: float | None, share: bool) -> str:
    return words.percent(value) if share else words.count(value)


def _health_place(row: Row) -> str:
    return f"position {row['seq']:,}" + (f"<br>{words.moment(row['at'])}" if row.get("at") else "")


def item_chart(picture: Picture) -> Chart:
    """Uses and wins of the items used most."""
    title, about = (
        "Uses and wins by item",
        "Runs in which an item was injected or read in full, and of those the successes.",
    )
    used = picture.used[: limits.DASHBOARD_BARS]
    if not used:
        return Chart(key="items-used", title=title, about=about, reading="No item has been used yet.")
    top = used[0]
    hover = [f"{label(row['title'], wrap=50)}<br>{_score(row)}" for row in used]
    uses = _bar(model.values(used, "uses"), hover, light("pale"), name="uses", width=0.62)
    wins = _bar([row["wins"] or 0 for row in used], hover, light("accent"), name="wins", width=0.62)
    layout = _bars_layout([label(row["title"], 52, 28) for row in used], "runs", row_px=34)
    return Chart(
        key="items-used",
        title=title,
        about=about,
        reading=f"Used most: {shorten(top['title'], 60)} ({_score(top)}).",
        figure=_figure([uses, wins], layout | {"barmode": "overlay", "showlegend": True}),
    )


def _score(row: Row) -> str:
    return f"{words.plural(row['uses'], 'use')}, {words.plural(row['wins'] or 0, 'win')}"


def stock_chart(picture: Picture) -> Chart:
    """Items by source, stacked by state."""
    title, about = "Items by source and state", "Every item that the bank ever held, by where it came from."
    if not picture.items:
        return Chart(key="items-stock", title=title, about=about, reading="There are no items yet.")
    sources = sorted({source for source, _ in picture.items}, key=model.source_order)
    bars = [_stock_bar(picture, state, sources) for state in model.states(picture.items)]
    total, active = picture.items.total(), sum(n for (_, state), n in picture.items.items() if state == "active")
    layout = _bars_layout([label(source, 30) for source in sources], "items")
    return Chart(
        key="items-stock",
        title=title,
        about=about,
        reading=f"{words.plural(total, 'item')} from {words.plural(len(sources), 'source')}; {active:,} active.",
        figure=_figure(bars, layout | {"barmode": "stack", "showlegend": True}),
    )


def _stock_bar(picture: Picture, state: str, sources: Sequence[str]) -> Any:
    n = [picture.items[source, state] for source in sources]
    hover = [
        f"{words.plural(k, 'item')} {clean(state)}<br>{label(source, 30)}" for k, source in zip(n, sources, strict=True)
    ]
    return _bar(n, hover, light(_STATE_COLOURS.get(state, "second")), name=label(state, 30))


def _scatter(x: Sequence[Any], y: Sequence[Any], hover: Sequence[str], **look: Any) -> Any:
    return plotly().Scatter(x=list(x), y=list(y), hovertext=list(hover), hoverinfo="text", **look)


def _bar(lengths: Sequence[Any], hover: Sequence[str], colour: str, **look: Any) -> Any:
    """Bars that go to the right, from the top down. They stand at numbers, so that two equal names stay two bars."""
    return plotly().Bar(
        x=list(lengths),
        y=list(range(len(lengths))),
        orientation="h",
        hovertext=list(hover),
        hoverinfo="text",
        marker={"color": colour, "line": {"width": 0}},
        **look,
    )


def _bars_layout(names: Sequence[str], unit: str, row_px: int = 28) -> Figure:
    rows = _axis(tickvals=list(range(len(names))), ticktext=list(names), range=[len(names) - 0.4, -0.6], showgrid=False)
    lengths = _axis(title=unit, zero=True, **({"tickformat": ",d"} if unit != "characters" else {}))
    return _layout(xaxis=lengths, yaxis=rows | {"automargin": True}, height=84 + row_px * len(names))


def _axis(*, title: str = "", zero: bool = False, **more: Any) -> Figure:
    return {
        "title": {"text": title, "font": {"size": 11}, "standoff": 8},
        "gridcolor": light("rule"),
        "linecolor": light("rule"),
        "zerolinecolor": light("second"),
        "zeroline": False,
        "fixedrange": True,
        "automargin": True,
        "tickfont": {"size": 11},
        "nticks": 6,
        **({"rangemode": "tozero", "zeroline": True, "zerolinewidth": 1} if zero else {}),
        **more,
    }


def _ordinal(n: int) -> Figure:
    """The range of an axis that counts from 1 to n; few ticks are whole numbers, never halves."""
    room = max(0.5, n * 0.02)
    return {"range": [1 - room, n + room], "showgrid": False, "tickformat": ",d", **({"dtick": 1} if n <= 8 else {})}


def _layout(*, height: int = _HEIGHT_PX, **more: Any) -> Figure:
    return {
        "template": {},
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12, "color": light("muted")},
        "hoverlabel": {
            "bgcolor": light("wash"),
            "bordercolor": light("second"),
            "font": {"color": light("ink"), "size": 12, "family": _FONT},
            "align": "left",
        },
        "dragmode": False,
        "hovermode": "closest",
        "showlegend": False,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1,
            "yanchor": "bottom",
            "itemclick": False,
            "itemdoubleclick": False,
        },
        **more,
    }


def _marker_px(n: int, largest: int = 7) -> int:
    return largest if n <= 60 else max(3, largest - 2) if n <= 250 else 3


def _figure(traces: Sequence[Any], layout: Figure) -> Figure:
    made: Figure = plotly().Figure(data=list(traces), layout=layout).to_plotly_json()
    made["layout"]["template"] = {}
    return made
