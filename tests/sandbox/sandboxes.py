"""Sandboxes for tests: real ones, offline. A start takes seconds of a processor, so all tests of a process take the
same session in turn, as long as it lasts; a test that has to lose one pays for the next."""

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
from rbank_es.sandbox import deno
from rbank_es.sandbox.guest_protocol import Lost, TimeLimits
from rbank_es.sandbox.session import EXECUTION_INSTRUCTIONS, SandboxSettings, Session, warm

if TYPE_CHECKING:
    from rbank_es.sandbox.interpreter import Sandbox

MANY = 1_000
PATIENCE_S = 60


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


class Lent:
    """A session that outlives the sandbox it is lent to, unless it was lost."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.is_taken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def end(self) -> None:
        """Give it back."""
        self.is_taken = False

    def is_as_new(self) -> bool:
        """Whether it is there and free, and holds nothing of the test before; the end of it otherwise."""
        if self.is_taken or not self._session.alive:
            return False
        try:
            self._session.run(FORGET, {}, _no_answer, TimeLimits.alike(PATIENCE_S))
        except Lost:
            return False
        self._session.registered, self._session.steps = "", 0
        return True


FORGET = """
for _ in [name for name in globals() if name not in ("__name__", "__builtins__")]:
    del globals()[_]
"""


def _no_answer(name: str, arguments: dict[str, Any]) -> str:
    raise AssertionError("no step is running")


_LENT: list[Lent] = []


def lent(settings: SandboxSettings) -> Any:
    """The session that tests take in turn; a new one where it was lost, or somebody has it."""
    made = next((each for each in _LENT if each.is_as_new()), None)
    if made is None:
        session = Session(runtime(), memory_bytes=settings.memory_bytes)
        made = Lent(session)
        _LENT.append(made)
        atexit.register(session.end)
    made.is_taken = True
    return made


def sandbox(**given: Any) -> Sandbox:
    """A sandbox with the session that is lent. Settings by name beside its arguments; restarts without end."""
    from rbank_es.sandbox.interpreter import Sandbox

    names = {"step_code_s", "step_wall_s", "restarts", "sub_agents"} & given.keys()
    settings = SandboxSettings(**{"restarts": MANY} | {name: given.pop(name) for name in names})
    return Sandbox(settings=settings, take_session=lent, **given)


def standing_in(place: Path, **given: Any) -> Sandbox:
    """A sandbox in which a stand-in for Deno runs, that starts at once: see `fake_deno`."""
    from rbank_es.sandbox.interpreter import Sandbox
    from tests.sandbox.fake_deno import fake

    place.mkdir(exist_ok=True)
    runtime = fake(place)
    return Sandbox(take_session=lambda settings: Session(runtime), **given)


class Lender:
    """What a loop takes sandboxes from, as from a pool: all of them get the session that is lent, one after another."""

    execution_instructions = EXECUTION_INSTRUCTIONS

    def __call__(self) -> Sandbox:
        return sandbox()


def limited(target: Sandbox, step_code_s: float) -> None:
    """Give its steps less time from now on."""
    target.settings = msgspec.structs.replace(target.settings, step_code_s=step_code_s)


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
