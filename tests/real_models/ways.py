"""The ways that `make real` runs: each into a bank with a real model, by commands that people use; what must hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es.bank import Bank
from rbank_es.events import Event, LmCalled, MemoriesExtracted, RunFinished, RunStarted, StepTaken
from rbank_es.executors.executor import EXECUTORS
from tests.real_models.counting_proxy import Proxy
from tests.real_models.server import ROOT

ITERATIONS = 2
REPLY_TOKENS = 96
COMMAND_S = 1_800
CALL_S = 300
UNREAD = ("unreadable", "no_code")
TASKS = (
    {"id": "lights-1", "question": "How many lighthouses are there?"},
    {"id": "lights-2", "question": "Which lighthouses have no keeper?"},
)
_EXPERIMENT = f"""\
name = "two-tasks"
title = "Does it run?"
suite = "tasks.json"
orders = 1
baseline = "without"
contrasts = [["with", "without"]]

[shared]
executor = "react"
iterations = {ITERATIONS}
judge = "lm"

[[condition]]
name = "without"
layers = ["L0"]

[[condition]]
name = "with"
layers = ["L0", "L2"]
extract = true
"""
_RECORDED = """\
import sys, httpx
from rbank_es import Bank
bank, url = sys.argv[1:]
with Bank.open(bank, create=True) as bank, bank.record("How many letters has the word light?", model="real") as run:
    asked = {"model": "real", "max_tokens": 64, "messages": [{"role": "user", "content": run.task}]}
    said = httpx.post(url + "/chat/completions", json=asked, timeout=300).json()
    text = said["choices"][0]["message"]["content"]
    run.call(request=run.task, response=text)
    run.finish(text)
"""


class Ended(NamedTuple):
    """How one way ended: its exit code, seconds, calls, what the bank says, and what did not hold."""

    name: str
    code: int
    seconds: float
    calls: int
    said: str
    wrong: tuple[str, ...]


class Way(NamedTuple):
    """One way: its name, and what runs it in a folder."""

    name: str
    run: Callable[[Ways], Ended]


class Ways:
    """The ways of one model, in a folder of their own. `ends` is the time after which no other is begun."""

    def __init__(self, folder: Path, proxy: Proxy, lm: str, ends: float) -> None:
        self.folder, self.proxy, self.lm, self.ends = folder, proxy, lm, ends
        (folder / "tasks.json").write_text(json.dumps(TASKS))
        (folder / "two.toml").write_text(_EXPERIMENT)

    @property
    def asked(self) -> list[str]:
        """The options that name the model, with the bounds of this trial."""
        bounds = [f"max_tokens={REPLY_TOKENS}", f"timeout={CALL_S}", "temperature=0"]
        return [
            "--lm", self.lm, "--api-base", self.proxy.url,
            *(word for bound in bounds for word in ("--lm-arg", bound)),
        ]  # fmt: skip

    def command(self, name: str, *words: str, codes: Sequence[int] = (0, 1, 2), given: str = "") -> Ended:
        """Run a command of the program; what it may end with is in `codes`."""
        return self.process(name, [sys.executable, "-m", "rbank_es", *words], codes=codes, given=given)

    def process(self, name: str, words: Sequence[str], *, codes: Sequence[int], given: str = "") -> Ended:
        """Run a process within its time, and check what holds of every one."""
        before, began = len(self.proxy.calls), time.monotonic()
        env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "160"}
        most = max(1.0, min(COMMAND_S, self.ends - began))
        wrong, code, said, told = list[str](), -1, "", ""
        try:
            done = subprocess.run(
                words, cwd=self.folder, env=env, input=given, capture_output=True, text=True, timeout=most
            )
            code, said, told = done.returncode, done.stdout.strip(), done.stderr.strip()
        except subprocess.TimeoutExpired:
            wrong.append(f"it did not end within {most:,.0f} s")
        if code != -1 and code not in codes:
            wrong.append(f"exit code {code}: {told[-400:] or said[-400:]}")
        if "Traceback (most recent call last)" in said + told:
            wrong.append(f"a traceback: {told[-400:] or said[-400:]}")
        made = self.proxy.calls[before:]
        if broken := [call for call in made if not call.kept]:
            wrong.append(f"{len(broken)} calls without a bound, or past it: {broken[:3]}")
        took = round(time.monotonic() - began, 1)
        return Ended(name, code, took, len(made), said or told, tuple(wrong))


def ways() -> list[Way]:
    """Return all ways in their order: the quickest first, because the time may be over."""
    first, *others = sorted(EXECUTORS.names(), key=lambda name: name != "react")
    return [
        Way("recorder", _recorder),
        Way("judge, recorder", _judge),
        *_with(first),
        Way("hook", _hook),
        Way("doctor --lm", _doctor),
        Way("guide", _guide),
        *(way for name in others for way in _with(name)),
        Way("experiment of two tasks", _experiment),
    ]


def _with(executor: str) -> list[Way]:
    return [
        Way(f"run, {executor}", lambda ways: _run(ways, executor)),
        Way(f"rerun, {executor}", lambda ways: _rerun(ways, executor)),
        Way(f"page, {executor}", lambda ways: _page(ways, executor)),
    ]


# ---------------------------------------------------------------- with each executor


def _run(ways: Ways, executor: str) -> Ended:
    bank = f"./{executor}"
    ended = ways.command(
        f"run, {executor}", "run", bank, "--ont", "lights", "--task", TASKS[0]["question"], *ways.asked,
        "--executor", executor, "--iterations", str(ITERATIONS), "--judge", "lm", "--extract", "--json",
    )  # fmt: skip
    return _of_bank(ways, executor, ended)


def _rerun(ways: Ways, executor: str) -> Ended:
    place = ways.folder / executor
    began = False
    if place.exists():
        with Bank.open(str(place)) as opened:
            began = any(True for _ in opened.events(types={"run_started"}))
    if not began:
        # A model that takes no tool calls is refused before the first run.
        return Ended(f"rerun, {executor}", 0, 0.0, 0, "no run was begun", ())
    ended = ways.command(f"rerun, {executor}", "rerun", f"./{executor}", "--all", codes=(0,))
    wrong = [] if "identical" in ended.said else [f"not identical: {ended.said[:400]}"]
    return _without_calls(ended, wrong)


def _page(ways: Ways, executor: str) -> Ended:
    file = ways.folder / f"{executor}.html"
    ended = ways.command(f"page, {executor}", "dashboard", f"./{executor}", "-o", file.name, codes=(0,))
    size = file.stat().st_size if file.is_file() else 0
    wrong = [] if size > 10_000 else ["there is no page"]
    return _without_calls(ended._replace(said=f"one file of {size // 1024:,} KiB"), wrong)


def _without_calls(ended: Ended, wrong: list[str]) -> Ended:
    asked = [f"{ended.calls} calls of the model, where there should be none"] if ended.calls else []
    return ended._replace(wrong=(*ended.wrong, *wrong, *asked))


def _of_bank(ways: Ways, bank: str, ended: Ended) -> Ended:
    """Add what the bank says, and what does not hold in it; `bank` may be a pattern of several."""
    events = list[Event]()
    for place in sorted(ways.folder.glob(bank)):
        with Bank.open(str(place)) as opened:
            events += opened.events(resolve=True)
    calls = [event for event in events if isinstance(event, LmCalled)]
    steps = [event for event in events if isinstance(event, StepTaken)]
    ends = [event for event in events if isinstance(event, RunFinished)]
    wrong = list(ended.wrong)
    # One that the client left before it ended is in the log, and may still be under way in the proxy.
    if len(calls) != ended.calls and ended.code != -1:
        wrong.append(f"{len(calls)} calls in the log, {ended.calls} at the server")
    if len(ends) != sum(isinstance(event, RunStarted) for event in events):
        wrong.append("a run has no end")
    read = [step for step in steps if step.error_code not in UNREAD]
    learned = sum(len(event.candidates) for event in events if isinstance(event, MemoriesExtracted))
    if learned and not read:
        wrong.append(f"{learned} items from runs of which no step was read")
    tokens = sum(event.tokens_out or 0 for event in calls), max((event.duration_s or 0 for event in calls), default=0)
    outcome = ", ".join(f"{end.outcome}{f' ({end.error_code})' if end.error_code else ''}" for end in ends)
    said = (
        f"{outcome or 'no run'}; steps read {len(read)} of {len(steps)}; {len(calls)} calls, {tokens[0]:,} tokens "
        f"written, the longest {tokens[1]:,.0f} s; items {learned}"
    )
    return ended._replace(said=said, wrong=tuple(wrong))


# ---------------------------------------------------------------- the others


def _doctor(ways: Ways) -> Ended:
    ended = ways.command("doctor --lm", "doctor", *ways.asked, "--iterations", "6", "--json", codes=(0, 1))
    try:
        found = msgspec.json.decode(ended.said)
    except msgspec.DecodeError:
        return ended
    planned, tried = found["planned"], found["findings"]["tried"]
    wrong = [*ended.wrong]
    if not len(tried) <= ended.calls <= len(planned) <= 15:
        wrong.append(f"{ended.calls} calls, where {len(planned)} were said and {len(tried)} are told")
    forms = found["findings"]["traits"].get("forms", {})
    kept = ", ".join(name for name, kept in forms.items() if kept) or "none"
    said = f"forms kept: {kept}; fits: {found['advice']['executor'] or 'no executor'}"
    return ended._replace(said=said, wrong=tuple(wrong))


def _guide(ways: Ways) -> Ended:
    ended = ways.command(
        "guide", "guide", "./guided", "--ont", "lights", *ways.asked, "--executor", "react",
        "--iterations", str(ITERATIONS),
    )  # fmt: skip
    return _of_bank(ways, "guided", ended)


def _experiment(ways: Ways) -> Ended:
    ended = ways.command("experiment of two tasks", "experiment", "run", "two.toml", *ways.asked, "--ont", "lights")
    return _of_bank(ways, "experiments/two-tasks/banks/*/o*", ended)


def _recorder(ways: Ways) -> Ended:
    words = [sys.executable, "-c", _RECORDED, "./recorded", ways.proxy.url]
    return _of_bank(ways, "recorded", ways.process("recorder", words, codes=(0,)))


def _judge(ways: Ways) -> Ended:
    ended = ways.command("judge, recorder", "judge", "run", "./recorded", "--all", "--judge", "lm", *ways.asked)
    return ended._replace(said=ended.said.partition("purpose")[0])


def _hook(ways: Ways) -> Ended:
    event = {
        "session_id": "1",
        "cwd": str(ways.folder),
        "hook_event_name": "UserPromptSubmit",
        "prompt": "Count the lights.",
    }
    ended = ways.command("hook", "hook", "--bank", str(ways.folder / "react"), codes=(0,), given=json.dumps(event))
    return _without_calls(ended, [])
