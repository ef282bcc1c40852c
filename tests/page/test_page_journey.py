"""What the page is for, step by step: from a bad answer to the lesson and the verdict behind it, and to the day before.

By mouse and by keyboard, in an exported file and in a served page while an agent is at work.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunFinished, RunStarted
from rbank_es.limits import page_limits
from rbank_es.page.exported_page import stops_of
from tests.cli_runner import SAMPLE
from tests.page.served_bank import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TASK, LESSON = "Which lighthouse is taller, Saltmark or Gannet Point?", "Compare how tall lighthouses are"
ITEM, SOURCE_RUN = "bfd1fd5367a2", "lights-07-ec7d1906-1"
SLIDER = "document.querySelector('input[type=range]')"
POSITION = f"Number({SLIDER}.value)"


class Mouse:
    """A person with a mouse."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab

    def follow(self, words: str) -> None:
        """Follow the first link that begins with these words."""
        box = f"(e => (e.scrollIntoView({{block: 'center'}}), e.getClientRects()[0]))({link(words)})"
        self._click(*self.tab.eval(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({box})"))

    def slide(self, position: int) -> None:
        """Drag the slider there."""
        # The middle of the thumb, 16 pixels wide, stays that far from both ends.
        place = (
            f"(n => (r => [r.x + 8 + n / {SLIDER}.max * (r.width - 16), r.y + 12])({SLIDER}.getBoundingClientRect()))"
        )
        begin, end = (self.tab.eval(f"{place}({n})") for n in (self.tab.eval(POSITION), position))
        self._mouse("mousePressed", *begin)
        for part in (0.3, 0.7, 1):
            self._mouse("mouseMoved", *(a + (b - a) * part for a, b in zip(begin, end, strict=True)))
        self._mouse("mouseReleased", *end)

    def _click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y)

    def _mouse(self, kind: str, x: float, y: float) -> None:
        self.tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


class Keyboard:
    """A person with a keyboard alone."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab

    def follow(self, words: str) -> None:
        """Go to the first link that begins with these words, and follow it."""
        self._reach(f"document.activeElement === {link(words)}")
        self.tab.press("Enter", 13, text="\r")

    def slide(self, position: int) -> None:
        """Step the slider there."""
        self._reach(f"document.activeElement === {SLIDER}")
        # A page is a tenth of the log.
        while self.tab.eval(POSITION) - self.tab.eval(f"{SLIDER}.max / 10") > position:
            self.tab.press("PageDown", 34)
        while self.tab.eval(POSITION) > position:
            self.tab.press("ArrowLeft", 37)

    def _reach(self, there: str) -> None:
        for _ in range(200):
            if self.tab.eval(there):
                return
            self.tab.press("Tab", 9)
        raise AssertionError(f"Tab never came to where {there}")


def link(words: str) -> str:
    return f"[...document.querySelectorAll('a')].find(e => e.textContent.trim().startsWith({words!r}))"


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    shutil.copytree(SAMPLE, tmp_path / "sample")
    with Bank.open(tmp_path / "sample") as opened:
        yield opened


@pytest.mark.parametrize("hand", [Mouse, Keyboard])
def test_a_file_leads_from_a_bad_answer_to_the_day_before_it_was_learned(
    tab: Any, bank: Bank, sample_file: Path, hand: type[Mouse | Keyboard]
) -> None:
    tab.open(sample_file, width=1400)
    person = hand(tab)
    to_the_lesson(tab, person, lambda: None)
    # Of single runs and items the file has no past: the lists of the day before it has.
    day = bank.time_at(ITEM_BORN)[:10]
    person.slide(
        sum(bank.time_at(stop)[:10] < day for stop in stops_of(bank, bank.position, page_limits.PAGE_STOPS)) - 1
    )
    assert tab.shows("This file holds this as of its newest position alone")
    person.follow("Items")
    the_bank_is_without_it(tab, bank)
    assert (tab.complaints(), tab.requests()) == ([], [sample_file.as_uri()])


@pytest.mark.parametrize("hand", [Mouse, Keyboard])
def test_a_served_page_leads_there_while_an_agent_works(tab: Any, bank: Bank, hand: type[Mouse | Keyboard]) -> None:
    def work() -> None:
        run = f"now-{bank.position}"
        bank.append([RunStarted(run=run, task="A task of now"), RunFinished(run=run, outcome="submitted")])

    with served(bank) as found:
        tab.open(found.handler.address, width=1400)
        journey(tab, bank, hand(tab), work)
        assert tab.shows("new events since")
        hand(tab).follow("Runs")
        assert tab.shows("runs as of position")
        assert "A task of now" not in tab.eval("document.body.innerText")
        tab.eval("[...document.querySelectorAll('button')].find(e => e.textContent === 'Back to the newest').click()")
        assert tab.shows("A task of now")
        # Browsers log each 404: the item was asked for where it is not there yet.
        others = [each for each in tab.complaints() if "404" not in each["text"] or "/item?" not in each["url"]]
        assert others == []


def journey(tab: Any, bank: Bank, person: Mouse | Keyboard, work: Callable[[], None]) -> None:
    """Go the whole way; `work` goes on between the steps."""
    to_the_lesson(tab, person, work)
    # To the verdict that let it in, as it was then.
    work()
    person.follow("(the run as it was)")
    assert tab.shows("As of position 133") and tab.shows(SOURCE_RUN)
    verdict = tab.eval("document.querySelector('main .verdict').innerText")
    assert "success" in verdict and "for learning" in verdict and "failure" not in verdict
    tab.eval("history.back()")
    assert tab.shows("What became of it") and tab.shows("Newest: position")
    # To the day before it was learned.
    before, last = day_before(bank, ITEM_BORN)
    work()
    person.slide(last)
    assert tab.shows("Not at this position") and tab.shows(f", {before} ")
    person.follow("Items")
    the_bank_is_without_it(tab, bank)
    work()


def to_the_lesson(tab: Any, person: Mouse | Keyboard, work: Callable[[], None]) -> None:
    """From the failures to a bad answer, and to the lesson behind it."""
    assert tab.shows("Why runs failed") and tab.shows("Focal height is that of the light above the water")
    work()
    person.follow(TASK)
    assert tab.shows("Gannet Point, with 62 metres.") and tab.shows("failure")
    work()
    person.follow(LESSON)
    assert tab.shows(f"It was drawn from {SOURCE_RUN} as a success") and tab.shows("unsupported")


def the_bank_is_without_it(tab: Any, bank: Bank) -> None:
    assert tab.shows("Born at")
    shown = tab.eval("document.querySelector('main').innerText")
    at = int(tab.eval("document.documentElement.dataset.shown"))
    with bank.as_of(ITEM_BORN) as view:
        assert [row["id"] for row in view.items()][-1] == ITEM
    with bank.as_of(at) as view:
        assert f"{len(view.items())} items as of position {at}" in shown and LESSON not in shown


ITEM_BORN = 134


def day_before(bank: Bank, position: int) -> tuple[str, int]:
    """The last day with events before that of a position, and a position in its middle."""
    day = bank.time_at(position)[:10]
    earlier = [seq for seq in range(1, position) if bank.time_at(seq)[:10] < day]
    before = bank.time_at(earlier[-1])[:10]
    on_it = [seq for seq in earlier if bank.time_at(seq)[:10] == before]
    return before, on_it[len(on_it) // 2]
