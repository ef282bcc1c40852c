"""The page: one self-contained HTML file, whose own policy forbids any network request."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from string import Template

from rbank_es import __version__, limits
from rbank_es.dashboard import figures, page_facts, tables
from rbank_es.dashboard.charts import Chart, all_charts
from rbank_es.dashboard.page_facts import PageFacts, Picture, Rows
from rbank_es.dashboard.page_text import (
    NOT_RECORDED,
    Html,
    count,
    element,
    join,
    moment,
    percent,
    plural,
    short_name,
    shorten,
    size,
)


def render(view: Rows, facts: PageFacts) -> str:
    """Return the page as text; the same rows and facts give the same page, byte for byte.

    Raises `MissingExtra` where there are charts to draw and plotly is not installed.
    """
    picture = page_facts.read(view, facts)
    charts = all_charts(picture)
    drawn = {_id(chart): chart.figure for chart in charts if chart.figure is not None}
    scripts, policy = _scripts(drawn) if drawn else (Html(""), _policy([]))
    main = _empty(facts) if picture.empty else _sections(picture, {chart.key: chart for chart in charts})
    body = join(_header(picture), main)
    # The footer tells the size of all else; its own few bytes don't count.
    footer = _footer(len(f"{body}{scripts}{_asset('style.css')}".encode()), bool(drawn))
    title = f"{shorten(facts.name)} at position {facts.position:,}"
    return document(title, join(body, footer), scripts=scripts, policy=policy)


def document(title: str, body: Html, *, scripts: str = "", policy: str | None = None) -> str:
    """Return a whole page of one file, in both themes; without a policy, no script may run in it."""
    return Template(_asset("page.html")).substitute(
        policy=policy or _policy([]),
        title=join(title, " – rbank-es"),
        light=figures.declarations(dark=False),
        dark=figures.declarations(dark=True),
        style=_asset("style.css"),
        body=element("div", body, class_="page"),
        scripts=scripts,
    )


def _id(chart: Chart) -> str:
    return f"chart-{chart.key}"


def _asset(name: str) -> str:
    return files("rbank_es.dashboard").joinpath(name).read_text("utf-8").replace("\r\n", "\n")


def _scripts(drawn: dict[str, figures.Figure]) -> tuple[Html, str]:
    """Return the scripts, and the policy that allows these and no others."""
    # The policy names the digests of these very texts, so they must go into the page unchanged.
    programs = [figures.library(), _asset("script.js")]
    data = json.dumps({"figures": drawn, "dark": figures.repaint()}, separators=(",", ":"), allow_nan=False)
    blocks = [f'<script type="application/json" id="figures">{_inert(data)}</script>']
    blocks += [f"<script>{program}</script>" for program in programs]
    return Html("\n".join(blocks)), _policy(programs)


def _inert(data: str) -> str:
    """Return JSON in which no text can end its script element or open a comment."""
    return data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(programs: Sequence[str]) -> str:
    """Return a Content-Security-Policy without network sources; styles may be inline, because plotly.js sets them."""
    hashes = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    scripts = " ".join(f"'sha256-{each}'" for each in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(picture: Picture) -> Html:
    facts = picture.facts
    place = [("Position", f"{facts.position:,}"), ("Recorded", moment(facts.at))]
    point = f"as of {shorten(facts.point)}" if facts.point else "the newest position when this page was written"
    place += [("Point in time", point)]
    place += [("Forked from", shorten(facts.forked_from))] if facts.forked_from else []
    entries = [element("div", element("dt", name), element("dd", value)) for name, value in place]
    digest = element("dd", element("code", facts.head))
    entries += [element("div", element("dt", "Head digest"), digest)]
    return element(
        "header",
        element("p", "Reasoning bank", class_="kind"),
        element("h1", shorten(facts.name)),
        element("p", shorten(facts.purpose, limits.DASHBOARD_PURPOSE_CHARS), class_="purpose") if facts.purpose else "",
        element("dl", *entries, class_="place"),
        _scripted(picture),
        _simulated(picture),
    )


def _scripted(picture: Picture) -> Html:
    n = sum(bool(row.get("scripted")) for row in picture.runs)
    if not n:
        return Html("")
    if n == len(picture.runs):
        which = "The only run" if n == 1 else f"All {n:,} runs"
        text = f"{which} in this bank {'is' if n == 1 else 'are'} scripted: written to show how it works. No model ran."
    else:
        text = f"{n:,} of {plural(len(picture.runs), 'run')} are scripted: written by hand, no model ran in them."
    return element("p", text, class_="note")


def _simulated(picture: Picture) -> Html:
    n = sum(bool(row.get("simulated")) for row in picture.runs)
    if not n:
        return Html("")
    text = f"SIMULATED: in {n:,} of {plural(len(picture.runs), 'run')} chance stood in for the agent."
    return element("p", text, class_="note")


def _empty(facts: PageFacts) -> Html:
    if facts.point:
        text = "At this point in time the bank held no runs and no items. Choose a later one."
    else:
        text = "This bank is empty: it holds no runs and no items. Add some, and write the page again:"
    place = short_name(facts.name)
    commands = (
        f"rbank-es import {place} PATH\nrbank-es append {place} EVENTS.jsonl\nrbank-es dashboard {place} -o PAGE.html"
    )
    shown = Html("") if facts.point else element("pre", element("code", commands))
    return element("main", element("h2", "An empty bank"), element("p", text), shown, id="main")


def _sections(picture: Picture, charts: dict[str, Chart]) -> Html:
    leakage = [("leakage", "By run"), ("tools", "By tool"), ("flags", "Red flags")]
    links = [*leakage, ("bank", "Bank"), ("items", "Items"), ("turns", "Corrections")]
    items = (element("li", element("a", name, href=f"#{key}")) for key, name in links)
    nav = element("nav", element("ul", *items), aria_label="Sections")
    return element(
        "main", _keys(picture), nav, _leakage(picture, charts), _bank(picture, charts), id="main", tabindex="-1"
    )


def _keys(picture: Picture) -> Html:
    entries = (_key(*figure) for figure in _key_figures(picture))
    return element("dl", *entries, class_="keys", aria_label="Key figures")


def _key(name: str, value: str, about: str, flagged: bool = False) -> Html:
    look = "value" + (" flagged" if flagged else "") + ("" if value[0].isdigit() else " words")
    return element("div", element("dt", name), element("dd", value, class_=look), element("dd", about))


def _key_figures(picture: Picture) -> list[tuple[str, str, str, bool]]:
    uses = sum(row["uses"] for row in picture.used)
    return [
        ("Runs", f"{len(picture.runs):,}", _outcomes(picture), False),
        ("Success rate", *_success(picture), False),
        ("Active items", f"{picture.active:,}", f"of {picture.items.total():,} ever stored", False),
        ("Uses", f"{uses:,}", f"of {plural(len(picture.used), 'item')}", False),
        ("Wins", *_wins(picture, uses), False),
        ("Red flags", *_raised(picture), bool(picture.flags)),
    ]


def _success(picture: Picture) -> tuple[str, str]:
    judged = [row["verdict"] == "success" for row in picture.runs if row.get("verdict") in ("success", "failure")]
    if not judged:
        return NOT_RECORDED, "no run was judged"
    undecided = sum(row.get("verdict") == "undecided" for row in picture.runs)
    rest = f", {undecided:,} undecided" if undecided else ""
    return percent(sum(judged) / len(judged)), f"{sum(judged):,} of {plural(len(judged), 'judged run')}{rest}"


def _wins(picture: Picture, uses: int) -> tuple[str, str]:
    wins = sum(row["wins"] or 0 for row in picture.used)
    if uses and not wins and all(row.get("verdict") is None for row in picture.runs):
        return NOT_RECORDED, "no run was judged"
    return f"{wins:,}", f"{percent(wins / uses)} of uses" if uses else "no item was used"


def _raised(picture: Picture) -> tuple[str, str]:
    if not picture.watched:
        return NOT_RECORDED, "nothing recorded that raises one"
    runs = len({row["run"] for row in picture.flags})
    return f"{len(picture.flags):,}", f"in {runs:,} of {plural(len(picture.runs), 'run')}"


def _outcomes(picture: Picture) -> str:
    counted = Counter(row.get("outcome") or "not finished" for row in picture.runs)
    return (
        ", ".join(f"{n:,} {shorten(str(name), 30).replace('_', ' ')}" for name, n in counted.most_common(4))
        or "none yet"
    )


def _leakage(picture: Picture, charts: dict[str, Chart]) -> Html:
    intro = (
        "Leakage is text that reaches the model's prompt where a short handle would have been enough. "
        "Each dot is a run; a diamond is a run over the threshold, the dashed line."
    )
    runs = [_figure(charts[key]) for key in charts if key.startswith("run-")]
    shown = [
        _thinned(len(picture.runs), "runs: each stands for a group of neighbours, at the largest value among them"),
        element("div", *runs, class_="charts"),
        tables.runs(picture),
    ]
    none = [element("p", "No run was recorded up to this point.", class_="nothing")]
    return element(
        "section",
        element("h2", "Leakage by run"),
        element("p", intro),
        *(shown if picture.runs else none),
        _tools(picture, charts),
        _flags(picture),
        id="leakage",
        aria_label="Leakage",
    )


def _thinned(n: int, things: str) -> Html:
    if n <= limits.DASHBOARD_POINTS:
        return Html("")
    return element("p", f"The charts draw {limits.DASHBOARD_POINTS:,} points for {n:,} {things}.")


def _tools(picture: Picture, charts: dict[str, Chart]) -> Html:
    shown = [element("div", _figure(charts["tools"], "wide"), class_="charts")]
    shown += [tables.tools(picture)] if picture.tools else []
    return element("div", element("h2", "Leakage by tool"), *shown, id="tools", class_="sub")


def _flags(picture: Picture) -> Html:
    counted = {kind: picture.flagged(kind) for kind in page_facts.FLAGS}
    kinds = (
        element("div", element("dt", f"{flag.name}: {count(counted[kind])}"), element("dd", flag.about))
        for kind, flag in page_facts.FLAGS.items()
    )
    none = "No run went over a threshold." if picture.watched else "No run recorded a value that can raise a flag."
    shown = tables.flags(picture) if picture.flags else element("p", none, class_="nothing")
    return element(
        "div", element("h2", "Red flags"), element("dl", *kinds, class_="flags"), shown, id="flags", class_="sub"
    )


def _bank(picture: Picture, charts: dict[str, Chart]) -> Html:
    course = [_figure(charts[key]) for key in charts if key.startswith("bank-")]
    if course:
        thinned = _thinned(len(picture.health), "changes: each is the last of a group of neighbours")
        shown = [
            thinned,
            element("div", *course, class_="charts three"),
            _more("Every change in numbers", tables.health(picture)),
        ]
    else:
        shown = [element("p", "The memory has not changed up to this point.", class_="nothing")]
    return element(
        "section",
        element("h2", "The bank over time"),
        element("p", "The size of the bank, the share of new items among candidates, and the success of their uses."),
        *shown,
        *([tables.measures(picture)] if picture.measures else []),
        _items(picture, charts),
        _turns(picture),
        id="bank",
        aria_label="The bank",
    )


def _items(picture: Picture, charts: dict[str, Chart]) -> Html:
    stock = [_figure(charts["items-stock"]), *([tables.stock(picture)] if picture.items else [])]
    shown = [element("div", _figure(charts["items-used"]), element("div", *stock), class_="charts items")]
    shown += [tables.used(picture)] if picture.used else []
    return element("div", element("h2", "Items"), *shown, id="items", class_="sub")


def _turns(picture: Picture) -> Html:
    intro = (
        "An item is active while a verdict that it rests on stands, or a person vouched for it. These events ended "
        "items or brought them back: verdicts, acts of people, and the corrections that followed."
    )
    none = element("p", "No item has ended up to this point.", class_="nothing")
    shown = tables.turns(picture) if picture.turns else none
    return element("div", element("h2", "Corrections"), element("p", intro), shown, id="turns", class_="sub")


def _more(summary: str, content: Html) -> Html:
    return element("details", element("summary", summary), content)


def _figure(chart: Chart, class_: str | None = None) -> Html:
    """Return a chart with its texts; for screen readers the drawing is its title and its reading."""
    text = [element("h3", chart.title)]
    text += [element("p", chart.about, class_="about")] if chart.about else []
    if chart.figure is None:
        return element(
            "figure", element("figcaption", *text), element("p", chart.reading, class_="nothing"), class_=class_
        )
    text += [element("p", chart.reading, class_="reading")]
    height = f"min-height:{chart.figure['layout']['height']}px"
    warning = element("noscript", "This chart needs JavaScript; the tables hold the same numbers.")
    drawing = element(
        "div",
        warning,
        id=_id(chart),
        class_="chart",
        role="img",
        aria_label=f"Chart: {chart.title}. {chart.reading}",
        style=height,
    )
    return element("figure", element("figcaption", *text), drawing, class_=class_)


def _footer(size_bytes: int, charts: bool) -> Html:
    rest = f"about {size(size_bytes)}{', nearly all of it plotly.js' if charts else ''}"
    return element(
        "footer",
        element(
            "p",
            f"Written by rbank-es {__version__}. This page is one file ({rest}); it works offline and makes no "
            "network requests. “Not recorded” means that the log holds no value; it never means zero.",
        ),
    )
