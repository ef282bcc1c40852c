"""The exported page in headless Chromium: what it shows, that it asks for nothing, and that folds and focus stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.events import RunFinished, RunJudged, RunStarted, ToolCalled
from rbank_es.limits import page_limits
from rbank_es.page import write_page
from rbank_es.page.page_answer import PageAnswers
from tests.cli_runner import SAMPLE
from tests.page.served_bank import served

pytestmark = pytest.mark.browser


FAILED = "lights-08-7d2405bc-1"


@pytest.fixture
def file(sample_file: Path) -> Path:
    return sample_file


def go(tab: Any, hash: str) -> None:
    tab.eval(f"location.hash = {hash!r}")
    tab.settle()


def text(tab: Any, selector: str = "main") -> str:
    return str(tab.eval(f"document.querySelector({selector!r}).innerText"))


def slide(tab: Any, place: int) -> None:
    """Put the slider somewhere, as a person does: at a position of a served page, at a stop of a file."""
    tab.eval(
        f"(slider => {{ slider.value = {place}; slider.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
        "(document.querySelector('input[type=range]'))"
    )
    tab.settle()


@pytest.mark.slow
def test_the_page_opens_from_disk_without_a_complaint_and_without_a_request(tab: Any, file: Path) -> None:
    """The one thing that is asked for is the file itself."""
    tab.open(file)
    assert "21 of 29" in " ".join(text(tab).split()) and "Which lighthouse is the tallest building?" in text(tab)
    for page in ("#/runs", "#/health"):
        go(tab, page)
    assert (tab.complaints(), tab.requests()) == ([], [file.as_uri()])


@pytest.mark.slow
def test_a_failed_run_leads_to_the_item_that_misled_it_and_to_the_verdict_that_let_it_in(tab: Any, file: Path) -> None:
    """And in the lists of an earlier day, the bank stands there without it; a file has no past of the item itself."""
    tab.open(file)
    go(tab, f"#/run/{FAILED}")
    assert "Focal height is that of the light above the water" in text(tab) and "unsupported" in text(tab)
    tab.eval("[...document.querySelectorAll('main a')].find(a => a.innerText.startsWith('Compare how tall')).click()")
    tab.settle()
    assert "It was drawn from lights-07" in text(tab) and "verdict is failure" in text(tab)
    assert tab.eval("document.activeElement.id") == "main"
    slide(tab, 3)
    said = text(tab)
    assert "Not in this file" in said and "See it at the newest position" in said and "rbank-es serve" in said
    go(tab, f"#/items?at={tab.eval('document.documentElement.dataset.shown')}")
    assert "items as of position" in text(tab) and "Compare how tall" not in text(tab)
    tab.eval("history.go(-2)")
    tab.settle()
    assert tab.eval("location.hash") == f"#/run/{FAILED}" and "Gannet Point" in text(tab, "h2")


@pytest.mark.slow
def test_what_changed_and_any_page_take_a_date_as_people_write_it(tab: Any) -> None:
    """In the field, in `from` and in `at`; the first verdicts of new runs are no changes."""
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        tab.open(found.handler.address)
        go(tab, "#/changes?from=2026-03-09")
        assert tab.shows("Since") and tab.shows("position 136, 2026-03-0")
        typed = "field.value = '2026-03-20T12:00'; field.onchange({target: field})"
        tab.eval(f"(field => {{ {typed} }})(document.querySelector('#from'))")
        assert tab.shows("judged for the first time: 13 success, 2 failure")
        assert tab.eval("location.hash").startswith("#/changes?from=2026-03-20T12")
        go(tab, "#/changes?from=0")
        assert tab.shows("31 runs began") and "not there → ● success" not in text(tab)
        go(tab, "#/changes?from=monday")
        assert tab.shows("a time such as 2026-01-31T12:00")
        assert tab.eval("document.querySelector('#from').value") == "monday"
        go(tab, "#/runs?at=2026-03-09")
        assert tab.shows("As of position 136") and tab.eval("location.hash") == "#/runs?at=136"
        go(tab, "#/runs?at=nosuch")
        assert tab.shows("no position, event or run of that name in sample")
        complaints = [each for each in tab.complaints() if "400" not in str(each)]
        assert complaints == []


@pytest.mark.slow
def test_a_file_says_of_which_position_it_shows_what_lies_between_two_of_its_stops(tab: Any, file: Path) -> None:
    """What it shows is what a served bank answers as of that stop."""
    tab.open(file)
    with Bank.open(SAMPLE) as bank:
        for point in ("2026-03-09", "190", "HEAD~52"):
            go(tab, f"#/runs?at={point}")
            assert f"what is shown for {point} is as of the last of them before it" in text(tab)
            at = tab.eval("document.documentElement.dataset.shown")
            rows = PageAnswers(bank, "file").ask("runs", {"at": at, "sort": "-started_seq", "limit": "100"}).rows
            assert int(at) <= bank.resolve(point) and f"{len(rows)} runs as of position {at}, " in text(tab)
            shown = tab.eval("[...document.querySelectorAll('main tbody th a')].map(e => e.hash.split('?')[0])")
            assert shown == [f"#/run/{row.run}" for row in rows]
            go(tab, f"#/changes?from={point}")
            changed = bank.difference(at)
            assert f"position {at}, " in text(tab) and f"{changed.counts.items_added} items added" in text(tab)
        for point in ("nosuch", "9999"):
            go(tab, f"#/runs?at={point}")
            assert "there is no such point in this file" in text(tab)
        go(tab, "#/runs?at=HEAD")
        assert "Every position has" not in text(tab) and tab.complaints() == []


def test_the_slider_of_a_file_goes_from_stop_to_stop_and_shows_dates(tab: Any, file: Path) -> None:
    tab.open(file)
    places = int(tab.eval("document.querySelector('input[type=range]').max"))
    assert places == page_limits.PAGE_STOPS + 1
    seen = []
    for place in (0, 1, 10, places):
        slide(tab, place)
        seen.append(int(tab.eval("document.documentElement.dataset.shown")))
        said = text(tab, ".said")
        assert (
            f"position {seen[-1]}" in said and ("UTC" in said or place == 0) and "Every position has" not in text(tab)
        )
    assert seen == sorted(seen) and (seen[0], seen[-1]) == (0, 609)
    for label, place in (("To the change before", places - 1), ("To the next change", places)):
        tab.eval(f"document.querySelector('[aria-label=\"{label}\"]').click()")
        tab.settle()
        assert int(tab.eval("document.querySelector('input[type=range]').value")) == place
    assert tab.complaints() == []


@pytest.mark.slow
def test_an_item_that_was_never_used_and_one_that_is_kept_back_are_told_in_whole_sentences(tab: Any) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        unused = next(row for row in found.ask("items")["items"] if not row["wins"] + row["losses"])
        tab.open(f"{found.handler.address}#/item/{unused['id']}")
        assert tab.shows("not used in a decided run; ") and "run wins of" not in text(tab)
        go(tab, "#/search?q=light tower ship")
        assert tab.shows("Kept back")
        heads = tab.eval("[...document.querySelectorAll('thead')].map(e => e.innerText)")
        assert ["Rank" in head for head in heads] == [True, False]


@pytest.mark.slow
def test_the_review_tells_what_a_pending_item_rests_on(tab: Any) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        [waiting] = bank.review().pending
        tab.open(f"{found.handler.address}#/review")
        assert tab.shows(f"rbank-es admit sample {waiting.id}")
        assert f"drawn from {waiting.grounds[0].runs[0].task} ● success" in " ".join(text(tab).split())


ERROR = "ConnectionError: the model at port 8001 refused\n  File agent.py, line 3"


@pytest.mark.slow
@pytest.mark.parametrize("judged", [None, "failure"])
def test_an_error_that_ended_a_run_is_the_first_thing_said_of_it(tab: Any, tmp_path: Path, judged: Any) -> None:
    """On its page, in the list and on the overview, whether or not somebody judged it; its calls stand in it."""
    with Bank.create(tmp_path / "b") as bank:
        for n in range(3):
            calls = [ToolCalled(run=f"r{n}", tool=tool, chars=5, result="rows") for tool in ("g_first", "g_second")]
            ended = RunFinished(run=f"r{n}", outcome="failed", error_code="unreachable", error=ERROR)
            bank.append([RunStarted(run=f"r{n}", task=f"Task {n}"), *calls, ended])
            if judged:
                verdict = {"verdict": judged, "judge": "c", "judge_version": "1", "kind": "check", "reason": "nothing"}
                bank.append(RunJudged(run=f"r{n}", purpose="learning", **verdict))
        with bank.as_of() as view:
            write_page(bank, view, tmp_path / "page.html")
    tab.open(tmp_path / "page.html", width=390)
    said = text(tab)
    assert "3 runs ended in an error: unreachable: ConnectionError" in said and "No run is judged" not in said
    tab.eval("[...document.querySelectorAll('main a')].find(a => a.innerText === 'Task 2').click()")
    tab.settle()
    said = text(tab)
    wanted = ("Task 2", "✕ It ended in an error: unreachable", ERROR, "Answer", "What it called", "g_first", "g_second")
    assert [said.count(words) for words in wanted] == [1] * len(wanted), said
    assert sorted(wanted, key=said.index) == list(wanted) and "Judging and extracting" not in said
    assert ("Nobody has judged it" in said) == (judged is None)
    go(tab, "#/runs?outcome=failed")
    assert text(tab).count("✕ unreachable: ConnectionError") == 3
    go(tab, "#/review")
    assert "Errors that ended runs (1)" in text(tab) and "rbank-es show b r2" in text(tab)
    assert tab.complaints() == []


@pytest.mark.slow
def test_folds_focus_selection_and_scroll_stay_while_time_moves(tab: Any) -> None:
    with Bank.open(SAMPLE) as bank, served(bank) as found:
        tab.open(found.handler.address)
        go(tab, f"#/run/{FAILED}?at=160")
        assert tab.shows("As of position 160")
        time_moves(tab)


def time_moves(tab: Any) -> None:
    tab.eval("document.querySelectorAll('main details')[3].open = true")
    tab.settle()
    opened = "[...document.querySelectorAll('main details')].map(each => each.open)"
    before = tab.eval(opened)
    tab.eval("document.querySelector('input[type=range]').focus(); scrollTo(0, 120)")
    kept = "[document.activeElement.type, scrollY]"
    position, there = tab.eval("document.documentElement.dataset.shown"), tab.eval(kept)
    tab.press("ArrowRight", 39)
    tab.settle()
    assert tab.eval("document.documentElement.dataset.shown") == str(int(position) + 1)
    assert tab.eval(opened) == before and any(before)
    assert tab.eval(kept) == there and tab.eval("location.hash").endswith("at=161")


@pytest.mark.slow
def test_words_filter_while_they_are_typed(tab: Any, file: Path) -> None:
    tab.open(file)
    go(tab, "#/runs")
    tab.eval("document.querySelector('#filter-q').focus()")
    tab.send("Input.insertText", text="tallest")
    tab.settle()
    assert tab.eval("document.querySelectorAll('main tbody tr').length") == 1
    assert tab.eval("document.activeElement.id") == "filter-q" and tab.eval("document.activeElement.value") == "tallest"
    assert tab.eval("location.hash") == "#/runs?q=tallest"


@pytest.mark.slow
def test_the_policy_is_in_force(tab: Any, file: Path) -> None:
    """A script that got in after all could neither run, nor fetch, nor parse markup."""
    tab.open(file)
    tab.eval("document.body.append(Object.assign(document.createElement('p'), {textContent: 'added'}))")
    assert tab.eval("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    for attempt in ("document.body.innerHTML = '<b>x</b>'", "document.createElement('script').text = 'window.ran = 1'"):
        assert tab.eval(f"(() => {{ try {{ {attempt}; return 'set' }} catch {{ return 'refused' }} }})()") == "refused"
    refused = [entry["text"] for entry in tab.complaints()]
    assert refused and all(
        "Content Security Policy" in each or "TrustedHTML" in each or "Trusted" in each for each in refused
    )


@pytest.mark.slow
def test_a_browser_that_can_not_unpack_says_so(tab: Any, file: Path) -> None:
    """And leaves the summary where it is."""
    script = tab.send("Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.DecompressionStream")
    tab.open(file)
    tab.send("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
    said = text(tab, "body")
    assert "has no DecompressionStream" in said and "Which lighthouse is the tallest building?" in said


@pytest.mark.slow
def test_what_was_recalled_and_not_sent_is_said(tab: Any, tmp_path: Path) -> None:
    """In the list as a badge, and on the run's page with a link to each item; a run that sent all says nothing."""
    with Bank.create(tmp_path / "bank") as bank:
        item = bank.remember("Look at every lamp", "Look at every lamp of the house.", src="success").item
        for run, sent in (("told", True), ("untold", False)):
            unsent = () if sent else (item,)
            bank.append(RunStarted(run=run, task=f"Which lamps are lit? ({run})"))
            bank.append(RunFinished(run=run, outcome="submitted", recall_sent=sent, recall_unsent=unsent))
        with bank.as_of() as view:
            write_page(bank, view, tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    go(tab, "#/runs")
    assert text(tab).count("recalled, not sent") == 1
    go(tab, "#/run/untold")
    assert "Recalled, not sent" in text(tab) and f"#/item/{item}" in str(tab.eval("document.body.innerHTML"))
    go(tab, "#/run/told")
    assert "not sent" not in text(tab).lower()
