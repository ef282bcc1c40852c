"""`doctor`: check the sandbox on this machine, the hooks of coding agents, or a model; print a fix for each failure."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from rbank_es import limits
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_fields, echo_heading, echo_json, styled
from rbank_es.errors import BadInput

if TYPE_CHECKING:
    from rbank_es.sandbox.sandbox_doctor import Check, Checkup

TIMES = {
    "fill_cache": "filling the cache",
    "start": "starting a session",
    "step": "an empty step",
    "tool_call": "a step with one call of a tool",
}


@command(
    "doctor",
    "rbank-es doctor",
    "rbank-es doctor --warm",
    "rbank-es doctor --hooks",
    "rbank-es doctor --lm openai/small --api-base http://localhost:8080/v1 --dry-run",
)
@click.option("--hooks", is_flag=True, help="Check the hooks of coding agents instead, for the folder you are in.")
@click.option("--warm", is_flag=True, help="Fill the sandbox's cache first (13 MB from the npm registry).")
@click.option("--lm", metavar="MODEL", help="Check a model instead, with at most 15 calls of it.")
@click.option("--api-base", metavar="URL", help="The address of your own model server.")
@click.option("--lm-arg", "lm_args", metavar="K=V", multiple=True, help="A parameter of the model.")
@click.option("--iterations", type=click.IntRange(1), help="Steps of a task, for the estimate of its time and cost.")
@click.option("--seconds", type=click.FloatRange(1), help="With --lm: for all its calls together; default: 120.")
@click.option("--dry-run", is_flag=True, help="With --lm: show the calls, and make none.")
@click.pass_context
def doctor(
    context: click.Context,
    hooks: bool,
    warm: bool,
    lm: str | None,
    api_base: str | None,
    lm_args: tuple[str, ...],
    iterations: int | None,
    seconds: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Check whether the sandbox that runs an agent's code works here, and print fixes where it doesn't.

    The check starts a real session from the cache, without a network, and runs code that calls a tool. Agents never
    fetch anything, so the cache must be filled once with --warm. Exit code 1: the sandbox can't run.

    --hooks: where the hook is installed, whether it is trusted and found, its bank, its last run, whether the last
    lesson that it gave reached the agent, and what traces wait for the bank. Exit code 1: something of that fails.

    --lm: whether a model is reached, what its server keeps (bounds, stop, JSON by schema, tools), which forms of reply
    the model keeps, how fast it is, and what follows: the executor, the options, the time and cost of a task, and the
    command to run next. The calls are shown before they are made, and end within --seconds: those that don't fit are
    left out, and named. Exit code 1: no run of it would get anywhere.
    """
    if lm is None and (api_base or lm_args or iterations or seconds or dry_run):
        raise BadInput(
            "--api-base, --lm-arg, --iterations, --seconds and --dry-run are about a model: name it with --lm"
        )
    if sum((hooks, warm, lm is not None)) > 1:
        raise BadInput("--hooks, --warm and --lm check different things: give one of them")
    if lm is not None:
        from rbank_es.cli.shared.model_doctor import examine_model
        from rbank_es.limits import reply_limits
        from rbank_es.models.model_choice import LmChoice

        choice = LmChoice.parse(lm, api_base=api_base, arguments=lm_args)
        within = seconds or reply_limits.DOCTOR_TIME_S
        good = examine_model(choice, iterations or limits.RUN_ITERATIONS, within, dry_run=dry_run, as_json=as_json)
        context.exit(0 if good else 1)
    if hooks:
        _check_hooks(context, as_json)
        return
    from rbank_es.sandbox.sandbox_doctor import examine

    seen = examine(fill_cache=warm)
    seen = msgspec.structs.replace(seen, optional=(*seen.optional, _vectors()))
    if as_json:
        echo_json(seen)
    else:
        _print(seen)
    context.exit(0 if seen.ok else 1)


def _check_hooks(context: click.Context, as_json: bool) -> None:
    from rbank_es.agents.hook_doctor import examine_hooks

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
    from rbank_es.sandbox.sandbox_doctor import Check

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
