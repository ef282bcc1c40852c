"""Exported pages: size and time of the export; time until usable, beside a blank page; slider to painted frame.

The larger bank has 1,000 runs with words of their own. Each opening is a new tab of one headless Chromium, in turn with
a blank page.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.corpus import SEED, Corpus
from benchmarks.measure import Goal, Row, duration
from benchmarks.sizes import Sizes
from rbank_es import Bank
from rbank_es.dashboard import WrittenPage, write_page
from rbank_es.events import ContextBuilt, Event, LmCalled, RunFinished, RunJudged, RunStarted, StepTaken, ToolCalled
from rbank_es.events.run_events import LayerUse, VerdictValue

SAMPLE = Path(__file__).parent.parent / "logs" / "sample"
RUNS = 1_000
ROUNDS = 9
MOVES = 25
VERDICTS: tuple[VerdictValue, ...] = ("success", "failure", "success", "undecided")

_USABLE = (
    "document.readyState === 'complete' && "
    "(!document.getElementById('data') || Boolean(document.documentElement.dataset.ready))"
)
# Moves the slider, and waits for the frame after the one in which the position is shown.
_MOVE = """
(async position => {
  const slider = document.querySelector("input[type=range]"), begin = performance.now();
  slider.value = position;
  slider.dispatchEvent(new Event("input", {bubbles: true}));
  await new Promise(done => {
    const look = () => document.documentElement.dataset.shown === String(position)
      ? requestAnimationFrame(() => setTimeout(done, 0)) : requestAnimationFrame(look);
    look();
  });
  return performance.now() - begin;
})
"""


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield rows for the sample and for the larger bank."""
    sample, _ = _written(place, SAMPLE, "sample")
    kilobytes = sample.size_bytes / 1e3
    yield Row("exported pages", "the sample", f"{kilobytes:.0f} kB", goal=Goal("≤", 250, "kB"), value=kilobytes)
    _make_bank(place / "bank")
    large, seconds = _written(place, place / "bank", "large")
    size, what = large.size_bytes / 1e6, f"{RUNS:,} runs"
    yield Row("exported pages", what, f"{size:.2f} MB", goal=Goal("≤", 2, "MB"), value=size)
    yield Row("exported pages", f"{what}, processor time", duration(seconds), goal=Goal("≤", 1.5, "s"), value=seconds)
    yield from _in_a_browser(place, Path(sample.path), Path(large.path))


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


def _in_a_browser(place: Path, sample: Path, large: Path) -> Iterator[Row]:
    from tests.dashboard.conftest import Chromium, Tab

    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        yield Row("exported pages", "in a browser: no Chromium here")
        return
    blank = place / "blank.html"
    blank.write_text("<!DOCTYPE html><title>blank</title><p>blank</p>")
    browser = Chromium(binary, place / "profile")
    try:
        ratios = [_opened(Tab(browser), sample) / _opened(Tab(browser), blank) for _ in range(ROUNDS)]
        ratio = median(ratios)
        yield Row("exported pages", "the sample, usable", f"{ratio:.1f}×", goal=Goal("≤", 3, "×"), value=ratio)
        tab = Tab(browser)
        tab.open(large, width=1400)
        for address in ("#/", "#/runs"):
            seconds = _moved(tab, address)
            what = f"{RUNS:,} runs, slider to painted frame, {address}"
            yield Row("exported pages", what, duration(seconds), goal=Goal("≤", 0.1, "s"), value=seconds)
    finally:
        browser.close()


def _opened(tab: Any, path: Path) -> float:
    begin = time.perf_counter()
    tab.send("Page.navigate", url=path.as_uri())
    while not tab.eval(_USABLE):
        time.sleep(0.002)
    return time.perf_counter() - begin


def _moved(tab: Any, address: str) -> float:
    tab.eval(f"location.hash = {address!r}")
    tab.settle()
    head = int(tab.eval("document.querySelector('input[type=range]').max"))
    places = [head * (30 + number * 7 % 60) // 100 for number in range(MOVES)]
    return median(tab.eval(f"{_MOVE}({place})") for place in places) / 1e3
