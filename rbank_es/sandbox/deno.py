"""Deno, the runtime of the sandbox: where it is, how it is called, and the cache it starts from without a network.

The cache is ours, so nothing else that uses Deno changes what the sandbox runs. It is filled once, by `warm`, the only
thing here that uses the network; every session of an agent starts with what is there, or not at all.
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
from rbank_es.ontology.graph_cache import cache_directory

INSTALL = "install it with: pip install 'rbank-es[agent]'"
WARM = "run once, with a network: rbank-es doctor --warm"

DSPY_LEAST, DSPY_BELOW = (3, 4, 1), (3, 5, 0)
DENO_LEAST, DENO_BELOW = (2, 5, 0), (3, 0, 0)
"""Releases that this was tried with: from the first, to below the second."""

REFUSED = ("env", "ffi", "import", "net", "run", "sys", "write")
"""Deno's permissions that are refused by name. What may be read: dspy's runner and, until it is ready, the cache."""

KEPT_ENVIRONMENT = ("HOME", "LD_LIBRARY_PATH", "NPM_CONFIG_REGISTRY")
"""What the process of a session gets of this one's environment: it must find the same parts as `warm` did."""

_MOVE = "set RBANK_CACHE to a directory that can be written"
_HERE = Path(__file__).parent
_STORAGE = "location_data"
_PROBE_S = 10.0
_PYODIDE = re.compile(rb"npm:pyodide@([\w.+-]+)/")


class Deno(NamedTuple):
    """A Deno that can run the sandbox: its binary, dspy's runner, and our cache."""

    executable: Path
    runner: Path
    cache: Path

    def command(self, *, offline: bool = True) -> list[str]:
        """The command line of one session. Only with `offline=False` may parts be fetched that are not in the cache."""
        readable = ",".join(_real(path) for path in (self.runner, self.cache))
        return [
            str(self.executable),
            "run",
            *(["--cached-only", "--no-remote"] if offline else []),
            "--quiet",
            "--no-prompt",
            "--no-config",
            "--no-lock",
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
        """The environment of that command: next to nothing. To fetch parts it needs proxies and certificates: all."""
        given = os.environ if not offline else {n: os.environ[n] for n in KEPT_ENVIRONMENT if n in os.environ}
        own = {"DENO_DIR": _real(self.cache), "DENO_NO_PACKAGE_JSON": "1", "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
        return {**given, **own}

    @property
    def pyodide(self) -> str:
        """The release of Pyodide that dspy's runner asks for; empty if it doesn't say."""
        found = _PYODIDE.search(self.runner.read_bytes())
        return found[1].decode() if found else ""

    @property
    def is_warm(self) -> bool:
        """Whether the cache holds that release, as far as its folders tell."""
        return any(self.cache.glob(f"npm/*/pyodide/{self.pyodide}/package.json"))

    def prepare(self) -> None:
        """Make the cache's directory, in such a way that no session can store anything in it.

        Web storage (localStorage, caches) needs no permission and would outlive the session, in a folder of the
        cache. A file takes that folder's place.

        Raises:
            SandboxUnavailable: the directory can't be written.
        """
        place = self.cache / _STORAGE
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            if place.is_dir():
                shutil.rmtree(place)
            if not place.exists():
                place.touch()
        except OSError as error:
            reason = f"can't write the cache {self.cache}: {error.strerror or error}"
            raise SandboxUnavailable(
                "no_cache", reason, "set RBANK_CACHE to a directory that can be written"
            ) from error

    @contextmanager
    def being_warmed(self) -> Iterator[None]:
        """Only one process at a time fills the cache."""
        self.prepare()
        with (self.cache / ".warming").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def find() -> Deno:
    """What the sandbox runs on here. Neither imports dspy nor starts Deno.

    Raises:
        SandboxUnavailable: dspy or Deno is not installed, dspy is of another release, or there is no place for a cache.
    """
    return Deno(find_executable(), find_runner(), find_cache())


def find_executable() -> Path:
    """Deno's binary: that of the Python package, else that on the PATH. Raises `SandboxUnavailable` (no_deno)."""
    if find_spec("deno") is not None:
        from deno import find_deno_bin

        with suppress(FileNotFoundError):
            return Path(find_deno_bin())
    found = shutil.which("deno")
    if not found:
        raise SandboxUnavailable("no_deno", "Deno is not installed", INSTALL)
    return Path(found)


def find_runner() -> Path:
    """The script of dspy that runs in Deno. Raises `SandboxUnavailable` (no_dspy, wrong_dspy)."""
    spec = find_spec("dspy")
    if spec is None or not spec.submodule_search_locations:
        raise SandboxUnavailable("no_dspy", "dspy is not installed", INSTALL)
    release = dspy_release()
    if not DSPY_LEAST <= numbers(release) < DSPY_BELOW:
        wanted = f"dspy>={_dotted(DSPY_LEAST)},<{_dotted(DSPY_BELOW)}"
        raise SandboxUnavailable("wrong_dspy", f"dspy {release} is not {wanted}", f"pip install '{wanted}'")
    return Path(spec.submodule_search_locations[0], "primitives", "runner.js")


def find_cache() -> Path:
    """Where the cache is. Raises `SandboxUnavailable` (no_cache) where it would not outlive this process."""
    place, named = cache_directory(), os.environ.get("RBANK_CACHE")
    if place != Path(named) if named else place.name != "rbank-es":
        raise SandboxUnavailable("no_cache", f"can't write to {named or 'the cache directory of this user'}", _MOVE)
    return place / "deno"


def dspy_release() -> str:
    """The installed release of dspy; empty if none is."""
    try:
        return importlib.metadata.version("dspy")
    except importlib.metadata.PackageNotFoundError:
        return ""


def release_of(executable: Path) -> str:
    """The release of a Deno, by asking it; empty if it doesn't run."""
    try:
        asked = [str(executable), "--version"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_PROBE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.match(r"deno (\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else ""


def check_release(executable: Path) -> str:
    """The release of a Deno that can run the sandbox. Raises `SandboxUnavailable` (wrong_deno)."""
    release = release_of(executable)
    if not DENO_LEAST <= numbers(release) < DENO_BELOW:
        wanted = f">={_dotted(DENO_LEAST)},<{_dotted(DENO_BELOW)}"
        what = f"Deno {release} at {executable}" if release else f"{executable}, which doesn't tell its release,"
        raise SandboxUnavailable("wrong_deno", f"{what} is not {wanted}", f"pip install 'deno{wanted}'")
    return release


def numbers(release: str) -> tuple[int, ...]:
    """The numbers that a release begins with."""
    return tuple(int(part) for part in re.findall(r"\d+", release.split("+")[0])[:3])


def _dotted(parts: tuple[int, ...]) -> str:
    return ".".join(map(str, parts))


def _real(path: Path) -> str:
    """The path without symlinks: Deno compares the paths that it is given with real ones."""
    return os.path.realpath(path)
