"""Exported pages: size and time of the export; time until usable, beside a blank page; slider to painted frame.

The larger bank has 1,000 runs with words of their own, the longest 100,000 events. Each opening is a new tab of one
headless Chromium, in turn with a blank page. The app's share of the wheel is that of its files, packed as there.
"""

from __future__ import annotations

import io
import json
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import rbank_es.page
from benchmarks.corpus import SEED, Corpus
from benchmarks.measure import Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.events import ContextBuilt, Event, LmCalled, RunFinished, RunJudged, RunStarted, StepTaken, ToolCalled
from rbank_es.events.run_events import LayerUse, VerdictValue
from rbank_es.page import WrittenPage, write_page

SAMPLE = Path(__file__).parent.parent / "logs" / "sample"
APP = Path(rbank_es.page.__file__).parent / "app"
RUNS = 1_000
LONG_EVENTS = 100_000
SLOWED = 4
"""How many times slower the processor is made: a phone beside a desk's computer."""
ROUNDS = 9
MOVES = 25
VERDICTS: tuple[VerdictValue, ...] = ("success", "failure", "success", "undecided")

# There, and its data read; then a frame is awaited, in a blank page too, so that what is usable is also drawn.
_USABLE = (
    "document.readyState === 'complete' && "
    "(!document.getElementById('data') || Boolean(document.documentElement.dataset.ready))"
)
_DRAWN = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()), 0)))"
# Moves the slider to another stop, and waits for the frame after the one in which that is shown.
_MOVE = """
(async place => {
  const slider = document.querySelector("input[type=range]"), begin = performance.now();
  const before = document.documentElement.dataset.shown;
  slider.value = place;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  await new Promise(done => {
    const look = () => document.documentElement.dataset.shown !== before
      ? requestAnimationFrame(() => setTimeout(done, 0)) : requestAnimationFrame(look);
    look();
  });
  return performance.now() - begin;
})
"""


def measure(place: Path, sizes: Sizes, bank: Bank) -> Iterator[Row]:
    """Yield rows for the sample, for the larger bank, and for a long one as of its 100,000th event."""
    yield _wheel_row()
    sample, _ = _written(place, SAMPLE, "sample")
    kilobytes = sample.size_bytes / 1e3
    yield Row("exported pages", "the sample", f"{kilobytes:.0f} kB", goal=Goal("≤", 250, "kB"), value=kilobytes)
    _make_bank(place / "bank")
    large, seconds = _written(place, place / "bank", "large")
    size, what = large.size_bytes / 1e6, f"{RUNS:,} runs"
    yield Row("exported pages", what, f"{size:.2f} MB", goal=Goal("≤", 2, "MB"), value=size)
    yield Row("exported pages", f"{what}, processor time", duration(seconds), goal=Goal("≤", 15, "s"), value=seconds)
    with bank.as_of(min(bank.position, LONG_EVENTS)) as view:
        begin = time.process_time()
        long = write_page(bank, view, place / "long.html")
        what = f"{view.position:,} events, {long.runs:,} runs"
    seconds = time.process_time() - begin
    yield Row("exported pages", what, f"{long.size_bytes / 1e6:.2f} MB", f"processor time {duration(seconds)}")
    pages = {"the sample": sample, f"{RUNS:,} runs": large, what: long}
    yield from _in_a_browser(place, {name: Path(page.path) for name, page in pages.items()})


def _wheel_row() -> Row:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(APP.iterdir()):
            archive.write(path, path.name)
        kilobytes = sum(each.compress_size for each in archive.infolist()) / 1e3
    goal = Goal("≤", 100, "kB")
    return Row("exported pages", "the app in the wheel", f"{kilobytes:.0f} kB", goal=goal, value=kilobytes)


def _written(place: Path, folder: Path, name: str) -> tuple[WrittenPage, float]:
    with Bank.open(folder) as bank, bank.as_of() as view:
        begin = time.process_time()
        return write_page(bank, view, place / f"{name}.html"), time.process_time() - begin


def _make_bank(place: Path) -> None:
    corpus = Corpus(SEED)
    instructions = "\n".join(corpus.text(12) for _ in range(60))
    with Bank.create(place, unsafe_no_sync=True) as bank:
        for number in range(RUNS):
            bank.append(list(_run(f"run-{number:04d}", number, corpus.text, instructions)))
        bank.project()


def _run(run: str, number: int, text: Callable[[int], str], instructions: str) -> Iterator[Event]:
    yield RunStarted(run=run, task=text(12), ontology="lights", executor="rlm", model="some/model")
    context = "\n".join(text(10) for _ in range(8))
    yield ContextBuilt(
        run=run, chars=len(context), layers=(LayerUse(layer="L2", chars=len(context)),), texts=(context,)
    )
    prompt = f"{instructions}\n{context}"
    for step in (1, 2):
        code, output = text(30), text(40)
        request = json.dumps({"messages": [{"role": "user", "parts": [{"text": prompt}]}]})
        answer = json.dumps({"message": {"role": "assistant", "parts": [{"text": code}]}})
        yield LmCalled(run=run, role="agent", model="some/model", step=step, request=request, response=answer)
        yield ToolCalled(
            run=run, tool="sparql_query", step=step, chars=200 + number, arguments=text(15), result=text(30)
        )
        yield StepTaken(run=run, index=step, reasoning=text(12), code=code, output=output)
        prompt += f"\n{code}\n{output}"
    yield RunFinished(run=run, outcome="submitted", answer=text(10), sparql=text(15))
    verdict = VERDICTS[number % len(VERDICTS)]
    judge = {"judge": "lm", "judge_version": "1", "reason": text(14)}
    yield RunJudged(run=run, purpose="learning", verdict=verdict, kind="lm", **judge)


# ---------------------------------------------------------------- in a browser


def _in_a_browser(place: Path, pages: Mapping[str, Path]) -> Iterator[Row]:
    from tests.page.conftest import Chromium, Tab

    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        yield Row("exported pages", "in a browser: no Chromium here")
        return
    blank = place / "blank.html"
    blank.write_text("<!DOCTYPE html><title>blank</title><p>blank</p>")
    browser = Chromium(binary, place / "profile")
    try:
        for name, page in pages.items():
            for slowed in (1, SLOWED) if name == "the sample" else (1,):
                yield from _opening_rows(browser, name, page, blank, slowed)
        for name, page in [*pages.items()][1:]:
            tab = Tab(browser)
            tab.open(page, width=1400)
            for address in ("#/", "#/runs"):
                seconds = _moved(tab, address)
                what = f"{name}, slider to painted frame, {address}"
                goal = Goal("≤", 0.1, "s") if name == f"{RUNS:,} runs" else None
                yield Row("exported pages", what, duration(seconds), goal=goal, value=seconds)
    finally:
        browser.close()


def _opening_rows(browser: Any, name: str, page: Path, blank: Path, slowed: int) -> Iterator[Row]:
    turns = [[_opened(browser, path, slowed) for path in (page, blank)] for _ in range(ROUNDS)]
    what = f"{name}, usable" + (f", processor slowed {slowed}×" if slowed > 1 else "")
    ratio = median(whole / empty for (whole, _), (empty, _) in turns)
    in_page = median(inside for (_, inside), _ in turns)
    bound = name == "the sample"
    goal = Goal("≤", 3, "×") if bound else None
    yield Row("exported pages", what, f"{ratio:.1f}×", "a blank page", goal=goal, value=ratio)
    goal = Goal("≤", 1, "s") if bound else None
    yield Row("exported pages", f"{what}, in page", duration(in_page), goal=goal, value=in_page)


def _opened(browser: Any, path: Path, slowed: int) -> tuple[float, float]:
    """Return the seconds until a page is usable and drawn in a new tab, from outside, and by the page's own clock."""
    from tests.page.conftest import Tab

    tab = Tab(browser)
    tab.send("Emulation.setCPUThrottlingRate", rate=slowed)
    begin = time.perf_counter()
    tab.send("Page.navigate", url=path.as_uri())
    while not tab.eval(_USABLE):
        time.sleep(0.002)
    in_page = float(tab.eval(_DRAWN)) / 1e3
    seconds = time.perf_counter() - begin
    # Tabs of files share a process, and a slowed one would slow all others.
    tab.close()
    return seconds, in_page


def _moved(tab: Any, address: str) -> float:
    tab.eval(f"location.hash = {address!r}")
    tab.settle()
    stops = int(tab.eval("document.querySelector('input[type=range]').max"))
    places = [1 + number * 7 % (stops - 1) for number in range(MOVES)]
    return median(tab.eval(f"{_MOVE}({place})") for place in places) / 1e3
