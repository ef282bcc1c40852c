"""The checks of `doctor --hooks`: installed where, trusted, found on the path, which bank, last run, last delivery."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import msgspec

from rbank_es.agents.hook_install import codex_config, settings_path
from rbank_es.agents.hook_process import MARKER
from rbank_es.agents.host_settings import EVENTS, BadSettings, Host, hooked_events
from rbank_es.agents.prompt_tally import GIVEN, HINDERED, LATE, UNFITTED, outcomes_in, tallied
from rbank_es.agents.spool import Spool, seconds_of, spool_of
from rbank_es.agents.traces.trace_spool import trace_spool
from rbank_es.agents.trusted_banks import HookBank, bank_for, project_root
from rbank_es.answers.search import shortfall
from rbank_es.bank import Bank
from rbank_es.errors import CannotWrite, LimitExceeded, RBankError
from rbank_es.events import MemoriesRetrieved
from rbank_es.events.items import JUDGE_SOURCES
from rbank_es.events.readable_text import count
from rbank_es.limits import hook_limits as limits
from rbank_es.sandbox.sandbox_doctor import Check
from rbank_es.system.files import read_regular


def examine_hooks(cwd: str) -> list[Check]:
    """Return the checks for somebody who works in a directory; nothing is changed."""
    root = project_root(cwd)
    checks = [_on_path()]
    for host in get_args(Host):
        for project in (None, root):
            checks += _of_settings(host, project)
    checks += _turned_off(root)
    if not any(check.name.startswith("installed") for check in checks):
        fix = "rbank-es install claude-code (or codex)"
        checks.append(Check(name="installed", ok=False, detail="no coding agent runs the hook here", fix=fix))
    bank = bank_for(cwd)
    spool = spool_of(bank.place)
    return [*checks, _of_bank(bank), *examine_spool(spool), *examine_traces(bank.place)]


def _on_path() -> Check:
    found = shutil.which("rbank-es")
    if found is None:
        detail = "no program of the name rbank-es is on the PATH, and agents run it by that name"
        return Check(name="path", ok=False, detail=detail, fix="add the folder of rbank-es to PATH in your profile")
    return Check(name="path", ok=True, detail=f"rbank-es is {found}")


def _of_settings(host: Host, project: str | None) -> list[Check]:
    path = settings_path(host, project)
    name = f"installed {host}{' --project' if project else ''}"
    try:
        text = read_regular(path, limits.SETTINGS_BYTES, follow=True).decode()
        found = hooked_events(text, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, LimitExceeded, UnicodeDecodeError, BadSettings) as error:
        return [Check(name=name, ok=False, detail=f"{host} ignores {path}: {error}", fix=f"mend {path}")]
    if not found:
        return []
    missing = [event for event in EVENTS[host] if event not in found]
    fix = f"rbank-es install {host}{' --project' if project else ''}"
    detail = f"{path} has the hook for {count(len(found), 'event')}"
    if missing:
        return [Check(name=name, ok=False, detail=f"{detail}, and not for {', '.join(missing)}", fix=fix)]
    checks = [Check(name=name, ok=True, detail=detail)]
    return checks if host != "codex" else [*checks, _trusted(path, found)]


def _turned_off(root: str) -> Iterator[Check]:
    """Yield a check for each settings file of Claude Code that turns all hooks off."""
    user, project = (settings_path("claude-code", each) for each in (None, root))
    for path in dict.fromkeys((user, project, project.with_name("settings.local.json"))):
        with suppress(OSError, LimitExceeded, ValueError, RecursionError):
            settings = json.loads(read_regular(path, limits.SETTINGS_BYTES, follow=True).decode("utf-8-sig"))
            if isinstance(settings, dict) and settings.get("disableAllHooks") is True:
                detail = f"{path} has disableAllHooks: claude-code runs no hook at all"
                yield Check(name="turned off", ok=False, detail=detail, fix=f"take disableAllHooks out of {path}")


def _trusted(path: Path, found: dict[str, int]) -> Check:
    """Check what Codex noted as trusted: it runs nothing else, and says nothing."""
    try:
        config = codex_config(_codex_home())
    except BadSettings as error:
        return Check(name="trusted", ok=False, detail=str(error), fix=f"mend {error.path}")
    hooks = config.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    known = (
        {_plain(key) for key, value in (state or {}).items() if _is_trusted(value)}
        if isinstance(state, dict)
        else set()
    )
    places = {event: _plain(f"{path}:{event}:{index}:0") for event, index in found.items()}
    missing = [event for event, place in places.items() if place not in known]
    if missing:
        detail = f"Codex does not trust the hook for {', '.join(missing)}, and runs nothing untrusted"
        return Check(name="trusted", ok=False, detail=detail, fix="start codex, write /hooks, and trust rbank-es hook")
    return Check(name="trusted", ok=True, detail="Codex trusts all of them, as they were when you said so")


def _codex_home() -> Path:
    home = os.environ.get("CODEX_HOME")
    return Path(home) if home else Path.home() / ".codex"


def _is_trusted(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.get("trusted_hash")) and value.get("enabled") is not False


def _plain(place: str) -> str:
    """Return a key of Codex without the spelling of its event: `user_prompt_submit` is `UserPromptSubmit`."""
    head, _, tail = place.rpartition("/")
    return f"{head}/{tail.replace('_', '').lower()}"


def _of_bank(bank: HookBank) -> Check:
    from rbank_es.agents.hook_recall import NothingRecalled, recall

    whose = f"the bank of the project {bank.project}" if bank.project else "your bank"
    locator = shlex.quote(bank.locator)
    passed = f"; {bank.stranger} is a stranger's, and passed over" if bank.stranger else ""
    try:
        recall(bank.place, bank.id, "the")
        lessons = _lessons_in(bank.locator)
    except NothingRecalled as error:
        fix = f"rbank-es install HOST{' --project' if bank.project else ''}, or: rbank-es project {locator}"
        return Check(name="bank", ok=False, detail=f"{bank.place} gives nothing: {error}{passed}", fix=fix)
    except RBankError as error:
        return Check(name="bank", ok=False, detail=str(error), fix=f"rbank-es verify {locator}")
    detail = f"{bank.place}, {whose}, can be searched: {count(lessons, 'active lesson')}{passed}"
    fix = f"fill it: rbank-es import {locator} ~/.claude/projects, then rbank-es learn {locator} --due --lm MODEL"
    return Check(name="bank", ok=True, detail=detail, fix="" if lessons else fix)


def _lessons_in(place: str) -> int:
    with Bank.open(place) as bank, bank.as_of() as view:
        return sum(row["src"] not in JUDGE_SOURCES for row in view.items("active"))


def examine_spool(spool: Spool) -> list[Check]:
    """Return the checks of what hooks spooled; nothing is changed."""
    if (foreign := spool.obstacle()) is not None:
        detail = f"{foreign} is a link, or others can write to it: hooks write nothing there, and give no lesson"
        return [Check(name="spool", ok=False, detail=detail, fix=f"remove {foreign}, or make it yours alone")]
    lines = spool.look()
    known = spool.last()
    ran = max([known.get("ran", 0.0), *map(seconds_of, lines)])
    if not ran:
        fix = "give your agent a prompt; then look again"
        return [Check(name="last run", ok=False, detail="the hook has not run for this bank yet", fix=fix)]
    checks = [Check(name="last run", ok=True, detail=f"{_time(ran)}; {count(len(lines), 'line')} wait to be taken in")]
    notes = [line for line in lines if line.get("kind") == "note"]
    if notes:
        why = f"{count(len(notes), 'time')} nothing was given; the last time, {_time(seconds_of(notes[-1]))}: "
        detail = f"{checks[0].detail}. {why}{notes[-1].get('why')}"
        # A search that found nothing has a line of its own kind, too.
        hindered = outcomes_in(lines)[-1:] in (LATE, HINDERED)
        fix = "where a hook is late, the machine was busy or starts Python slowly; else the reason says what to do"
        checks[0] = Check(name="last run", ok=not hindered, detail=detail, fix=fix if hindered else "")
    answer: dict[str, Any] = next((line for line in reversed(lines) if outcomes_in([line])), {})
    if outcomes_in([answer]) == UNFITTED:
        detail = f"{checks[0].detail}. Nothing fitted the last prompt: {_why_nothing(answer)}"
        checks[0] = msgspec.structs.replace(checks[0], detail=detail)
    told = tallied(spool.folder) + outcomes_in(lines)
    prompts = [_answered(told[-limits.TALLY_PROMPTS :])] if told else []
    return [*checks, *prompts, _delivered(lines, known.get("delivered", 0.0))]


def examine_traces(place: str) -> list[Check]:
    """Return the check of what agents sent to `serve --otlp` for a bank, none where no server took anything."""
    try:
        spool = trace_spool(place)
        if spool is None:
            return []
        with closing(spool):
            traces, spans, since_s = spool.size()
    except (sqlite3.Error, CannotWrite, OSError) as error:
        fix = f"remove {spool_of(place).folder}, and with it what waits there"
        return [Check(name="traces", ok=False, detail=f"the spool of traces can't be read: {error}", fix=fix)]
    since = f", the first since {_time(since_s)}; import or learn takes in what has ended" if traces else ""
    detail = f"{count(traces, 'trace')} of {count(spans, 'span')} wait to be taken in{since}"
    return [Check(name="traces", ok=True, detail=detail)]


def _why_nothing(line: dict[str, Any]) -> str:
    """Return why a recall gave nothing, with the figures of the best match, as `search` does."""
    searches = []
    with suppress(msgspec.MsgspecError, TypeError):
        searches = [msgspec.json.decode(each, type=MemoriesRetrieved) for each in line.get("retrievals", ())]
    weak = [(hit, search.floor) for search in searches for hit in search.withheld[:1]]
    if not weak:
        return "no lesson shares a word with it that counts"
    best, floor = max(weak, key=lambda each: (each[0].coverage or 0.0, abs(each[0].score)))
    return f"the best match {shortfall(best.why, best.score, best.coverage, floor)}"


def _answered(outcomes: str) -> Check:
    """Check how the last prompts were answered: where many hooks are late, agents work without lessons."""
    total, late = len(outcomes), outcomes.count(LATE)
    named = {"were given a lesson": GIVEN, "fitted none": UNFITTED, "had a hook that was late": LATE}
    parts = [f"{outcomes.count(letter):,} {name}" for name, letter in named.items()]
    hindered = outcomes.count(HINDERED)
    detail = f"of the last {count(total, 'prompt')}, {', '.join(parts)}, {hindered:,} got none for another reason"
    ok = late * limits.LATE_ONE_IN <= total
    fix = "see what keeps the machine busy, or whether Python starts slowly, as from a network's disk"
    return Check(name="prompts", ok=ok, detail=detail, fix="" if ok else fix)


def _delivered(lines: list[dict[str, Any]], known: float) -> Check:
    """Check whether the last lesson that was given stands in its transcript."""
    prompts = {line["id"]: line for line in lines if line.get("kind") == "prompt"}
    given = [line for line in lines if line.get("kind") == "recall" and line.get("text")]
    if not given:
        detail = f"the last was {_time(known)}" if known else "no lesson has been given yet"
        return Check(name="delivery", ok=True, detail=detail)
    made = str(given[-1].get("of"))
    transcript = prompts.get(made, {}).get("transcript")
    when = _time(seconds_of(given[-1]))
    if not transcript:
        return Check(name="delivery", ok=True, detail=f"a lesson was given {when}; the agent names no transcript of it")
    try:
        found = f"{MARKER} {made}".encode() in read_regular(str(transcript), limits.TRANSCRIPT_LOOK_BYTES)
    except (OSError, LimitExceeded) as error:
        detail = f"a lesson was given {when}; {transcript} can't be read: {getattr(error, 'strerror', None) or error}"
        return Check(name="delivery", ok=True, detail=detail)
    if found:
        return Check(name="delivery", ok=True, detail=f"the lesson given {when} stands in {transcript}")
    fix = "see whether hooks are turned off (disableAllHooks, --bare), or the agent is older than its hooks"
    return Check(name="delivery", ok=False, detail=f"the lesson given {when} is not in {transcript}", fix=fix)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
