"""Every page of the app for everybody: rules of accessibility, the keyboard alone, each width and theme, and paper."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.events import (
    Decision,
    LmCalled,
    MemoriesConsolidated,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.exchange import import_paths
from rbank_es.page import write_page
from rbank_es.testing import extraction
from rbank_es.testing.contract_base import event_id
from tests.attacks.hostile_text import TEXTS, steering
from tests.page.served_bank import served

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FAILED, OTHER = "lights-08-7d2405bc-1", "lights-28-a352b83f-1"
TABS = ("#/", "#/runs", "#/items", "#/review", "#/leakage", "#/health", "#/changes")
PAGES = (
    *TABS,
    f"#/run/{FAILED}",
    "#/item/bfd1fd5367a2",
    f"#/compare?a={FAILED}&b={OTHER}",
    "#/search?q=height",
    "#/?at=199",
    "#/item/bfd1fd5367a2?at=20",
    "#/nowhere",
)
WIDTHS = (390, 1400)
STOPS = "a, button:not(:disabled), input, select, summary, [tabindex='0']"
HOSTILE = (
    "</script><script>window.broken=1</script><img src=x onerror=window.broken=1>"
    "\u202egnp.exe\u0000\u2028\u0627\u0644\u0639\u0631\u0628\u064a\u0629" + " ".join(TEXTS.values()) + "W" * 2000
)
NAME = HOSTILE.replace("\0", "")[:250]
LONG = HOSTILE + "x" * 3_000_000


@pytest.fixture
def file(sample_file: Path) -> Path:
    return sample_file


def exported(bank: Path, folder: Path) -> Path:
    with Bank.open(bank) as opened, opened.as_of() as view:
        write_page(opened, view, folder / "page.html")
    return folder / "page.html"


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core, as the package for development brings it."""
    found = find_spec("axe_core_python")
    if found is None or not found.submodule_search_locations:
        reason = "axe-core-python is not installed"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text("utf-8")


def go(tab: Any, page: str) -> None:
    """Show a page, and draw it to the end."""
    tab.eval(f"if (location.hash !== {page!r}) document.documentElement.dataset.shown = ''; location.hash = {page!r}")
    wait_until(tab, "document.documentElement.dataset.shown")
    tab.eval("new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 60)), 0))")


def wait_until(tab: Any, holds: str) -> None:
    """Wait until an expression holds in the page."""
    tab.eval(f"new Promise(done => (function look() {{ ({holds}) ? done() : setTimeout(look, 20); }})())")


def unfold(tab: Any) -> None:
    tab.eval("document.querySelectorAll('main details').forEach(each => { each.open = true })")
    tab.eval("new Promise(done => setTimeout(done, 60))")


def overflow(tab: Any) -> int:
    """By how many pixels the page is wider than its window."""
    return int(tab.eval("document.documentElement.scrollWidth - innerWidth"))


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1400, True)])
def test_every_page_keeps_the_rules_of_accessibility(tab: Any, file: Path, axe: str, width: int, dark: bool) -> None:
    """All rules of axe-core, folds open: names, roles, contrast, headings in order, labels, headers of tables.

    And no page scrolls sideways, in either theme.
    """
    tab.open(file, width=width, dark=dark)
    tab.eval(f"{axe}; 0")
    broken = {}
    for page in PAGES:
        go(tab, page)
        unfold(tab)
        if found := violations(tab):
            broken[page] = found
        for theme in (not dark, dark):
            tab.scheme(dark=theme)
            assert overflow(tab) <= 0, (page, theme)
    assert broken == {}
    assert (tab.complaints(), tab.requests()) == ([], [file.as_uri()])


CONTROLS = {
    *("button", "link", "searchbox", "textbox", "combobox", "slider", "spinbutton", "checkbox"),
    *("DisclosureTriangle", "image", "region", "navigation", "search", "table", "option"),
}
"""Roles that a screen reader announces by their names."""


def accessible(tab: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """What a screen reader is told of the page in order: role, name and properties of each node."""
    nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
    return [
        (
            str(node.get("role", {}).get("value")),
            str(node.get("name", {}).get("value", "")).strip(),
            {each["name"]: each["value"].get("value") for each in node.get("properties", ())},
        )
        for node in nodes
        if not node["ignored"]
    ]


def test_a_screen_reader_hears_a_name_for_every_control_and_headings_in_order(tab: Any, file: Path) -> None:
    tab.open(file)
    for page in PAGES:
        go(tab, page)
        unfold(tab)
        said = accessible(tab)
        assert [role for role, name, _ in said if role in CONTROLS and not name] == [], page
        levels = [facts["level"] for role, _, facts in said if role == "heading"]
        assert levels.count(1) == 1 == levels[0] and 2 in levels, page
        assert all(after <= before + 1 for before, after in pairwise(levels)), (page, levels)
        copies = [name for role, name, _ in said if role == "button" and name.startswith("Copy")]
        assert len(set(copies)) == len(copies) == tab.eval("document.querySelectorAll('.command').length"), page
        assert any(role == "status" for role, _, _ in said), page


def test_a_change_of_time_is_announced_once(tab: Any, file: Path) -> None:
    """By the line under the slider; by the slider's own value while that has the focus."""
    tab.open(file)
    line = "document.querySelector('.said [role=status]')"
    tab.eval("document.querySelector('.time button').click()")
    go(tab, tab.eval("location.hash"))
    assert tab.eval(f"{line}.ariaLive") == "polite" and "As of position" in tab.eval(f"{line}.textContent")
    tab.eval("document.querySelector('input[type=range]').focus()")
    tab.send("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    go(tab, tab.eval("location.hash"))
    said = tab.eval("document.querySelector('input[type=range]').ariaValueText")
    assert tab.eval(f"{line}.ariaLive") == "off" and said.startswith("position ")


def violations(tab: Any) -> Any:
    """The rules that the page breaks, each with the first element that does."""
    told = "({violations}) => violations.map(({id, nodes}) => [id, nodes[0].html.slice(0, 200)])"
    return tab.eval(f"axe.run(document, {{resultTypes: ['violations']}}).then({told})")


# What one press of Tab came to: which element, whether it is in sight, and whether something else lies over it.
WHERE = """(e => {
  window.stops = window.stops ?? 0;
  e.dataset.stop ??= String(window.stops += 1);
  const box = (e.getClientRects()[0] ?? e.getBoundingClientRect());
  const x = (Math.max(0, box.left) + Math.min(innerWidth, box.right)) / 2;
  const y = (Math.max(0, box.top) + Math.min(innerHeight, box.bottom)) / 2;
  const top = document.elementFromPoint(x, y);
  const isSeen = top !== null && (e.contains(top) || top.contains(e) || top.closest('label')?.contains(e));
  return [e.dataset.stop, Boolean(isSeen), `${e.tagName} ${e.textContent.slice(0, 40)}`];
})(document.activeElement)"""


@pytest.mark.parametrize("width", WIDTHS)
def test_the_keyboard_reaches_everything_and_shows_where_it_is(tab: Any, file: Path, width: int) -> None:
    """On every page each link, button, field and scrolling text is a stop of Tab, in sight and not covered."""
    tab.open(file, width=width)
    for page in PAGES:
        go(tab, page)
        # The first 40 stops tell; lists go on in the same way.
        visible = "filter(e => e.checkVisibility({visibilityProperty: true})).length"
        wanted = tab.eval(f'[...document.querySelectorAll("{STOPS}")].{visible}')
        tab.eval("document.querySelector('.skip').focus()")
        stops = [tab.eval(WHERE), *(press_tab(tab) for _ in range(min(wanted, 40) - 1))]
        hidden = [what for _, isSeen, what in stops if not isSeen]
        assert (hidden, len({stop for stop, *_ in stops})) == ([], len(stops)), page


def press_tab(tab: Any) -> Any:
    tab.press("Tab", 9)
    return tab.eval(WHERE)


def test_a_list_is_sorted_by_keyboard_in_a_narrow_window(tab: Any, file: Path) -> None:
    tab.open(file, width=390)
    go(tab, "#/runs")
    tab.eval("[...document.querySelectorAll('thead button')].find(e => e.innerText.startsWith('Tokens')).focus()")
    tab.send("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    tab.settle()
    assert tab.eval("location.hash") == "#/runs?sort=-tokens"
    assert tab.eval("document.activeElement.innerText").startswith("Tokens ▼")


def test_a_page_on_paper_is_whole_and_without_controls(tab: Any, file: Path) -> None:
    tab.open(file, width=720, dark=False)
    tab.send("Emulation.setEmulatedMedia", media="print")
    shown = "(all => all.filter(e => e.checkVisibility()).length)([...document.querySelectorAll({!r})])"
    for page in PAGES:
        go(tab, page)
        assert overflow(tab) <= 0, page
        assert tab.eval(shown.format("nav, input[type=range], select, .find, .pager")) == 0, page
        assert tab.eval(shown.format("h1")) == 1 and "osition" in tab.eval("document.body.innerText")
    go(tab, "#/runs")
    assert "Tokens" in tab.eval("document.querySelector('thead').innerText")
    hidden = "filter(e => e.scrollHeight > e.clientHeight + 2).length"
    cut = f"[...document.querySelectorAll('main pre, main .clamp')].{hidden}"
    assert tab.eval(cut) == 0
    go(tab, f"#/run/{FAILED}")
    assert tab.eval(cut) == 0
    assert len(tab.send("Page.printToPDF")["data"]) > 10_000
    tab.send("Emulation.setEmulatedMedia", media="")


def hostile_events() -> Iterator[Any]:
    """A failure with steps, one without a step, and one that never ended, each text of them hostile."""
    for run in ("run </script><img src=x>", "\u0627\u0644\u0645\u0646\u0627\u0631\u0629 \u202e 2"):
        yield RunStarted(run=run, task=HOSTILE, task_id=NAME, model=NAME, ontology=NAME, executor=NAME)
        if run.startswith("run"):
            yield LmCalled(run=run, role="agent", model=NAME, request=HOSTILE, response=HOSTILE)
            yield ToolCalled(run=run, tool=NAME, chars=5000, arguments=HOSTILE, result=LONG, error=HOSTILE)
            yield StepTaken(run=run, index=1, reasoning=HOSTILE, code=HOSTILE, output=HOSTILE, error_code=NAME)
        yield RunFinished(run=run, outcome="submitted", answer=HOSTILE, sparql=HOSTILE)
        for purpose, verdict in (("learning", "failure"), ("scoring", "success")):
            yield RunJudged(
                run=run, purpose=purpose, verdict=verdict, judge=NAME, judge_version="1", kind="lm", reason=HOSTILE
            )
    yield RunStarted(run="open", task=HOSTILE)
    item = Item.make(HOSTILE, HOSTILE, desc=HOSTILE, tags=(HOSTILE,))
    yield msgspec.structs.replace(extraction(item), id=event_id(1))
    added = Decision(candidate=0, action="add", item=item.id)
    yield MemoriesConsolidated(extraction=event_id(1), policy="append-2", decisions=(added,))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    with Bank.create(tmp_path_factory.mktemp("hostile") / "bank", purpose=HOSTILE) as bank:
        bank.append(list(hostile_events()))
        yield bank


@pytest.fixture(scope="module")
def hostile_file(hostile: Bank, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(Path(hostile.place), tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_words_break_no_exported_page(tab: Any, hostile: Bank, hostile_file: Path, width: int) -> None:
    tab.open(hostile_file, width=width)
    see_nothing_broken(tab, hostile)
    assert tab.requests() == [hostile_file.as_uri()]


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_words_break_no_served_page(tab: Any, hostile: Bank, width: int) -> None:
    with served(hostile) as found:
        tab.open(found.handler.address, width=width)
        see_nothing_broken(tab, hostile)
        assert {urlsplit(url)[:2] for url in tab.requests()} == {("http", f"127.0.0.1:{found.port}")}


def see_nothing_broken(tab: Any, bank: Bank) -> None:
    """Scripts, markup, hidden and steering characters, 2,000 letters in one word, 3 million: shown and wrapped."""
    with bank.as_of() as view:
        runs, (item,) = view.rows("runs"), view.rows("items")
    addresses = "[...document.querySelectorAll('main a')].map(e => e.getAttribute('href'))"
    go(tab, "#/runs")
    details = [each for each in tab.eval(addresses) if each.startswith("#/run/")]
    assert len(details) == len(runs) == 3
    quoted = [each.removeprefix("#/run/") for each in details]
    pages = (*TABS, *details, f"#/item/{item['id']}", f"#/compare?a={quoted[1]}&b={quoted[2]}", "#/search?q=gnp.exe")
    grew = False
    for page in pages:
        go(tab, page)
        unfold(tab)
        assert overflow(tab) <= 0, page
        said = tab.eval("document.body.innerText + document.title")
        grew = grew or grows(tab)
        # Tabs stand between cells; joiners are letters, and stay.
        assert steering(said.translate(dict.fromkeys(map(ord, "\t\u200c\u200d")))) == [], page
        assert "No such page" not in said and "Not found" not in said, page
        assert tab.eval("document.querySelectorAll('img, iframe, a:not([href^=\"#\"])').length") == 0
    assert grew and tab.eval("window.broken ?? 0") == 0
    assert tab.complaints() == []


def grows(tab: Any) -> bool:
    """Press the button of a text that is cut, if there is one, and see that the text grows."""
    more = "[...document.querySelectorAll('main button')].find(e => e.innerText.startsWith('Show more of 3,00'))"
    if not tab.eval(f"Boolean({more})"):
        return False
    tab.eval(f"{more}.click()")
    wait_until(tab, "Math.max(...[...document.querySelectorAll('pre')].map(e => e.textContent.length)) > 60_000")
    return True


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_bank_with_next_to_nothing_has_every_page(tab: Any, tmp_path: Path, axe: str, events: int) -> None:
    """Empty, one run that began, and that run ended without a step: no page fails, none says zero for unknown."""
    with Bank.create(tmp_path / "bank") as bank:
        for event in (RunStarted(run="r", task="a task"), RunFinished(run="r", outcome="submitted"))[:events]:
            bank.append([event])
    path = exported(tmp_path / "bank", tmp_path)
    tab.open(path, width=390)
    tab.eval(f"{axe}; 0")
    for page in (*TABS, *(["#/run/r", "#/compare?a=r&b=r"] if events else [])):
        go(tab, page)
        assert overflow(tab) <= 0, page
        assert tab.eval("document.querySelectorAll('main h2').length") >= 1, page
        assert not {"NaN", "undefined", "null"} & set(tab.eval("document.body.innerText").split()), page
        assert violations(tab) == [], page
    go(tab, "#/")
    assert events or "rbank-es import" in tab.eval("document.body.innerText")
    assert (tab.complaints(), tab.requests()) == ([], [path.as_uri()])


def test_an_imported_run_without_steps_says_what_is_not_recorded(tab: Any, tmp_path: Path) -> None:
    lines = (("run_start", {"task": "Count the buoys"}), ("run_complete", {"converged": True, "answer_preview": "7"}))
    written = [
        json.dumps({"timestamp": "2026-05-04T09:00:00.000250", "event_type": kind, "data": data})
        for kind, data in lines
    ]
    (tmp_path / "night.jsonl").write_text("\n".join(written) + "\n", "utf-8")
    with Bank.create(tmp_path / "bank") as bank:
        import_paths(bank, [tmp_path / "night.jsonl"])
    path = exported(tmp_path / "bank", tmp_path)
    tab.open(path, width=390)
    go(tab, "#/runs")
    assert "imported" in tab.eval("document.querySelector('main tbody').innerText")
    tab.eval("document.querySelector('main tbody a').click()")
    tab.settle()
    said = tab.eval("document.querySelector('main').innerText")
    assert "No steps were recorded." in said and "No context was recorded." in said
    assert "model calls not recorded" in said and "\u2013 tokens" in said
    assert (tab.complaints(), tab.requests()) == ([], [path.as_uri()])
