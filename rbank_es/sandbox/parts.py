"""The parts of the sandbox, compared with the digests that ship with this package before they are used.

    Deno's binary    of each release in `digests.json`, for every platform that it is built for
    dspy's runner    of each release of dspy there
    Pyodide's files  of each release there, as they lie in the cache of `doctor --warm`

For a release of Deno or dspy that is not in the table, the record that pip kept of what it installed is compared. Of a
Deno that pip did not install nothing is known: it is used, and `doctor` says so. A release of Pyodide that is not in
the table is refused, because its files were fetched without anybody's digest.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import RBankError, SandboxUnavailable
from rbank_es.sandbox import deno
from rbank_es.sandbox.deno import Deno
from rbank_es.system.files import open_scratch, opened, read_regular

_NOTED_BYTES = 64 * limits.KIB
"""Bytes that are read of the note of compared parts: ten lines of a path and a digest."""

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
    """Return what an agent's code may run on: all parts found, the cache filled, every digest as it must be.

    Raises `SandboxUnavailable`, as `deno.find` does; `cold` and `wrong_part`.
    """
    runtime = deno.find()
    if not runtime.is_warm:
        raise SandboxUnavailable("cold", f"the sandbox's cache {runtime.cache} is not filled", deno.WARM)
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
    known, release = known_digests(), deno.dspy_release()
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
        reason = f"dspy {deno.dspy_release()} wants Pyodide {runtime.pyodide}, whose digests rbank-es doesn't have"
        raise SandboxUnavailable("wrong_part", reason, f"pip install 'dspy=={'.'.join(map(str, deno.DSPY_LEAST))}'")
    fix = f"remove {runtime.cache}, then {deno.WARM}"
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
        data = read_regular(runtime.cache / _NOTED, _NOTED_BYTES)
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
