"""The tables of the page: bounded, captioned, and plain about what was cut and what was not recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rbank_es import limits
from rbank_es.dashboard import page_facts, page_text
from rbank_es.dashboard.page_facts import Picture, Row
from rbank_es.dashboard.page_text import Html, element, join, shorten


class Column(msgspec.Struct, frozen=True):
    """One column: its heading, what it shows of a row, and whether that is a number."""

    heading: str
    cell: Callable[[Row], str]
    number: bool = True


def table(caption: str, columns: Sequence[Column], rows: Sequence[Row], *, cut: str = "") -> Html:
    """A table in a region that scrolls by mouse and by keyboard; the first column names the row.

    At most `limits.DASHBOARD_ROWS` rows are shown; where that leaves some out, the caption says so, ending in `cut`.
    """
    shown = rows[: limits.DASHBOARD_ROWS]
    if len(shown) < len(rows):
        caption = f"{caption} {len(shown):,} of {len(rows):,} are shown{cut and ', ' + cut}."
    head = element("tr", *(element("th", c.heading, scope="col", class_=_kind(c)) for c in columns))
    body = (element("tr", *(_cell(column, row, first=column is columns[0]) for column in columns)) for row in shown)
    said = element("caption", element("span", caption))
    made = element("table", said, element("thead", head), element("tbody", *body))
    return element("div", made, class_="table", role="region", tabindex="0", aria_label=caption.split(".")[0])


def _kind(column: Column) -> str | None:
    return "number" if column.number else None


def _cell(column: Column, row: Row, *, first: bool) -> Html:
    shown = column.cell(row)
    if shown == page_text.NOT_RECORDED:
        shown = element("span", shown, class_="missing")
    return element("th", shown, scope="row") if first else element("td", shown, class_=_kind(column))


def text(name: str, max_chars: int = limits.DASHBOARD_TEXT_CHARS) -> Callable[[Row], str]:
    """Show a column of text."""
    return lambda row: shorten(row[name], max_chars) if row.get(name) else page_text.NOT_RECORDED


def number(name: str, threshold: int | None = None) -> Callable[[Row], str]:
    """Show a column of numbers; one over the threshold stands out, and says why to who can't see that."""

    def cell(row: Row) -> str:
        value = row.get(name)
        over = threshold is not None and value is not None and value > threshold
        return (
            element("span", page_text.count(value), class_="over", title=f"over {threshold:,}")
            if over
            else page_text.count(value)
        )

    return cell


def runs(picture: Picture) -> Html:
    """Every run with what leaked in it, latest first."""
    columns = [
        Column("Run", _run, number=False),
        Column("Began (UTC)", _began, number=False),
        Column("Outcome", _outcome, number=False),
        Column("Judged", _verdict, number=False),
        Column("Red flags", number("red_flags", 0)),
        Column("Iterations", number("iterations")),
        Column("Tool calls", number("tool_calls")),
        Column("Returned", number("total_chars_returned")),
        Column("Largest return", number("max_single_return", limits.FLAG_RETURN_CHARS)),
        Column("Context", number("context_size", limits.FLAG_CONTEXT_CHARS)),
        Column("Items injected", number("memory_items_injected", limits.FLAG_ITEMS_INJECTED)),
        Column("Longest prompt", number("prompt_chars_max")),
        Column("Printed", number("stdout_chars")),
        Column("In variables", number("variables_chars")),
        Column("Sub-calls", number("subcalls")),
    ]
    return table(
        "All runs in numbers, the latest first. Sizes are in characters.", columns, picture.runs[::-1], cut="the latest"
    )


def _run(row: Row) -> str:
    task = element("span", shorten(row["task"]), class_="second") if row.get("task") else ""
    return join(element("span", shorten(row["run"], 60), class_="mono"), task)


def _began(row: Row) -> str:
    began = page_text.minute(row.get("started_at"))
    return began if began == page_text.NOT_RECORDED else element("span", began, class_="line")


def _outcome(row: Row) -> str:
    outcome = row.get("outcome")
    if outcome is None:
        return "not finished"
    return shorten(str(outcome), 40).replace("_", " ")


def _verdict(row: Row) -> str:
    success = row.get("success")
    return "not judged" if success is None else "success" if success else "failure"


def tools(picture: Picture) -> Html:
    """Every tool, by what it returned."""
    columns = [
        Column("Tool", text("tool", 60), number=False),
        Column("Calls", number("calls")),
        Column("Errors", number("errors")),
        Column("Returned", number("total_chars_returned")),
        Column("Largest return", number("max_single_return", limits.FLAG_RETURN_CHARS)),
        Column("Returns over 1,000", number("large_returns", 0)),
        Column("Truncated", number("truncated")),
    ]
    return table("Tools, by what they returned over all runs. Sizes are in characters.", columns, picture.tools)


def flags(picture: Picture) -> Html:
    """Every red flag, the worst first."""
    columns = [
        Column("What", flag_name, number=False),
        Column("Value", number("value")),
        Column("Threshold", number("threshold")),
        Column(
            "Times over", lambda row: f"{(row['value'] or 0) / row['threshold']:,.1f}×" if row["threshold"] else "–"
        ),
        Column("Run", text("run", 60), number=False),
        Column("Tool", _flag_tool, number=False),
        Column("Position", number("seq")),
    ]
    return table("Red flags, those furthest over their threshold first.", columns, picture.flags, cut="the worst")


def flag_name(row: Row) -> str:
    """A flag's name in plain words; one that this page doesn't know is named as it is."""
    known = page_facts.FLAGS.get(row["flag"])
    return known.name if known else shorten(row["flag"], 60)


def _flag_tool(row: Row) -> str:
    if row["flag"] != "single_return":
        return element("span", "the context", class_="muted")
    return text("tool", 60)(row)


def used(picture: Picture) -> Html:
    """Every item with uses, most first."""
    columns = [
        Column("Item", _item, number=False),
        Column("State", text("state"), number=False),
        Column("Source", text("src"), number=False),
        Column("Uses", number("uses")),
        Column("Wins", number("wins")),
        Column("Win rate", lambda row: page_text.percent(row["win_rate"])),
        Column("First used at", number("first_used_seq")),
        Column("Last used at", number("last_used_seq")),
    ]
    caption = "Items by uses. A win is a use in a run that was judged a success; places are positions in the log."
    return table(caption, columns, picture.used, cut="those used most")


def _item(row: Row) -> str:
    return join(shorten(row["title"]), element("span", shorten(row["item"], 60), class_="second mono"))


def stock(picture: Picture) -> Html:
    """Items by source and state, with sums."""
    sources = page_facts.sources(picture.items)
    states = page_facts.states(picture.items)
    rows: list[Row] = [
        {"source": source, **{state: picture.items[source, state] for state in states}} for source in sources
    ]
    rows = [{**row, "all": sum(row[state] for state in states)} for row in rows]
    rows += [{"source": "all", **{name: sum(row[name] for row in rows) for name in (*states, "all")}}]
    columns = [Column("Source", text("source", 40), number=False)]
    columns += [Column(shorten(name, 30).capitalize(), number(name)) for name in (*states, "all")]
    return table("Items by source and state.", columns, rows)


def health(picture: Picture) -> Html:
    """The course of the bank, latest first."""
    columns = [
        Column("Position", number("seq"), number=False),
        Column("Time", lambda row: page_text.moment(row["at"]), number=False),
        Column("Active items", number("size")),
        Column("Candidates", number("candidates")),
        Column("Added", number("added")),
        Column("Skipped", number("skipped")),
        Column("New", lambda row: page_text.percent(row["novelty_rate"])),
        Column("Duplicate", lambda row: page_text.percent(row["duplicate_rate"])),
        Column("Win rate, last uses", lambda row: page_text.percent(row["win_rate_last"])),
        Column("Win rate before", lambda row: page_text.percent(row["win_rate_before"])),
        Column("Drift", lambda row: page_text.points(row["win_rate_drift"])),
        Column("Uses", number("uses")),
    ]
    return table("The bank after each change, the latest first.", columns, picture.health[::-1], cut="the latest")
