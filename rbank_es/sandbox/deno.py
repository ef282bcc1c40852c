"""Deno, the runtime of the sandbox: its binary, its command line, and the cache from which it starts offline.

The cache belongs to this project alone, because other users of Deno must not change the sandbox's code. `session.warm`
fills it once, with a network; every session of an agent starts from it, or fails. Its parts are compared with the
digests that ship with this package before they are used:

    Deno's binary    of each release in `digests.json`, for every platform that it is built for
    dspy's runner    of each release of dspy there
    Pyodide's files  of each release there, as they lie in the cache of `doctor --warm`

For a release of Deno or dspy that is not in the table, the record that pip kept of what it installed is compared. Of a
Deno that pip did not install nothing is known: it is used, and `doctor` says so. A release of Pyodide that is not in
the table is refused, because its files were fetched without anybody's digest.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import RBankError, SandboxUnavailable
from rbank_es.limits import sandbox_limits
from rbank_es.system.files import cache_folder, open_scratch, opened, read_regular

INSTALL = "install it with: pip install 'rbank-es[agent]'"
WARM = "run once, with a network: rbank-es doctor --warm"

DSPY_LEAST, DSPY_BELOW = (3, 4, 1), (3, 5, 0)
DENO_LEAST, DENO_BELOW = (2, 5, 0), (3, 0, 0)
"""Supported releases: from the first, to below the second."""

REFUSED = ("env", "ffi", "import", "net", "run", "sys", "write")
"""Permissions of Deno that are denied by name. Readable are dspy's runner and, until a session is ready, the cache."""

KEPT_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "NPM_CONFIG_REGISTRY")
"""Variables that a session inherits, because it must find the same parts as `warm` did."""

_MOVE = "set RBANK_CACHE to a directory that can be written"
_HERE = Path(__file__).parent
_STORAGE = "location_data"
_PYODIDE = re.compile(rb"npm:pyodide@([\w.+-]+)/")


class Deno(NamedTuple):
    """A Deno installation: its binary, dspy's runner, and this project's cache."""

    executable: Path
    runner: Path
    cache: Path

    def command(self, *, offline: bool = True) -> list[str]:
        """Return the command line of one session. With `offline=False`, missing parts are fetched."""
        readable = ",".join(_real(path) for path in (self.runner, self.cache))
        return [
            str(self.executable),
            "run",
            *(["--cached-only", "--no-remote"] if offline else []),
            "--quiet",
            # No prompt, config or lock file: nothing in the current directory may change what runs.
            "--no-prompt",
            "--no-config",
            "--no-lock",
            # Bytecode in the cache would run in place of the source whose digest was compared.
            "--no-code-cache",
            "--node-modules-dir=none",
            f"--import-map={_HERE / 'import_map.json'}",
            f"--v8-flags=--max-old-space-size={sandbox_limits.SANDBOX_HEAP_BYTES // limits.MIB}",
            *(f"--deny-{name}" for name in REFUSED),
            f"--allow-read={readable}",
            _real(self.runner),
            "",  # environment variables that the runner should hand on
            f"--dspy-deno-dir={_real(self.cache)}",
        ]

    def environment(self, *, offline: bool = True) -> dict[str, str]:
        """Return the environment of that command: almost empty, but whole for fetching (proxies, certificates)."""
        given = os.environ if not offline else {n: os.environ[n] for n in KEPT_ENVIRONMENT if n in os.environ}
        own = {"DENO_DIR": _real(self.cache), "DENO_NO_PACKAGE_JSON": "1", "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
        return {**given, **own}

    @property
    def pyodide(self) -> str:
        """The release of Pyodide that dspy's runner imports; empty if unknown."""
        found = _PYODIDE.search(self.runner.read_bytes())
        return found[1].decode() if found else ""

    @property
    def is_warm(self) -> bool:
        """Whether the cache holds that release, judged by its folders."""
        return any(self.cache.glob(f"npm/*/pyodide/{self.pyodide}/package.json"))

    def prepare(self) -> None:
        """Make the cache's directory. Raises `SandboxUnavailable` if it can't be written."""
        # A file in the place of web storage's folder: storage needs no permission, and would outlive its session.
        place = self.cache / _STORAGE
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                shutil.rmtree(place)
            if not place.exists():
                place.touch()
        except OSError as error:
            reason = f"can't write the cache {self.cache}: {error.strerror or error}"
            raise SandboxUnavailable("no_cache", reason, _MOVE) from error

    @contextmanager
    def lock_cache(self) -> Iterator[None]:
        """Hold the lock under which one process at a time fills the cache."""
        self.prepare()
        with (self.cache / ".warming").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def find() -> Deno:
    """Return the runtime of the sandbox here. Neither imports dspy nor starts Deno.

    Raises `SandboxUnavailable` (no_deno, no_dspy, wrong_dspy, no_cache).
    """
    return Deno(find_executable(), find_runner(), find_cache())


def find_executable() -> Path:
    """Return Deno's binary: the Python package's, else that on the PATH. Raises `SandboxUnavailable` (no_deno)."""
    if find_spec("deno") is not None:
        from deno import find_deno_bin

        with suppress(FileNotFoundError):
            return Path(find_deno_bin())
    found = shutil.which("deno")
    if not found:
        raise SandboxUnavailable("no_deno", "Deno is not installed", INSTALL)
    return Path(found)


def find_runner() -> Path:
    """Return dspy's script for Deno. Raises `SandboxUnavailable` (no_dspy, wrong_dspy)."""
    spec = find_spec("dspy")
    if spec is None or not spec.submodule_search_locations:
        raise SandboxUnavailable("no_dspy", "dspy is not installed", INSTALL)
    release = dspy_release()
    if not DSPY_LEAST <= numbers(release) < DSPY_BELOW:
        wanted = f"dspy>={_dotted(DSPY_LEAST)},<{_dotted(DSPY_BELOW)}"
        raise SandboxUnavailable("wrong_dspy", f"dspy {release} is not {wanted}", f"pip install '{wanted}'")
    return Path(spec.submodule_search_locations[0], "primitives", "runner.js")


def find_cache() -> Path:
    """Return the cache's directory. Raises `SandboxUnavailable` (no_cache) if it would not outlive this process."""
    place = cache_folder("deno")
    if place is None:
        named = os.environ.get("RBANK_CACHE")
        raise SandboxUnavailable("no_cache", f"can't write to {named or 'the cache directory of this user'}", _MOVE)
    return place


def dspy_release() -> str:
    """Return the installed release of dspy; empty if there is none."""
    try:
        return importlib.metadata.version("dspy")
    except importlib.metadata.PackageNotFoundError:
        return ""


def release_of(executable: Path) -> str:
    """Run Deno for its release; return an empty text if it doesn't run."""
    try:
        asked = [str(executable), "--version"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=sandbox_limits.DENO_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.match(r"deno (\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else ""


def check_release(executable: Path) -> str:
    """Return the release of a supported Deno. Raises `SandboxUnavailable` (wrong_deno) for another."""
    release = release_of(executable)
    if not DENO_LEAST <= numbers(release) < DENO_BELOW:
        wanted = f">={_dotted(DENO_LEAST)},<{_dotted(DENO_BELOW)}"
        what = f"Deno {release} at {executable}" if release else f"{executable}, which doesn't tell its release,"
        raise SandboxUnavailable("wrong_deno", f"{what} is not {wanted}", f"pip install 'deno{wanted}'")
    return release


def numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release."""
    return tuple(map(int, re.findall(r"\d+", release.split("+")[0])))


def _dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def _real(path: Path) -> str:
    # Without symlinks, because Deno compares granted paths with real ones.
    return os.path.realpath(path)


_TABLE = Path(__file__).with_name("digests.json")
_NOTED = "compared.json"


class _Digests(msgspec.Struct, frozen=True):
    deno: dict[str, tuple[str, ...]]
    dspy: dict[str, tuple[str, ...]]
    pyodide: dict[str, dict[str, str]]


class _Part(NamedTuple):
    """A file, the SHA-256 digests that it may have (none: nobody knows), and what to do about another."""

    name: str
    path: Path
    digests: Set[str]
    fix: str


def ready_runtime() -> Deno:
    """Return the runtime that an agent's code may use: all parts found, the cache filled, every digest as it must be.

    Raises `SandboxUnavailable`, as `find` does; `cold` and `wrong_part`.
    """
    runtime = find()
    if not runtime.is_warm:
        raise SandboxUnavailable("cold", f"the sandbox's cache {runtime.cache} is not filled", WARM)
    compare(runtime)
    return runtime


def compare(runtime: Deno, *, again: bool = False) -> list[str]:
    """Return the names of parts that have no known digest. Raises `SandboxUnavailable` (wrong_part) for a wrong one.

    A file whose size, times and inode are those of an earlier comparison is not read again, unless `again`.
    """
    noted = {} if again else _read_noted(runtime)
    seen: dict[str, str] = {}
    unknown = []
    for part in _parts(runtime):
        if not part.digests:
            unknown.append(part.name)
            continue
        found = _digest(part, noted, seen)
        if found not in part.digests:
            reason = f"{part.name} at {part.path} is not the file that was released: its SHA-256 is {found}"
            raise SandboxUnavailable("wrong_part", reason, part.fix)
    if seen != noted:
        _note(runtime, seen)
    return unknown


def _parts(runtime: Deno) -> Iterator[_Part]:
    """Yield the parts, the cheapest to compare first."""
    known, release = known_digests(), dspy_release()
    again = "pip install --force-reinstall --no-deps {}=={}"
    runner = frozenset(known.dspy.get(release, ())) or recorded_digest("dspy", runtime.runner)
    yield _Part("dspy's runner", runtime.runner, runner, again.format("dspy", release))
    yield from _parts_of_pyodide(runtime, known.pyodide)
    installed = _release_of_binary(runtime.executable)
    binary = frozenset(known.deno.get(installed, ())) or recorded_digest("deno", runtime.executable)
    yield _Part(f"Deno {installed}".strip(), runtime.executable, binary, again.format("deno", installed))


def _parts_of_pyodide(runtime: Deno, known: Mapping[str, Mapping[str, str]]) -> Iterator[_Part]:
    files = known.get(runtime.pyodide)
    if files is None:
        reason = f"dspy {dspy_release()} wants Pyodide {runtime.pyodide}, whose digests rbank-es doesn't have"
        raise SandboxUnavailable("wrong_part", reason, f"pip install 'dspy=={'.'.join(map(str, DSPY_LEAST))}'")
    fix = f"remove {runtime.cache}, then {WARM}"
    for folder in sorted(runtime.cache.glob(f"npm/*/pyodide/{runtime.pyodide}")):
        for name, digest in files.items():
            yield _Part(f"Pyodide's {name}", folder / name, {digest}, fix)


@cache
def known_digests() -> _Digests:
    """Return the digests of the parts of all releases that are known."""
    return msgspec.json.decode(_TABLE.read_bytes(), type=_Digests)


def _release_of_binary(executable: Path) -> str:
    """Return the release of the Python package that installed a binary; empty if none did."""
    return metadata.version("deno") if recorded_digest("deno", executable) else ""


def recorded_digest(package: str, path: Path) -> frozenset[str]:
    """Return the digest of an installed file that pip noted, none if it installed no such file."""
    try:
        files = metadata.distribution(package).files or ()
    except metadata.PackageNotFoundError:
        return frozenset()
    noted = next((file.hash for file in files if file.name == path.name and file.hash is not None), None)
    if noted is None or noted.mode != "sha256":
        return frozenset()
    return frozenset({base64.urlsafe_b64decode(noted.value + "=" * (-len(noted.value) % 4)).hex()})


# ---------------------------------------------------------------- digests, and those that were compared before


def _digest(part: _Part, noted: Mapping[str, str], seen: dict[str, str]) -> str:
    """Return the SHA-256 of a part, from `noted` if the file is the same; add it to `seen`."""
    try:
        with opened(part.path, follow=True) as descriptor, os.fdopen(descriptor, "rb", closefd=False) as file:
            key = _key(part.path, os.fstat(descriptor))
            seen[key] = noted.get(key) or hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = f"{part.name} at {part.path} can't be read: {error.strerror or error}"
        raise SandboxUnavailable("wrong_part", reason, part.fix) from error
    return seen[key]


def _key(path: Path, status: os.stat_result) -> str:
    # With the time of the last change of the inode, which no program can set.
    return f"{path}:{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def _read_noted(runtime: Deno) -> dict[str, str]:
    try:
        data = read_regular(runtime.cache / _NOTED, sandbox_limits.SANDBOX_NOTE_BYTES)
        return msgspec.json.decode(data, type=dict[str, str])
    except (OSError, RBankError, msgspec.DecodeError):
        return {}


def _note(runtime: Deno, seen: Mapping[str, str]) -> None:
    # If it can't be written, the next process reads the files again, which takes a quarter of a second.
    with suppress(OSError):
        descriptor, scratch = open_scratch(runtime.cache / _NOTED)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(seen))
        scratch.replace(runtime.cache / _NOTED)
