"""Tables of the page: bounded, with captions that name rows left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from rbank_es import limits
from rbank_es.dashboard import page_facts
from rbank_es.dashboard.page_facts import Picture, Row
from rbank_es.dashboard.page_text import (
    NOT_RECORDED,
    Html,
    count,
    element,
    join,
    minute,
    moment,
    percent,
    points,
    short_name,
    shorten,
)
from rbank_es.state.proportion import wilson

# Items of one event that the page names: a verdict may end a thousand.
TURN_ITEMS = 5


class TableColumn(msgspec.Struct, frozen=True):
    """One column: its heading, the text of its cell in a row, and whether that is a number."""

    heading: str
    cell: Callable[[Row], str]
    number: bool = True


def table(caption: str, columns: Sequence[TableColumn], rows: Sequence[Row], *, cut: str = "") -> Html:
    """Return a table in a region that scrolls by mouse and keyboard; the first column names the row.

    At most `limits.DASHBOARD_ROWS` rows are shown; the caption tells how many are left out, ending in `cut`.
    """
    shown = rows[: limits.DASHBOARD_ROWS]
    if len(shown) < len(rows):
        caption = f"{caption} {len(shown):,} of {len(rows):,} are shown{cut and ', ' + cut}."
    head = element("tr", *(element("th", c.heading, scope="col", class_=_kind(c)) for c in columns))
    body = (element("tr", *(_cell(column, row, first=column is columns[0]) for column in columns)) for row in shown)
    heading = element("caption", element("span", caption))
    made = element("table", heading, element("thead", head), element("tbody", *body))
    return element("div", made, class_="table", role="region", tabindex="0", aria_label=caption.split(".")[0])


def _kind(column: TableColumn) -> str | None:
    return "number" if column.number else None


def _cell(column: TableColumn, row: Row, *, first: bool) -> Html:
    shown = column.cell(row)
    if shown == NOT_RECORDED:
        shown = element("span", shown, class_="missing")
    return element("th", shown, scope="row") if first else element("td", shown, class_=_kind(column))


def text(name: str, max_chars: int = limits.DASHBOARD_TEXT_CHARS) -> Callable[[Row], str]:
    """Return the cell of a column of text."""
    return lambda row: shorten(row[name], max_chars) if row.get(name) else NOT_RECORDED


def number(name: str, threshold: int | None = None) -> Callable[[Row], str]:
    """Return the cell of a column of numbers, which marks a number over the threshold, also for screen readers."""

    def cell(row: Row) -> str:
        value = row.get(name)
        over = threshold is not None and value is not None and value > threshold
        return element("span", count(value), class_="over", title=f"over {threshold:,}") if over else count(value)

    return cell


def runs(picture: Picture) -> Html:
    """Return the table of runs with their leakage, the one that began last first."""
    columns = [
        TableColumn("Run", _run, number=False),
        TableColumn("Began (UTC)", _began, number=False),
        *([TableColumn("Imported on", _imported, number=False)] if any(map(_is_imported, picture.runs)) else []),
        TableColumn("Outcome", _outcome, number=False),
        TableColumn("Judged", _verdict, number=False),
        TableColumn("Red flags", number("red_flags", 0)),
        TableColumn("Iterations", number("iterations")),
        TableColumn("Tool calls", number("tool_calls")),
        TableColumn("Returned", number("total_chars_returned")),
        TableColumn("Largest return", number("max_single_return", limits.FLAG_RETURN_CHARS)),
        TableColumn("Context", number("context_size", limits.FLAG_CONTEXT_CHARS)),
        TableColumn("Items injected", number("memory_items_injected", limits.FLAG_ITEMS_INJECTED)),
        TableColumn("Longest prompt", number("prompt_chars_max")),
        TableColumn("Printed", number("stdout_chars")),
        TableColumn("In variables", number("variables_chars")),
        TableColumn("Sub-calls", number("subcalls")),
    ]
    return table(
        "All runs in numbers, the one that began last first. Sizes are in characters.",
        columns,
        picture.runs[::-1],
        cut="those that began last",
    )


def _run(row: Row) -> str:
    task = element("span", shorten(row["task"]), class_="second") if row.get("task") else ""
    return join(element("span", short_name(row["run"]), class_="mono"), task)


def _began(row: Row) -> str:
    began = minute(row.get("started_at"))
    return began if began == NOT_RECORDED else element("span", began, class_="line")


def _is_imported(row: Row) -> bool:
    return row.get("imported_at") is not None


def _imported(row: Row) -> str:
    return element("span", minute(row["imported_at"])[:10], class_="line") if _is_imported(row) else "no"


def _outcome(row: Row) -> str:
    outcome = row.get("outcome")
    if outcome is None:
        return "not finished"
    return shorten(str(outcome), 40).replace("_", " ")


JUDGES = {"human": "a person", "gold": "the right answer", "lm": "a model", "check": "a check"}
"""Kinds of judges in words: whose verdict stands."""


def _verdict(row: Row) -> str:
    if not row.get("verdict"):
        return "not judged"
    by = JUDGES.get(row.get("kind") or "", "")
    sure = ", sure" if row.get("sure") else ""
    return join(str(row["verdict"]), element("span", f"{by}{sure}", class_="second")) if by else str(row["verdict"])


def tools(picture: Picture) -> Html:
    """Return the table of tools, by characters returned."""
    columns = [
        TableColumn("Tool", text("tool", limits.DASHBOARD_NAME_CHARS), number=False),
        TableColumn("Calls", number("calls")),
        TableColumn("Errors", number("errors")),
        TableColumn("Returned", number("total_chars_returned")),
        TableColumn("Largest return", number("max_single_return", limits.FLAG_RETURN_CHARS)),
        TableColumn("Returns over 1,000", number("large_returns", 0)),
        TableColumn("Truncated", number("truncated")),
    ]
    return table("Tools, by characters returned over all runs. Sizes are in characters.", columns, picture.tools)


def flags(picture: Picture) -> Html:
    """Return the table of red flags, the worst first."""
    columns = [
        TableColumn("Flag", flag_name, number=False),
        TableColumn("Value", number("value")),
        TableColumn("Threshold", number("threshold")),
        TableColumn(
            "Times over", lambda row: f"{(row['value'] or 0) / row['threshold']:,.1f}×" if row["threshold"] else "–"
        ),
        TableColumn("Run", text("run", limits.DASHBOARD_NAME_CHARS), number=False),
        TableColumn("Tool", _flag_tool, number=False),
        TableColumn("Position", number("seq")),
    ]
    return table("Red flags, those furthest over their threshold first.", columns, picture.flags, cut="the worst")


def flag_name(row: Row) -> str:
    """Return a flag's name in plain words; an unknown one keeps its own name."""
    known = page_facts.FLAGS.get(row["flag"])
    return known.name if known else short_name(row["flag"])


def _flag_tool(row: Row) -> str:
    # Only this kind belongs to a tool; the others are about the context of a run.
    if row["flag"] != "single_return":
        return element("span", "the context", class_="muted")
    return text("tool", limits.DASHBOARD_NAME_CHARS)(row)


def used(picture: Picture) -> Html:
    """Return the table of items with uses, most first."""
    columns = [
        TableColumn("Item", _item, number=False),
        TableColumn("State", text("state"), number=False),
        TableColumn("Source", text("src"), number=False),
        TableColumn("Uses", number("uses")),
        TableColumn("Wins", number("wins")),
        TableColumn("Win rate", lambda row: percent(row["win_rate"])),
        TableColumn("95% interval", _win_interval),
        TableColumn("First used at", number("first_used_seq")),
        TableColumn("Last used at", number("last_used_seq")),
    ]
    caption = "Items by uses. A win is a use in a run that was judged a success; both last columns are positions."
    return table(caption, columns, picture.used, cut="those used most")


def _win_interval(row: Row) -> str:
    return _interval({"interval": wilson(row["wins"] or 0, (row["wins"] or 0) + (row.get("losses") or 0))})


def _item(row: Row) -> str:
    return join(shorten(row["title"]), element("span", short_name(row["item"]), class_="second mono"))


def stock(picture: Picture) -> Html:
    """Return the table of items by source and state, with sums."""
    sources = page_facts.sources(picture.items)
    states = page_facts.states(picture.items)
    rows: list[Row] = [
        {"source": source, **{state: picture.items[source, state] for state in states}} for source in sources
    ]
    rows = [{**row, "all": sum(row[state] for state in states)} for row in rows]
    rows += [{"source": "all", **{name: sum(row[name] for row in rows) for name in (*states, "all")}}]
    columns = [TableColumn("Source", text("source", 40), number=False)]
    columns += [TableColumn(shorten(name, 30).capitalize(), number(name)) for name in (*states, "all")]
    return table("Items by source and state.", columns, rows)


def turns(picture: Picture) -> Html:
    """Return the table of what ended items or brought them back, the latest first."""
    columns = [
        TableColumn("Position", number("seq"), number=False),
        TableColumn("By", lambda row: shorten(row["kind"], 30).replace("_", " "), number=False),
        TableColumn("Effect", text("effect", 30), number=False),
        TableColumn("Items", lambda row: count(len(row["ids"]))),
        TableColumn("Which", _turned, number=False),
    ]
    caption = "What ended items, restored or admitted them, the latest first."
    return table(caption, columns, picture.turns, cut="the latest")


def _turned(row: Row) -> str:
    shown = [
        join(shorten(title), " ", element("span", short_name(id), class_="mono"))
        for id, title in zip(row["ids"][:TURN_ITEMS], row["titles"], strict=False)
    ]
    more = len(row["ids"]) - len(shown)
    lines = [element("span", each, class_="line") for each in shown]
    return join(*lines, element("span", f"and {more:,} more", class_="second") if more > 0 else "")


def measures(picture: Picture) -> Html:
    """Return the table of the shares by which the bank's health is told."""
    columns = [
        TableColumn("Measure", lambda row: row["words"], number=False),
        TableColumn("Share", lambda row: percent(row["rate"])),
        TableColumn("Count", lambda row: f"{row['part']:,} of {row['whole']:,}"),
        TableColumn("95% interval", _interval),
    ]
    rows: list[Row] = [
        {"words": each.words, "rate": each.share.rate, "part": each.share.part, "whole": each.share.whole}
        | {"interval": each.interval}
        for each in picture.measures
    ]
    caption = "The bank's health. A win rate has the interval in which it may be, seen from so few uses."
    return table(caption, columns, rows)


def _interval(row: Row) -> str:
    found = row["interval"]
    return "" if found is None else f"{percent(found[0])} to {percent(found[1])}"


def health(picture: Picture) -> Html:
    """Return the table of the bank after each change, latest first."""
    columns = [
        TableColumn("Position", number("seq"), number=False),
        TableColumn("Recorded", lambda row: moment(row["at"]), number=False),
        TableColumn("Active items", number("size")),
        TableColumn("Candidates", number("candidates")),
        TableColumn("Added", number("added")),
        TableColumn("Skipped", number("skipped")),
        TableColumn("New", lambda row: percent(row["novelty_rate"])),
        TableColumn("Duplicate", lambda row: percent(row["duplicate_rate"])),
        TableColumn("Win rate, last uses", lambda row: percent(row["win_rate_last"])),
        TableColumn("Win rate before", lambda row: percent(row["win_rate_before"])),
        TableColumn("Drift", lambda row: points(row["win_rate_drift"])),
        TableColumn("Uses", number("uses")),
    ]
    return table("The bank after each change, the latest first.", columns, picture.health[::-1], cut="the latest")
