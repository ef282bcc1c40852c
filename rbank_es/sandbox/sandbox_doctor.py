"""The doctor: a trial of the sandbox on this machine, with a fix for each failure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import RBankError, SandboxUnavailable
from rbank_es.limits import sandbox_limits
from rbank_es.sandbox import deno
from rbank_es.sandbox.deno import compare
from rbank_es.sandbox.session import warm

if TYPE_CHECKING:
    from rbank_es.sandbox.interpreter import Sandbox

ROUNDS = 20
"""Steps and calls that are timed; the report has their median."""

OPTIONAL = {
    "ontology": ("pyoxigraph", "ontologies and SPARQL"),
    "lab": ("scipy", "intervals and tests of experiments"),
}
"""Other extras of this package: the package that each installs, and its purpose."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check of the sandbox's needs. `fix` says what to do if it failed, or though it is ok: a warning."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """All checks in order, up to the first failure, and measured times in seconds.

    `optional` lists the package's other extras, which don't decide whether the sandbox works.
    """

    ok: bool
    checks: tuple[Check, ...]
    times_s: dict[str, float]
    optional: tuple[Check, ...]


class _Failed(Exception):
    """A failed check, after which no others can be made."""


class _Examination:
    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.times_s: dict[str, float] = {}

    @contextmanager
    def check(self, name: str, fix: str) -> Iterator[Callable[[str], None]]:
        """Make one check, which reports its finding through the yielded function. Any exception is its failure."""
        try:
            yield lambda detail: self.checks.append(Check(name=name, ok=True, detail=detail))
        except SandboxUnavailable as error:
            self.checks.append(Check(name=name, ok=False, detail=error.reason, fix=error.fix))
            raise _Failed from None
        except Exception as error:
            detail = str(error) if isinstance(error, RBankError) else f"{type(error).__name__}: {error}"
            self.checks.append(Check(name=name, ok=False, detail=detail, fix=fix))
            raise _Failed from None

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure the block, in seconds."""
        began = time.perf_counter()
        yield
        self.times_s[name] = round(time.perf_counter() - began, 4)

    def parts(self) -> None:
        """Check dspy and Deno."""
        with self.check("dspy", deno.INSTALL) as found:
            deno.find_runner()
            _load_dspy()
            found(deno.dspy_release())
        with self.check("Deno", deno.INSTALL) as found:
            executable = deno.find_executable()
            found(f"{deno.check_release(executable)}, {executable}")

    def cache(self, *, fill: bool) -> None:
        """Check that the cache holds Pyodide, and that every part has the digest of its release."""
        with self.check("cache", deno.WARM) as found:
            runtime = deno.find()
            if fill:
                with self.timed("fill_cache"):
                    warm(runtime)
            if not runtime.is_warm:
                raise SandboxUnavailable("cold", f"Pyodide {runtime.pyodide} is not in {runtime.cache}", deno.WARM)
            size_mib = _size_bytes(runtime.cache) / limits.MIB
            found(f"Pyodide {runtime.pyodide}, {size_mib:.0f} MiB in {runtime.cache}")
        with self.check("digests", deno.INSTALL) as found:
            unknown = compare(runtime, again=True)
            but = f"; of {' and '.join(unknown)} no digest is known" if unknown else ""
            found(f"every part is the one that was released{but}")

    def session(self) -> None:
        """Check that a session starts offline, runs code, calls a tool, and is confined."""
        from rbank_es.sandbox.interpreter import Sandbox

        # The real sandbox with the real limits, because only running it proves anything.
        sandbox = Sandbox(tools={"echo": _echo})
        try:
            with self.check("session", "see what it says; then: rbank-es doctor --warm") as found:
                with self.timed("start"):
                    sandbox.start()
                _expect(sandbox, "1 + 1", "2")
                self._median("step", lambda: _expect(sandbox, "None", None))
                found(f"starts from the cache in {self.times_s['start']:.1f} s and runs code")
            with self.check("tools", "install dspy and Deno again") as found:
                # Values that JavaScript would change if they were not passed as text.
                value = {"none": None, "number": 2**64, "float": 1.0}
                self._median("tool_call", lambda: _expect(sandbox, f"echo({value!r})", repr(value)))
                found("a call goes out and comes back as it was")
            with self.check("confinement", "don't run agents here; install dspy and Deno again") as found:
                found(_confinement(sandbox))
        finally:
            sandbox.shutdown()

    def _median(self, name: str, action: Callable[[], None]) -> None:
        durations = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            action()
            durations.append(time.perf_counter() - began)
        self.times_s[name] = round(statistics.median(durations), 6)


def examine(*, fill_cache: bool = False) -> Checkup:
    """Check everything, in the order in which it is needed, up to the first failure.

    `fill_cache` fills the cache first, if needed: 13 MB from the npm registry.
    """
    examination = _Examination()
    try:
        examination.parts()
        examination.cache(fill=fill_cache)
        examination.session()
        ok = True
    except _Failed:
        ok = False
    optional = tuple(_optional(extra, *what) for extra, what in OPTIONAL.items())
    return Checkup(ok=ok, checks=tuple(examination.checks), times_s=examination.times_s, optional=optional)


def _load_dspy() -> None:
    """Import dspy. Raises `SandboxUnavailable` where one of its dependencies is missing or broken."""
    try:
        import_module("dspy")
    except Exception as error:
        reason = f"dspy {deno.dspy_release()} can't be loaded: {type(error).__name__}: {error}"
        again = "install it again: pip install --force-reinstall 'rbank-es[agent]'"
        raise SandboxUnavailable("broken", reason, again) from error


def _echo(value: Any) -> Any:
    """Return the value."""
    return value


def _expect(sandbox: Sandbox, code: str, result: str | None) -> None:
    seen = sandbox.execute(code)
    if seen != result:
        raise ValueError(f"{code} gave {seen!r}")


def _confinement(sandbox: Sandbox) -> str:
    """Try what must be refused. Raises ValueError if it isn't."""
    attempts = {
        "a file of the host": f"js.Deno.readTextFileSync({str(Path(__file__))!r})",
        "the environment": "js.Deno.env.toObject()",
        "a socket": "js.Deno.listen(js.JSON.parse('{\"port\": 0}'))",
    }
    for what, code in attempts.items():
        # Through JavaScript, because Python's own functions are stubs in Pyodide and prove nothing.
        guarded = f"import js\ntry:\n    {code}\n    seen = 'open'\nexcept Exception:\n    seen = 'refused'\nseen"
        if sandbox.execute(guarded) != "refused":
            raise ValueError(f"the sandbox gets at {what}")
    bounded = sandbox.session is not None and sandbox.session.is_confined
    memory = (
        f"memory bounded to {sandbox_limits.SANDBOX_MEMORY_BYTES // limits.MIB} MiB"
        if bounded
        else "memory NOT bounded"
    )
    return f"no files, environment and sockets of the host; {memory}"


def _optional(extra: str, package: str, purpose: str) -> Check:
    if find_spec(package) is None:
        return Check(name=extra, ok=False, detail=f"not installed ({purpose})", fix=f"pip install 'rbank-es[{extra}]'")
    try:
        release = version(package)
    except PackageNotFoundError:
        release = "of unknown release"
    return Check(name=extra, ok=True, detail=f"{package} {release} ({purpose})")


def _size_bytes(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*"))
