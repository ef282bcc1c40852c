"""Deno, the runtime of the sandbox: its binary, its command line, and the cache from which it starts offline.

The cache belongs to this project alone, because other users of Deno must not change the sandbox's code. `session.warm`
fills it once, with a network; every session of an agent starts from it, or fails.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from rbank_es import limits
from rbank_es.errors import SandboxUnavailable
from rbank_es.system.files import cache_folder

_PROBE_S = 10.0
"""How long Deno may take to print its release."""

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
            f"--v8-flags=--max-old-space-size={limits.SANDBOX_HEAP_BYTES // limits.MIB}",
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
    """Return what the sandbox runs on here. Neither imports dspy nor starts Deno.

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
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_PROBE_S, check=False)
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
    """Return the first three numbers of a release."""
    return tuple(int(part) for part in re.findall(r"\d+", release.split("+")[0])[:3])


def _dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def _real(path: Path) -> str:
    # Without symlinks, because Deno compares granted paths with real ones.
    return os.path.realpath(path)
