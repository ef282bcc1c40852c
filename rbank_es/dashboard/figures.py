"""Plotly figures as plain data, and the palette of the page.

Figures hold light colours, which the page's script repaints for dark, and no random ids: a page is reproducible.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any

from rbank_es import limits
from rbank_es.dashboard.page_text import clean, shorten
from rbank_es.errors import MissingExtra

Figure = dict[str, Any]

HEIGHT_PX = 210
_LEFT_PX, _RIGHT_PX = 44, 46
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_FEW = 8
"""An axis of counts up to this has a tick for every number, because plotly would label halves too."""


def plotly() -> Any:
    """Return plotly's module of figures, imported on first use. Raises `MissingExtra` where it is not installed."""
    try:
        import plotly.graph_objects
    except ImportError as missing:
        raise MissingExtra("dashboard", "a page with charts") from missing
    return plotly.graph_objects


def library() -> str:
    """Return plotly.js with the newlines that browsers read, because its digest is in the page's policy."""
    plotly()
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).replace("\r\n", "\n")


def label(text: str, max_chars: int = limits.DASHBOARD_TEXT_CHARS, wrap: int = 0) -> str:
    """Return the text for a chart: shortened, wrapped at `wrap`, and escaped, because plotly reads some HTML tags."""
    short = shorten(text, max_chars)
    return _lines(textwrap.wrap(short, wrap) if wrap else [short])


def tick(text: str, width: int = 30) -> str:
    """Return the text as the name of a bar: at most two lines of `width` characters."""
    return _lines(textwrap.wrap(clean(text), width, max_lines=2, placeholder="…") or [""])


def _lines(lines: Sequence[str]) -> str:
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def scatter(x: Sequence[Any], y: Sequence[Any], hover: Sequence[str], **look: Any) -> Any:
    """Return a trace of lines or dots; None leaves a gap."""
    return plotly().Scatter(x=list(x), y=list(y), hovertext=list(hover), hoverinfo="text", **look)


def bar(lengths: Sequence[Any], hover: Sequence[str], colour: str, **look: Any) -> Any:
    """Return a trace of horizontal bars, at numbers from the top down, because equal names would share one bar."""
    return plotly().Bar(
        x=list(lengths),
        y=list(range(len(lengths))),
        orientation="h",
        width=0.62,
        hovertext=list(hover),
        hoverinfo="text",
        marker={"color": light(colour), "line": {"width": 0}},
        **look,
    )


def bars_layout(names: Sequence[str], unit: str, longest: int, *, row_px: int = 28, legend_px: int = 0) -> Figure:
    """Return the layout of named bars up to length `longest`, with `legend_px` for a legend above them."""
    room = {"margin": {"l": 8, "r": 16, "t": 8 + legend_px, "b": 44}, "showlegend": bool(legend_px)}
    rows = axis(tickvals=list(range(len(names))), ticktext=list(names), range=[len(names) - 0.4, -0.6], showgrid=False)
    ticks = {"dtick": 1} if longest <= _FEW else {}
    lengths = axis(title=unit, zero=True, tickformat="~s" if unit == "characters" else ",d", **ticks)
    return layout(xaxis=lengths, yaxis=rows, height=64 + legend_px + row_px * len(names), **room)


def threshold(value: int) -> Figure:
    """Return a dashed line across the chart, with its number at its end."""
    line = {"color": light("flag"), "width": 1.5, "dash": "dash"}
    place = {"xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value}
    note = {"xref": "paper", "x": 1, "xanchor": "left", "y": value, "yanchor": "middle", "showarrow": False}
    note |= {"text": f"{value:,}", "font": {"color": light("flag"), "size": 11}}
    return {"shapes": [{"type": "line", "line": line, "layer": "between", **place}], "annotations": [note]}


def axis(*, title: str = "", zero: bool = False, **more: Any) -> Figure:
    """Return an axis in the page's style; `zero` makes it start at 0, with a line."""
    return {
        "title": {"text": title, "font": {"size": 11}, "standoff": 8},
        "gridcolor": light("rule"),
        "linecolor": light("rule"),
        "zerolinecolor": light("second"),
        "zeroline": zero,
        "zerolinewidth": 1,
        "rangemode": "tozero" if zero else "normal",
        "fixedrange": True,  # because zooming by accident hides points without a word
        "automargin": True,
        "tickfont": {"size": 11},
        "nticks": 6,
        **more,
    }


def side_axis(**more: Any) -> Figure:
    """Return a vertical axis with a fixed margin, so that neighbouring charts align."""
    return axis(zero=True, **more) | {"automargin": False}


def ordinal(n: int) -> Figure:
    """Return the settings of an axis that counts from 1 to n, with some room at both ends."""
    room = max(0.5, n * 0.02)
    return {"range": [1 - room, n + room], "showgrid": False, "tickformat": ",d", **({"dtick": 1} if n <= _FEW else {})}


def layout(**more: Any) -> Figure:
    """Return the layout that all charts share: transparent, no zoom."""
    text = {"color": light("ink"), "size": 12, "family": _FONT}
    return {
        "height": HEIGHT_PX,
        "margin": {"l": _LEFT_PX, "r": _RIGHT_PX, "t": 10, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {**text, "color": light("muted")},
        "hoverlabel": {"bgcolor": light("wash"), "bordercolor": light("second"), "font": text, "align": "left"},
        "dragmode": False,
        "hovermode": "closest",
        "showlegend": False,
        "legend": {
            **{"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
            **{"itemclick": False, "itemdoubleclick": False},
        },
        **more,
    }


def marker_px(n: int) -> int:
    """Return the size of each of `n` dots, in pixels."""
    return 7 if n <= 60 else 5 if n <= 250 else 3


def figure(traces: Sequence[Any], look: Figure) -> Figure:
    """Return the figure, validated by plotly, without plotly's own template."""
    made: Figure = plotly().Figure(data=list(traces), layout={**look, "template": {}}).to_plotly_json()
    made["layout"]["template"] = {}
    return made


PALETTE = {
    # name: (light, dark); the light ones are distinct, because charts are repainted by value
    "paper": ("#fdfdfc", "#14171a"),
    "wash": ("#f3f4f2", "#1c2024"),
    "ink": ("#1c2023", "#e6e8ea"),
    "muted": ("#565e66", "#a3acb5"),
    "rule": ("#dcdfdd", "#333a41"),
    "accent": ("#1f5f99", "#7db5ec"),
    "second": ("#7f8890", "#7d8791"),
    "pale": ("#6d96bd", "#47739c"),
    "flag": ("#b3331f", "#ff927d"),
    "sand": ("#a67c2e", "#cfa65a"),
    "plum": ("#84578f", "#c196cc"),
    "teal": ("#2c7f74", "#6fc3b6"),
    "rust": ("#8c5a41", "#cd9d84"),
}


def light(name: str) -> str:
    """Return a colour's light variant."""
    return PALETTE[name][0]


def repaint() -> dict[str, str]:
    """Return the dark variant of each light colour, for the page's script."""
    return dict(PALETTE.values())


def declarations(dark: bool) -> str:
    """Return the colours as CSS custom properties."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in PALETTE.items())
