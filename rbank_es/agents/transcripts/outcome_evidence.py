"""The verdict of the tests that a run ran itself: exit codes and summaries of test commands, the latest that counts.

A command's exit code is that of its tests only where nothing behind them replaces it (`| tail`, `|| true`, `; echo`);
else the summary in the output decides. Without either, nothing is known. A later red one wins over an earlier green
one; a later green one heals a red one only if it ran the same tests or all of them. Words of the user or of the agent
decide nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rbank_es.agents.transcripts.transcript_run import ToolUse, TranscriptRun
from rbank_es.events.run_events import VerdictValue

_SEPARATOR = re.compile(r"(\|\||&&|\||;|\n|&(?!&|>|\d))")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_ASSIGNED = re.compile(r"^[A-Za-z_]\w*=")
_WRAPPERS = frozenset(
    {"sudo", "time", "nice", "env", "exec", "command", "xvfb-run", "stdbuf", "unbuffer", "then", "do", "(", "{", "!"}
)
_RUNNERS = ("uv run", "poetry run", "pipenv run", "hatch run", "pdm run", "rye run", "bundle exec", "npx", "bunx")
_RUNNERS_MORE = ("pnpm exec", "pnpm dlx", "yarn run", "yarn exec", "coverage run -m", "python -m coverage run -m")

_TEST_COMMAND = re.compile(
    r"""(?:(?:(?:yarn|pnpm)\s+|\S*/)?(?:pytest|py\.test|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|nosetests|behave|gotestsum)
    |(?:\S*/)?python[\d.]*\s+(?:-[A-Za-z]+\s+)*?-m\s*(?:pytest|unittest|nose2|tox|nox)
    |(?:\S*/)?python[\d.]*\s+\S*manage\.py\s+test
    |(?:npm|pnpm|yarn|bun|deno)\s+(?:run\s+|-s\s+|--silent\s+)*(?:test|t)(?::\S+)?
    |(?:jest|vitest|playwright|cypress)\s+(?:run|test)
    |go\s+test|cargo\s+(?:\+\S+\s+)?(?:nextest\s+run|test|t)|mix\s+test|swift\s+test|dotnet\s+test|zig\s+build\s+test
    |(?:\S*/)?(?:gradlew?|mvnw?|sbt)\s+(?:\S+\s+)*?(?:test|check|verify)|bazel\s+test
    |(?:rake|make|just|ninja)\s+(?:-\S+\s+)*(?:test|tests|check)\b
    )(?=\s|$)""",
    re.VERBOSE,
)
_NO_TEST = re.compile(
    r"""\s--(?:collect-?only|co|version|help|list(?:-?[Tt]ests)?|no-?run|dry-run|just-print|recon|touch|question|setup-plan
    |fixtures|markers|cache-show|clearCache|showConfig|showconfig|show-only|notest|if-present|passWithNoTests|ignore-errors)\b
    |\s-(?:h|V)\b|-DskipTests\b|-Dmaven\.test\.skip\b|\s-x\s+test\b
    |^(?:make|just|ninja)\s(?:.*\s)?-[a-z]*[intq]|^ctest\s.*-N\b|^go\s+test\s.*-(?:c|n|list)\b|^[nt]ox\s.*-l\b
    """,
    re.VERBOSE,
)
"""Options with which a command runs no tests, or ends well whatever its tests do."""

_RED = re.compile(
    r"""(?:^|[\s=])[1-9]\d*\ (?:failed|errors?)\b(?=,|\ in\ |\ *=*$|\ \()   # pytest, also a bare line
    |^FAILED\ \((?:failures|errors)=                     # unittest
    |^\ *Tests?:?\ +(?:Files\ +)?[1-9]\d*\ failed        # jest, vitest
    |^\ *Test\ (?:Suites?|Files):?\ +[1-9]\d*\ failed
    |^\ *[1-9]\d*\ failing\b                             # mocha
    |^---\ FAIL:|^FAIL(?:\t|$)|^FAIL:?\ \S+              # go
    |^test\ result:\ FAILED                              # cargo
    |^\s*Summary\ \[.*\b[1-9]\d*\ failed                 # nextest
    |Tests\ run:\ \d+,\ (?:Failures:\ [1-9]|Failures:\ 0,\ Errors:\ [1-9])   # maven
    |^\d+\ examples?,\ [1-9]\d*\ failure                 # rspec
    |\d+%\ tests\ passed,\ [1-9]\d*\ tests\ failed       # ctest
    |^Failed!\ +-\ Failed:\ +[1-9]                       # dotnet
    |^FAILURES!$|^Tests:\ \d+,.*(?:Failures|Errors):\ [1-9]  # phpunit
    """,
    re.VERBOSE | re.MULTILINE,
)
_GREEN = re.compile(
    r"""(?:^|[\s=])[1-9]\d*\ passed\b(?=,|\ in\ |\ *=*$|\ \()
    |^Ran\ [1-9]\d*\ tests?\ in\ [^\n]*\n+OK\b
    |^\ *Tests?:?\ +(?:[^\n]*,\ )?[1-9]\d*\ passed
    |^\ *[1-9]\d*\ passing\b
    |^ok\ *\t\S+\t(?!.*\[no\ tests)
    |^test\ result:\ ok\.\ [1-9]
    |^\s*Summary\ \[.*\b[1-9]\d*\ passed
    |Tests\ run:\ [1-9]\d*,\ Failures:\ 0,\ Errors:\ 0
    |^[1-9]\d*\ examples?,\ 0\ failures
    |100%\ tests\ passed,\ 0\ tests\ failed
    |^Passed!\ +-\ Failed:\ +0
    |^OK\ \([1-9]\d*\ tests?
    """,
    re.VERBOSE | re.MULTILINE,
)
_NOTHING = re.compile(
    r"no tests ran|^Ran 0 tests|No tests? (?:found|specified|files found)|No module named"
    r"|command not found|Missing script|collected 0 items|No rule to make target",
    re.MULTILINE,
)
_ALL_SKIPPED = re.compile(
    r"^Ran (\d+) tests? in [^\n]*\n+OK \(skipped=\1\)|Tests run: (\d+), Failures: 0, Errors: 0, Skipped: \2\b"
    r"|^(\d+) examples?, 0 failures, \3 pending",
    re.MULTILINE,
)
"""Summaries that count what was skipped among the tests: unittest, maven, rspec."""

_EMPTY = re.compile(
    r"no tests to run|no test files|Tests are skipped|^test result: ok\. 0 passed|^ *0 passing\b"
    r"|(?:^|[\s=])\d+ (?:skipped|deselected)\b.* in \d|^ *Tests?:? +\d+ (?:skipped|todo)|^Skipped! +- Failed: +0",
    re.MULTILINE,
)
"""Words of a suite without tests, or without one that ran, which may be one of several."""

_BROKEN_OFF = re.compile(
    r"\bcd: |can't cd to|activate: No such file|no such file or directory: |^INTERNALERROR>|^!+ KeyboardInterrupt !+$",
    re.MULTILINE,
)
"""Words of a command whose tests did not start, or did not end."""

_HARMLESS = re.compile(r"(?:cd|pushd|export|set|source|\.|echo|true)(?:\s|$)|(?:\w+=\S*\s*)+$")
"""Commands in front of tests that fail only where `_BROKEN_OFF` says so."""

_TELLING = re.compile(
    r"[Ff]ail|FAIL|[Pp]ass|[Ee]rror|\b(?:ok|OK|Ran|[Tt]ests?|found|Missing|module|rule|collected|skipped|deselected)\b"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NO_VERDICT_CODES = frozenset({4, 5, 124, 126, 127, 130, 137, 143})
"""Codes of a command that was not found, misused, ended from outside, or that ran no test (pytest: 4, 5)."""


class OutcomeEvidence(NamedTuple):
    """The verdict that what happened gives: the code of its kind, the reason, and the call that decided."""

    verdict: VerdictValue
    code: str
    reason: str
    call: str = ""
    at: str | None = None


class SuiteRun(NamedTuple):
    """One run of tests in a call: whether they passed, their targets, and the words that say so."""

    call: ToolUse
    passed: bool
    targets: frozenset[str]
    seen: str


class _Segment(NamedTuple):
    words: str
    is_masked: bool
    is_joined: bool


def evidence_of(run: TranscriptRun) -> OutcomeEvidence | None:
    """Return the verdict that follows from the reward of a run's trial, else from its own tests; None without one.

    None too for a run that was interrupted, ended by an error that isn't its own, or did not end. The tests that an
    agent ran within a trial decide nothing: the trial has tests of its own.
    """
    if run.trial is not None:
        return _rewarded(run.trial.reward) if not run.trial.error else None
    if run.ending != "done" or run.form == "atif":
        return None
    return _decided(list(suite_runs(run.calls)))


def _rewarded(reward: float | None) -> OutcomeEvidence | None:
    if reward is None:
        return None
    verdict: VerdictValue = "success" if reward >= 1 else "failure" if reward <= 0 else "undecided"
    return OutcomeEvidence(verdict, "reward", f"the tests of the trial gave the reward {reward:g}")


def _decided(runs: Sequence[SuiteRun]) -> OutcomeEvidence | None:
    """Return the verdict of test runs in order: the last one's, unless it healed only a part of an earlier red one."""
    if not runs:
        return None
    last = runs[-1]
    unhealed = (
        run
        for number, run in enumerate(runs)
        if not run.passed and not any(later.passed and _covers(later, run) for later in runs[number + 1 :])
    )
    if last.passed and any(unhealed):
        return None
    verdict: VerdictValue = "success" if last.passed else "failure"
    code = "tests_passed" if last.passed else "tests_failed"
    return OutcomeEvidence(verdict, code, f"{last.call.command.strip()}: {last.seen}", last.call.id, last.call.ended)


def _covers(green: SuiteRun, red: SuiteRun) -> bool:
    """Return whether a green run ran at least the tests of a red one, as far as their targets tell."""
    return not green.targets or green.targets == red.targets


def suite_runs(calls: Sequence[ToolUse]) -> Iterator[SuiteRun]:
    """Yield the test runs among calls whose outcome is known."""
    for call in calls:
        if not call.answered or call.is_stopped or not (command := call.command):
            continue
        segments = [each for each in _segments(command) if _TEST_COMMAND.match(each.words)]
        segments = [each for each in segments if not _NO_TEST.search(each.words)]
        if segments and (found := _outcome(call, segments)) is not None:
            passed, seen = found
            yield SuiteRun(call, passed, frozenset(_targets(segments)), seen)


def _outcome(call: ToolUse, segments: Sequence[_Segment]) -> tuple[bool, str] | None:
    """Return whether the tests passed, with the words or the code that say so; None where neither is known."""
    text = _telling_lines(f"{call.result}\n{call.end}" if call.end else call.result)
    red, green = _RED.search(text), None
    code = call.exit_code
    is_whole = len(segments) == 1 and not segments[0].is_masked
    if red is not None:
        return False, _line_of(text, red)
    if _NOTHING.search(text):
        return None
    ran = _ALL_SKIPPED.sub("", text)
    green = _GREEN.search(ran)
    if green is None and (ran != text or _EMPTY.search(text)):
        return None
    if is_whole and code is not None:
        if code == 0:
            return True, _line_of(ran, green) if green else "exit code 0"
        is_broken = code < 0 or code in _NO_VERDICT_CODES or _BROKEN_OFF.search(call.result)
        if is_broken or segments[0].is_joined:
            return None
        return False, f"exit code {code}"
    if green is not None and (code in (0, None) or not is_whole):
        seen = _line_of(ran, green)
        # A summary that the command line itself spells is no word of any tests.
        return None if seen in call.command else (True, seen)
    return None


def _telling_lines(text: str) -> str:
    """Return the lines that may be of a summary: the others have all the spaces at which a pattern is tried."""
    lines = (_COLOURS.sub("", line) if "\x1b" in line else line for line in text.split("\n"))
    return "\n".join(line.rstrip("\r") for line in lines if _TELLING.search(line))


def _line_of(text: str, found: re.Match[str]) -> str:
    start = text.rfind("\n", 0, found.end() - 1) + 1
    end = text.find("\n", found.end())
    return text[start : end if end >= 0 else None].strip(" =\t")


def _segments(command: str) -> Iterator[_Segment]:
    """Yield the simple commands of a command line, bare of assignments and wrappers.

    `is_masked`: the line's exit code isn't this command's. `is_joined`: another one stands before or behind it with
    `&&`, and a failure may be that one's.
    """
    # Of the same length, so that places stay: a separator within quotes separates nothing.
    plain = _QUOTED.sub(lambda found: "_" * len(found[0]), command)
    parts, start = list[tuple[str, str]](), 0
    for found in _SEPARATOR.finditer(plain):
        parts.append((command[start : found.start()], found[1]))
        start = found.end()
    parts.append((command[start:], ""))
    has_pipefail = "pipefail" in command
    for number, (words, after) in enumerate(parts):
        later = [text.strip() for text, _ in parts[number + 1 :]]
        is_end = not any(later)
        piped = after == "|" and has_pipefail
        is_masked = after == "&" or (not is_end and after not in ("&&", "") and not piped)
        behind = [mark for text, mark in parts[number:] if text.strip()][:-1]
        is_masked = is_masked or (not is_end and any(mark in (";", "\n", "||") for mark in behind))
        # After `||` the tests may not have run; `!` turns their exit code round.
        is_masked = is_masked or (number > 0 and parts[number - 1][1] == "||") or words.lstrip().startswith("! ")
        needed = (text.strip() for text, mark in parts[:number] if mark == "&&")
        is_joined = (after == "&&" and not is_end) or not all(map(_HARMLESS.match, needed))
        yield _Segment(_bare(words), is_masked, is_joined)


def _bare(words: str) -> str:
    """Return a simple command without assignments, wrappers and runners in front of it."""
    rest = words.strip()
    while rest:
        head, _, tail = rest.partition(" ")
        runner = next((each for each in (*_RUNNERS, *_RUNNERS_MORE) if rest.startswith(each + " ")), None)
        if runner is not None:
            rest = _without_options(rest[len(runner) :].strip())
        elif head == "timeout":
            rest = re.sub(r"^(?:-\S+\s+)*\S+\s*", "", tail.strip())
        elif head in _WRAPPERS:
            rest = _without_options(tail.strip())
        elif _ASSIGNED.match(head):
            quoted = re.match(r"^\w+=(?:\"[^\"]*\"|'[^']*'|\S*)\s*", rest)
            rest = rest[quoted.end() :] if quoted else tail.strip()
        else:
            break
    return rest.lstrip("({ ")


def _without_options(words: str) -> str:
    return re.sub(r"^(?:-\S+\s+(?:\d+\s+)?)+", "", words) if not words.startswith(("-m ", "-c ")) else words


def _targets(segments: Sequence[_Segment]) -> Iterator[str]:
    """Yield what narrows the tests of a command: files, names, expressions; nothing for a run of all."""
    for segment in segments:
        found = _TEST_COMMAND.match(segment.words)
        rest = segment.words[found.end() :] if found else ""
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:
            words = rest.split()
        takes = ""
        for word in words:
            if takes:
                yield f"{takes} {word}"
                takes = ""
            elif word in ("-k", "-m", "-t", "-run", "--grep", "-p", "--package", "--testNamePattern"):
                takes = word
            elif not word.startswith("-") and word not in ("./...", ".", "tests", "tests/", "discover", "2>&1"):
                yield word
