"""The page in headless Chromium: charts are drawn, nothing is logged, nothing is fetched."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.dashboard import PageFacts
from rbank_es.dashboard.figures import PALETTE

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1><a href='javascript:1'>x</a>"

# For each chart how many dots, lines or bars it shows, and how wide it is.
DRAWN = """
[...document.querySelectorAll(".chart")].map(chart => [
    chart.querySelectorAll(".points path.point, .point path, .lines path").length,
    chart.querySelector("svg.main-svg")?.getBoundingClientRect().width ?? 0])
"""


@pytest.fixture
def file(page: Any, rows: Any, tmp_path: Path) -> Path:
    path = tmp_path / "page with spaces & signs.html"
    path.write_text(page(rows), "utf-8")
    return path


def test_every_chart_is_drawn_without_a_complaint_and_without_a_request(tab: Any, file: Path) -> None:
    """From disk; the one thing that is asked for is the file itself."""
    tab.open(file)
    charts = tab.eval(DRAWN)
    assert len(charts) == 14
    assert all(marks > 0 and width > 200 for marks, width in charts), charts
    assert tab.complaints() == []
    assert tab.requests() == [file.as_uri()]


@pytest.mark.slow
def test_the_policy_is_in_force(tab: Any, file: Path) -> None:
    """A script that got in after all could neither run inline nor fetch: the page's own policy refuses both."""
    tab.open(file)
    tab.eval("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
    assert tab.eval("window.ran ?? 0") == 0
    assert tab.eval("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    refused = [entry["text"] for entry in tab.complaints()]
    assert len(refused) >= 2 and all("Content Security Policy" in text for text in refused), refused


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 768, 1600])
def test_the_page_fits_its_window(tab: Any, file: Path, width: int) -> None:
    """No sideways scrolling of the page, and no chart wider than its column."""
    tab.open(file, width=width)
    assert tab.eval("document.documentElement.scrollWidth") <= width
    assert all(drawn <= width for _, drawn in tab.eval(DRAWN))


@pytest.mark.slow
def test_the_page_goes_dark_with_the_system_charts_included(tab: Any, file: Path) -> None:
    """Also while it is open."""
    ground = "getComputedStyle(document.body).backgroundColor"
    line = "document.querySelector('#chart-bank-size .lines path').style.stroke"
    shown = []
    tab.open(file)
    for dark in (False, True):
        tab.scheme(dark=dark)
        tab.settle()
        shown.append((tab.eval(ground), tab.eval(line)))

    def rgb(name: str, dark: bool) -> str:
        return f"rgb({', '.join(str(int(PALETTE[name][dark][i : i + 2], 16)) for i in (1, 3, 5))})"

    assert shown == [(rgb("paper", dark), rgb("accent", dark)) for dark in (False, True)]
    assert tab.complaints() == []


@pytest.mark.slow
def test_hostile_text_is_shown_and_does_nothing(
    tab: Any, page: Any, rows: Any, facts: PageFacts, tmp_path: Path
) -> None:
    """In every text of the bank at once: the charts are drawn, no script of it runs, no image of it loads."""
    kept = {"state", "flag", "at", "started_at", "finished_at"}
    hostile = {
        name: [{k: HOSTILE if isinstance(v, str) and k not in kept else v for k, v in row.items()} for row in table]
        for name, table in rows.items()
    }
    file = tmp_path / "hostile.html"
    file.write_text(page(hostile, msgspec.structs.replace(facts, name=HOSTILE, purpose=HOSTILE)), "utf-8")
    tab.open(file)
    assert tab.eval("window.broken ?? 0") == 0
    assert tab.eval("document.querySelectorAll('img, a[href^=javascript], svg a').length") == 0
    assert tab.eval("document.querySelector('h1').textContent").startswith("</script><script>")
    assert all(marks > 0 for marks, _ in tab.eval(DRAWN))
    assert (tab.complaints(), tab.requests()) == ([], [file.as_uri()])


@pytest.mark.slow
def test_a_large_bank_opens(tab: Any, page: Any, many: Any, tmp_path: Path) -> None:
    """Twelve thousand runs are drawn, within the time limit of a test."""
    file = tmp_path / "large.html"
    file.write_text(page(many), "utf-8")
    tab.open(file)
    assert all(marks > 0 for marks, _ in tab.eval(DRAWN))
    assert tab.complaints() == []


@pytest.mark.slow
def test_an_empty_bank_opens(tab: Any, page: Any, nothing: Any, tmp_path: Path) -> None:
    """Without scripts, so there is nothing to complain about."""
    file = tmp_path / "empty.html"
    file.write_text(page(nothing), "utf-8")
    tab.open(file, width=400)
    assert tab.eval("document.documentElement.scrollWidth") <= 400
    assert (tab.complaints(), tab.requests()) == ([], [file.as_uri()])


@pytest.mark.slow
def test_without_scripts_the_numbers_are_there(tab: Any, file: Path) -> None:
    """Where scripts are switched off, each chart says where its numbers are, and the tables hold them."""
    tab.open(file, scripts=False)
    text = tab.eval("document.body.innerText")
    assert text.count("This chart needs JavaScript") == 14
    assert "run-024" in text


@pytest.mark.slow
def test_everything_can_be_reached_by_keyboard(tab: Any, file: Path) -> None:
    """The first stop leads past the header; tables that scroll take the focus."""
    tab.open(file)
    tab.send("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert tab.eval("document.activeElement.textContent") == "Skip to the content"
    assert tab.eval("document.querySelectorAll('.table:not([tabindex=\"0\"])').length") == 0
