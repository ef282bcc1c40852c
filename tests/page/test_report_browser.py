"""The page of an experiment in headless Chromium: whole without a script, in both themes, hostile names only shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.report import PAGE, write_report
from rbank_es.lab.task_suite import Suite
from rbank_es.lab.trial_pages import paged, write_trial_pages
from rbank_es.loop.tasks import Task
from rbank_es.page.palette import PALETTE
from tests.lab.folders import pair, suite_of, written

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "</td><script>window.broken=1</script><img src=x onerror=window.broken=1>"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    experiment = msgspec.structs.replace(pair(4), title=HOSTILE, question=HOSTILE)
    tasks = [*suite_of(12).tasks, Task(id=HOSTILE, question=HOSTILE, answer="1", family=HOSTILE)]
    folder = written(tmp_path_factory.mktemp("page"), experiment, Suite.of(HOSTILE, tasks))
    data = read_experiment(folder)
    write_report(data, folder)
    write_trial_pages(paged(data.trials)[:2], folder)
    return folder / PAGE


@pytest.mark.parametrize("scripts", [True, False])
def test_the_page_is_whole_asks_for_nothing_and_runs_nothing(tab: Any, file: Path, scripts: bool) -> None:
    tab.open(file, scripts=scripts)
    if scripts:
        drawn = tab.eval("[...document.querySelectorAll('svg.plot')].map(each => each.getBoundingClientRect().width)")
        assert len(drawn) == 5 and min(drawn) > 200
        assert tab.eval("document.querySelectorAll('polyline').length") == 3  # one is the baseline's, beside
        assert tab.eval("window.broken ?? 0") == 0 and tab.eval(
            "document.querySelector('h1').textContent.includes('<script>')"
        )
        assert tab.eval("document.querySelectorAll('main script, main img').length") == 0
    assert tab.requests() == [file.as_uri()] and tab.complaints() == []


def test_a_run_of_the_report_opens_in_the_page_of_its_bank(tab: Any, file: Path) -> None:
    tab.open(file)
    link = "document.querySelector('#runs tbody a')"
    address, run = tab.eval(f"{link}.href"), tab.eval(f"{link}.textContent")
    assert address.startswith((file.parent / "pages").as_uri())
    tab.eval(f"{link}.closest('details').open = true")
    tab.browser.events.clear()
    tab.eval(f"{link}.click()")
    tab.loaded()
    assert tab.eval("location.href") == address and tab.eval("document.querySelector('main h2').innerText")
    assert tab.eval("decodeURIComponent(location.hash)") == f"#/run/{run}"
    assert "Not found" not in tab.eval("document.querySelector('main').innerText")
    assert tab.complaints() == []


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_its_window_and_takes_the_colours_of_its_theme(tab: Any, file: Path, width: int) -> None:
    tab.open(file, width=width)
    assert tab.eval("document.documentElement.scrollWidth") <= width
    for dark in (False, True):
        tab.scheme(dark=dark)
        accent = PALETTE["accent"][dark]
        rgb = f"rgb({', '.join(str(int(accent[at : at + 2], 16)) for at in (1, 3, 5))})"
        assert tab.eval("getComputedStyle(document.querySelector('polyline.line:not(.beside)')).stroke") == rgb
