"""`doctor`: check the sandbox for an agent's code on this machine, and print a fix for each failure."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es.cli.shared.application import command
from rbank_es.cli.shared.output import echo, echo_fields, echo_heading, echo_json, styled

if TYPE_CHECKING:
    from rbank_es.sandbox.doctor import Check, Checkup

TIMES = {
    "fill_cache": "filling the cache",
    "start": "starting a session",
    "step": "an empty step",
    "tool_call": "a step with one call of a tool",
}


@command("doctor", "rbank-es doctor", "rbank-es doctor --warm", "rbank-es doctor --hooks")
@click.option("--hooks", is_flag=True, help="Check the hooks of coding agents instead, for the folder you are in.")
@click.option("--warm", is_flag=True, help="Fill the sandbox's cache first (13 MB from the npm registry).")
@click.pass_context
def doctor(context: click.Context, hooks: bool, warm: bool, as_json: bool) -> None:
    """Check whether the sandbox that runs an agent's code works here, and print fixes where it doesn't.

    The check starts a real session from the cache, without a network, and runs code that calls a tool. Agents never
    fetch anything, so the cache must be filled once with --warm. Exit code 1: the sandbox can't run.

    --hooks: where the hook is installed, whether it is trusted and found, its bank, its last run, and whether the last
    lesson that it gave reached the agent. Exit code 1: something of that fails.
    """
    if hooks:
        _check_hooks(context, as_json)
        return
    from rbank_es.sandbox.doctor import examine

    seen = examine(fill_cache=warm)
    seen = msgspec.structs.replace(seen, optional=(*seen.optional, _vectors()))
    if as_json:
        echo_json(seen)
    else:
        _print(seen)
    context.exit(0 if seen.ok else 1)


def _check_hooks(context: click.Context, as_json: bool) -> None:
    from rbank_es.agents.hook_checks import examine_hooks

    checks = examine_hooks(str(Path.cwd()))
    ok = all(check.ok for check in checks)
    if as_json:
        echo_json({"ok": ok, "checks": checks})
    else:
        for check in checks:
            _print_check(check, "ok", "FAILS")
    context.exit(0 if ok else 1)


def _vectors() -> Check:
    """Return whether cosines of large banks are quick here, and whether an endpoint of vectors would get a key."""
    from rbank_es.models.embedding_endpoint import KEY_VARIABLE
    from rbank_es.sandbox.doctor import Check

    key = f"{KEY_VARIABLE} is {'set' if os.environ.get(KEY_VARIABLE) else 'not set'}"
    if find_spec("numpy") is None:
        detail = f"numpy is not installed, so comparing vectors of many items is slow; {key}"
        return Check(name="vectors", ok=False, detail=detail, fix="pip install numpy")
    return Check(name="vectors", ok=True, detail=f"numpy {version('numpy')} compares those of many items; {key}")


def _print(seen: Checkup) -> None:
    for check in seen.checks:
        _print_check(check, "ok", "FAILS")
    if seen.times_s:
        echo_heading("times")
        echo_fields({TIMES[name]: _duration(seconds) for name, seconds in seen.times_s.items()}, indent=2)
    echo_heading("other optional parts")
    for check in seen.optional:
        _print_check(check, "ok", "absent")
    echo()
    echo("the sandbox can run here" if seen.ok else styled("the sandbox can't run here", "red"))


def _print_check(check: Check, good: str, bad: str) -> None:
    word, colour = (bad, "red") if not check.ok else ("warns", "yellow") if check.fix else (good, "green")
    mark = styled(word.ljust(6), colour)
    echo(f"{mark}  {check.name:<11}  {check.detail}")
    if check.fix:
        echo(f"{'':8}{'':13}to fix: {check.fix}")


def _duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
