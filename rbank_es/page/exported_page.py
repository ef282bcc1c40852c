"""The exported page: one HTML file with the app and the answers that a served bank would give it.

The file holds the answers about the bank, its lists and its counts as of each of its stops, and those about single runs
and items, what to look at and what changed as of the newest position. They stand in parts, each unpacked when one of
its answers is asked for: the newest position, all earlier stops, and blocks of runs and of items.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from rbank_es import __version__
from rbank_es.answers.about import NOTABLE, STOPS
from rbank_es.bank import Bank
from rbank_es.errors import CannotWrite
from rbank_es.events import type_of
from rbank_es.events.readable_text import count
from rbank_es.limits import page_limits
from rbank_es.page.app_script import app_page
from rbank_es.page.escaped_html import Html, element, minute, shorten
from rbank_es.page.packed_data import ValuePool, compact_json, gzipped
from rbank_es.page.page_answer import PageAnswers
from rbank_es.projections.view import View
from rbank_es.system.files import write_replacing
from rbank_es.system.progress import OnProgress, reported

Given = dict[str, str]
Question = tuple[str, Given]

LISTS: tuple[Question, ...] = (
    ("runs", {}), ("items", {}), ("leakage", {}),
)  # fmt: skip
"""The lists that the file holds as of each stop: the browser filters, sorts and pages them."""

COUNTS: tuple[Question, ...] = (("about", {}), ("overview", {}), ("health", {"course": "200"}))
"""What else it holds as of each stop."""

NEWEST: tuple[Question, ...] = (("review", {}), ("doubts", {}))
"""What it holds as of the newest position alone, beside single runs and items and what changed since each stop."""


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an exported page: `runs` are ids of runs that go in whole beside the newest ones.

    `argument` is the bank as the page's commands name it; empty: by its name. `stops` are so many earlier positions at
    most.
    """

    runs: tuple[str, ...] = ()
    prompts: bool = True
    argument: str = ""
    stops: int = page_limits.PAGE_STOPS


class WrittenPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page on disk: its absolute path, its size in bytes, its runs, and those of them that are in it whole."""

    path: str
    size_bytes: int
    runs: int
    whole_runs: int


def write_page(
    bank: Bank,
    view: View,
    path: str | os.PathLike[str],
    options: ExportOptions | None = None,
    progress: OnProgress | None = None,
) -> WrittenPage:
    """Write the page of a bank as of a view to `path`, whole or not at all; a file that is there is replaced.

    `progress` is called with the answers that are made. Raises `CannotWrite` where the system refuses or `path` is no
    file.
    """
    data = page_data(bank, view, options or ExportOptions(), progress)
    try:
        goal, size_bytes = write_replacing(path, [exported_page(data)], follow=True)
    except OSError as refused:
        raise CannotWrite(str(path), refused) from refused
    held = data.head["in_file"]
    return WrittenPage(
        path=str(goal.absolute()), size_bytes=size_bytes, runs=held["runs"], whole_runs=held["whole_runs"]
    )


class PageData(msgspec.Struct, frozen=True):
    """The content of a page: what is unpacked at once, the other parts, the answer about the bank, and the newest runs
    for where no script runs."""

    head: dict[str, Any]
    parts: list[dict[str, Any]]
    bank: dict[str, Any]
    newest: list[dict[str, Any]]


def exported_page(data: PageData) -> bytes:
    """Return the page of the data as one HTML document."""
    packed = {"packed": gzipped(data.head), "parts": [gzipped(part) for part in data.parts]}
    page = app_page(data.bank["bank"], _summary(data), data=compact_json(packed))
    return page.encode("ascii", "xmlcharrefreplace")


def page_data(bank: Bank, view: View, options: ExportOptions, progress: OnProgress | None = None) -> PageData:
    """Return all that the page holds about a bank as of a view; `progress` is called after each stop and block.

    The first part is of the earlier stops, the others are blocks, whose runs and items the head names.
    """
    asking = Asking(bank, view.position, options)
    started = [str(run) for (run,) in view.pick("runs", ("run",), sort="started_seq")]
    runs, items = whole_runs(started, _failed(view), options.runs), held_items(view)
    stops = stops_of(bank, asking.head, options.stops)
    blocks = [*_blocks("run", runs), *_blocks("item", items)]
    jobs: list[tuple[int, int | None, Sequence[Question]]] = [
        (0, asking.head, NEWEST),
        *(
            (1, None if stop == asking.head else stop, [("difference", {"since": str(stop), "states": "true"})])
            for stop in stops
        ),
        *((number, None, block) for number, block in enumerate(blocks, 2)),
    ]
    parts: list[HeldAnswers] = []
    for number, stop, questions in reported(jobs, progress):
        if number == len(parts):
            parts.append(HeldAnswers(parts[0] if parts else None))
        if stop is not None:
            asking.hold_stop(parts[number], stop)
        asking.hold_all(parts[number], questions)
    head = {
        **{"v": 2, "release": __version__, "stops": stops, "times": [bank.time_at(stop) for stop in stops]},
        "in_file": {
            **{"runs": len(started), "whole_runs": len(runs)},
            **{"items": len(view.pick("items", ("id",))), "whole_items": len(items), "prompts": options.prompts},
        },
        "blocks": [[[name, given[name]] for name, given in block] for block in blocks],
        **parts[0].packed(),
    }
    newest = asking.ask("runs", sort="-started_seq", limit=str(page_limits.PAGE_SUMMARY_RUNS))
    return PageData(head, [part.packed() for part in parts[1:]], asking.ask("about"), newest["runs"])


def stops_of(bank: Bank, head: int, most: int) -> list[int]:
    """Return the positions as of which the file has lists and counts: 0, the head, and at most so many in between.

    They are those of notable events, of ends of runs, of verdicts and of decisions: all of them, or some that are
    spread evenly, notable ones first.
    """
    found = [(event.seq, type_of(event) in NOTABLE) for event in bank.events(point=head, types=STOPS)]
    others = [seq for seq, is_notable in found if not is_notable]
    notable = _spread([seq for seq, is_notable in found if is_notable], max(most // 2, most - len(others)))
    return sorted({0, head, *notable, *_spread(others, most - len(notable))})


def _spread(positions: Sequence[int], most: int) -> list[int]:
    """Return at most so many positions, evenly spread, the last one included."""
    number = min(len(positions), most)
    return [positions[(place + 1) * len(positions) // number - 1] for place in range(number)]


def whole_runs(runs: Sequence[str], failed: frozenset[str], named: Sequence[str]) -> list[str]:
    """Return the runs that go into the file with all their events, newest first: those named, then the newest, with
    half of the places kept for failures.
    """
    chosen = set(named).intersection(runs)
    newest = [run for run in reversed(runs) if run not in chosen]
    half = page_limits.PAGE_WHOLE_RUNS // 2
    first = newest[:half]
    failures = [run for run in newest[half:] if run in failed][: page_limits.PAGE_WHOLE_RUNS - len(first)]
    kept = {*first, *failures}
    rest = [run for run in newest if run not in kept][: page_limits.PAGE_WHOLE_RUNS - len(kept)]
    wanted = {*chosen, *kept, *rest}
    return [run for run in reversed(runs) if run in wanted]


def _failed(view: View) -> frozenset[str]:
    """Return the runs that were judged a failure or ended in an error."""
    rows = view.pick("runs", ("run", "verdict", "outcome"))
    return frozenset(str(run) for run, verdict, outcome in rows if verdict == "failure" or outcome == "failed")


def held_items(view: View) -> list[str]:
    """Return the items that go into the file with their history: the newest, then the most used of the others."""
    newest = view.pick("items", ("id", "uses"), sort="-born_seq")
    used = sorted(newest[page_limits.PAGE_NEWEST_ITEMS :], key=lambda row: -row[1])[: page_limits.PAGE_USED_ITEMS]
    return [str(id) for id, _ in [*newest[: page_limits.PAGE_NEWEST_ITEMS], *used]]


def _blocks(name: str, ids: Sequence[str]) -> Iterator[list[Question]]:
    """Yield the questions about some runs or items, in blocks that are unpacked at once."""
    for begin in range(0, len(ids), page_limits.PAGE_BLOCK_RUNS):
        yield [_question(name, id) for id in ids[begin : begin + page_limits.PAGE_BLOCK_RUNS]]


def _question(name: str, id: str) -> Question:
    given = {name: id, "limit": str(page_limits.LIST_ROWS_MOST)}
    # All that a page shows of an item is in its answer without the events about it, of a run without sentences.
    return (name, given | ({"sentences": "false"} if name == "run" else {"history": "false"}))


# ---------------------------------------------------------------- answers


class HeldAnswers:
    """The answers of a part of the file, beside their questions; what stands in the part `before`, which must be
    complete, is shared with it."""

    def __init__(self, before: HeldAnswers | None = None) -> None:
        self._pool: ValuePool = ValuePool(None if before is None else before._pool)
        self._held: dict[str, tuple[list[int], list[int]]] = {}

    def hold(self, name: str, given: Given, found: dict[str, Any]) -> None:
        """Keep an answer."""
        for numbers, each in zip(self._held.setdefault(name, ([], [])), (given, found), strict=True):
            numbers.append(self._pool.number(each))

    def packed(self) -> dict[str, Any]:
        """Return the part as the browser reads it: by name the numbers of the questions, and of their answers."""
        return {"answers": self._held, **self._pool.packed()}


class Asking:
    """What is asked of a bank as of a head, and put into parts of a file."""

    def __init__(self, bank: Bank, head: int, options: ExportOptions) -> None:
        self.head = head
        self._answers = PageAnswers(bank, "file", prompts=options.prompts, argument=options.argument, head=head)

    def ask(self, name: str, **given: str) -> dict[str, Any]:
        """Return an answer, as of the head where no other position is given, as it would be served."""
        found = self._answers.ask(name, {"at": str(self.head), **given})
        return dict(msgspec.to_builtins(found, str_keys=True))

    def hold_stop(self, part: HeldAnswers, stop: int) -> None:
        """Keep the lists and counts as of a stop; those of the head are found without a position."""
        is_head = stop == self.head
        at = {} if is_head else {"at": str(stop)}
        for name, given in COUNTS:
            part.hold(name, given | at, self.ask(name, **given, **at))
        most = page_limits.PAGE_LISTED_ROWS if is_head else page_limits.PAGE_EARLIER_ROWS
        for name, given in LISTS:
            part.hold(name, given | at, self._listed(name, given | at, most))

    def _listed(self, name: str, given: Given, most: int) -> dict[str, Any]:
        """Return a list with its first rows, at most so many; `next` is None if these are all."""
        limit = str(page_limits.LIST_ROWS_MOST)
        found, rows = self.ask(name, **given, limit=limit), self._answers.rows_name(name)
        while found["next"] is not None and len(found[rows]) < most:
            page = self.ask(name, **given, limit=limit, after=found["next"])
            found |= {rows: [*found[rows], *page[rows]], "next": page["next"]}
        return found

    def hold_all(self, part: HeldAnswers, questions: Iterable[Question]) -> None:
        """Keep the answers to questions, the following pages of each, and the whole of each text that is cut there."""
        for name, asked in questions:
            given: Given | None = asked
            while given is not None:
                found = self.ask(name, **given)
                part.hold(name, given, found)
                for text in dict.fromkeys(cut_texts(found)):
                    self._hold_text(part, *text)
                following = found.get("events_next_seq")
                given = given | {"after": str(following)} if following is not None else None

    def _hold_text(self, part: HeldAnswers, seq: int, path: str) -> None:
        offset: int | None = 0
        while offset is not None:
            given = {"event": str(seq), "path": path, "offset": str(offset)}
            found = self.ask("text", **given)
            part.hold("text", given, found)
            offset = found["block"]["next_offset"]


def cut_texts(value: Any, seq: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the position and the path of each text of events of which an answer has the beginning."""
    if isinstance(value, dict):
        seq = value.get("seq", seq)
        if value.get("next_offset") is not None:
            yield seq, value["path"]
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else ():
        yield from cut_texts(each, seq)


# ---------------------------------------------------------------- without a script


def _summary(data: PageData) -> Html:
    """Return the text of the page before, or without, its script."""
    bank = data.bank
    forked = f" Forked from {bank['forked_from']}." if bank["forked_from"] else ""
    said = f"As of position {bank['position']:,}: {count(data.head['in_file']['runs'], 'run')}.{forked}"
    without = "Without JavaScript this page shows the newest runs and no more."
    return element(
        "main",
        element("h1", shorten(bank["bank"])),
        element("p", shorten(bank["purpose"] or "", page_limits.DASHBOARD_PURPOSE_CHARS)),
        element("p", said),
        element("noscript", element("p", without, class_="note")),
        _runs_table(data.newest) if data.newest else element("p", "This bank holds no runs yet."),
    )


def _runs_table(rows: Sequence[dict[str, Any]]) -> Html:
    head = element("tr", *(element("th", name, scope="col") for name in ("Task", "Judged", "Score", "Began (UTC)")))
    cells = (
        (shorten(row["task"] or row["run"]), row["verdict"] or _ended(row), row["score"] or "–", _began(row))
        for row in rows
    )
    body = (element("tr", *(element("td", cell) for cell in row)) for row in cells)
    caption = element("caption", f"The newest {count(len(rows), 'run')}")
    return element("div", element("table", caption, element("thead", head), element("tbody", *body)), class_="scroll")


def _ended(row: dict[str, Any]) -> str:
    return "ended in an error" if row["outcome"] == "failed" else "–"


def _began(row: dict[str, Any]) -> str:
    imported = f", imported on {row['imported_at'][:10]}" if row["imported_at"] else ""
    return minute(row["started_at"]) + imported
