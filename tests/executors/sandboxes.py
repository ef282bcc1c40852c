"""Sandboxes for tests: real ones, offline, from one pool for the whole process, so that few tests wait for a start."""

from __future__ import annotations

import atexit
import functools
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pytest

from rbank_es.errors import SandboxUnavailable
from rbank_es.executors import deno
from rbank_es.executors.pool import SandboxPool
from rbank_es.executors.session import warm
from rbank_es.executors.settings import SandboxSettings

if TYPE_CHECKING:
    from rbank_es.executors.sandbox import Sandbox

MANY = 1_000
PATIENCE_S = 10


def require_dspy() -> None:
    """Skip the module where dspy is missing; continuous integration must have it."""
    if find_spec("dspy") is None:
        refuse("dspy is not installed (pip install 'rbank-es[agent]')", module=True)


def refuse(reason: str, *, module: bool = False) -> NoReturn:
    """What can't be tried here fails in continuous integration, and is skipped elsewhere, with the reason."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=module)


@functools.cache
def runtime() -> deno.Deno:
    """What the sandbox runs on, its cache filled: by whoever set this up, else now, else the test can't be run."""
    try:
        found = deno.find()
        if not found.is_warm:
            warm(found)
    except SandboxUnavailable as error:
        refuse(str(error))
    return found


@functools.cache
def pool() -> SandboxPool:
    """The pool that all tests of this process take from."""
    runtime()
    made = SandboxPool(1)
    atexit.register(made.close)
    return made


def sandbox(**given: Any) -> Sandbox:
    """A sandbox with a session from the pool. Settings by name beside its arguments; restarts without end."""
    from rbank_es.executors.sandbox import Sandbox

    names = {"step_time_s", "restarts", "sub_agents"} & given.keys()
    settings = SandboxSettings(**{"restarts": MANY} | {name: given.pop(name) for name in names})
    return Sandbox(settings=settings, take_session=pool().take, **given)


def limited(target: Sandbox, step_time_s: float) -> None:
    """Give its steps less time from now on."""
    target.settings = msgspec.structs.replace(target.settings, step_time_s=step_time_s)


def is_gone(pid: int) -> bool:
    """Whether no process of that id runs any more; a dead one that nobody has waited for yet counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def soon_gone(*pids: int) -> bool:
    """Whether they are gone within a few seconds: whoever is not our child can't be waited for."""
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(is_gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return all(map(is_gone, pids))


def raised(action: Callable[[], Any]) -> BaseException:
    """What an action raises."""
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")
