"""Parts of the sandbox that somebody changed: no session starts from them, and `doctor` names the part."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from rbank_es.errors import SandboxUnavailable
from rbank_es.sandbox import deno
from rbank_es.sandbox.deno import Deno
from rbank_es.sandbox.session import SandboxSettings, start_session
from tests.cli_runner import run
from tests.odd_files import KINDS, put
from tests.sandbox import sandboxes

pytestmark = pytest.mark.xdist_group("sandbox")

PYODIDE = sorted(msgspec.json.decode(Path(deno.__file__).with_name("digests.json").read_bytes())["pyodide"]["0.29.4"])


@pytest.fixture
def runtime(tmp_path: Path) -> Deno:
    """The real Deno and runner, with a copy of the cache."""
    found = sandboxes.runtime()
    [package] = found.cache.glob(f"npm/*/pyodide/{found.pyodide}")
    cache = tmp_path / "deno"
    shutil.copytree(package, cache / package.relative_to(found.cache))
    return found._replace(cache=cache)


def package_of(runtime: Deno) -> Path:
    [package] = runtime.cache.glob("npm/*/pyodide/0.29.4")
    return package


def flip(path: Path) -> None:
    """Change one bit in the middle, and keep size and time of modification."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def refusal(runtime: Deno) -> SandboxUnavailable:
    with pytest.raises(SandboxUnavailable) as refused:
        deno.compare(runtime)
    assert refused.value.code == "wrong_part" and refused.value.fix
    return refused.value


@pytest.mark.slow
def test_the_parts_as_they_were_released_are_used(runtime: Deno) -> None:
    assert deno.compare(runtime) == [] == deno.compare(runtime, again=True)


@pytest.mark.parametrize("name", PYODIDE)
def test_a_flipped_bit_in_pyodide_is_refused_by_name(runtime: Deno, name: str) -> None:
    """Also where the file was compared before, and its size and time of modification are the same."""
    deno.compare(runtime)
    flip(package_of(runtime) / name)
    assert name in str(refusal(runtime)) and "doctor --warm" in refusal(runtime).fix


@pytest.mark.parametrize("kind", [*KINDS, "nothing"])
def test_what_is_no_file_is_refused_at_once(runtime: Deno, tmp_path: Path, kind: str) -> None:
    place = package_of(runtime) / "pyodide.asm.js"
    place.unlink()
    (tmp_path / "file").write_text("mine")
    if kind in KINDS:
        put(place, kind, tmp_path)
    assert "pyodide.asm.js" in str(refusal(runtime))


def test_another_runner_is_refused(runtime: Deno, tmp_path: Path) -> None:
    runner = tmp_path / "runner.js"
    shutil.copy(runtime.runner, runner)
    runner.write_text(runner.read_text() + "\nconsole.error('mine');\n")
    assert "dspy's runner" in str(refusal(runtime._replace(runner=runner)))


def test_another_binary_of_the_same_name_is_refused(runtime: Deno, tmp_path: Path) -> None:
    binary = tmp_path / "deno-elsewhere" / runtime.executable.name
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\nexec true\n")
    refused = refusal(runtime._replace(executable=binary))
    assert str(binary) in str(refused) and "--force-reinstall" in refused.fix


def test_a_binary_that_was_changed_with_the_record_of_pip_is_refused(
    runtime: Deno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a release that is known, the digest that ships counts, not the one noted where whoever changed it could."""
    binary = tmp_path / "changed" / runtime.executable.name
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\nexec true\n")
    noted = frozenset({hashlib.sha256(binary.read_bytes()).hexdigest()})
    monkeypatch.setattr(deno, "recorded_digest", lambda package, path: noted)
    assert str(binary) in str(refusal(runtime._replace(executable=binary)))


def test_a_release_of_pyodide_that_is_not_known_is_refused(runtime: Deno, tmp_path: Path) -> None:
    """A runner that another release of dspy brings has its digest from pip; the files that it wants have none."""
    runner = tmp_path / "runner.js"
    runner.write_text(runtime.runner.read_text().replace("npm:pyodide@0.29.4", "npm:pyodide@9.9.9"))
    known = deno.known_digests()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deno, "known_digests", lambda: msgspec.structs.replace(known, dspy={}))
        patch.setattr(deno, "recorded_digest", lambda package, path: frozenset())
        assert "Pyodide 9.9.9" in str(refusal(runtime._replace(runner=runner)))


@pytest.mark.parametrize("noted", [b"", b"\0\xff", b"[]", b'{"a":1}', b'{"a":"' + b"x" * 100_000 + b'"}'])
def test_a_damaged_note_of_what_was_compared_is_passed_over(runtime: Deno, noted: bytes) -> None:
    (runtime.cache / "compared.json").write_bytes(noted)
    assert deno.compare(runtime) == []
    flip(package_of(runtime) / "pyodide.mjs")
    refusal(runtime)


def test_a_note_is_believed_up_to_64_kib(runtime: Deno) -> None:
    """A longer one is no note of ten parts: the parts are read again."""
    deno.compare(runtime)
    place = runtime.cache / "compared.json"
    wrong = dict.fromkeys(json.loads(place.read_bytes()), "0" * 64)

    def noted(more_bytes: int) -> None:
        place.write_text(json.dumps(wrong | {f"/{'d' * more_bytes}/deno": "0" * 64}))

    noted(48_000)
    assert "its SHA-256 is 000" in str(refusal(runtime))
    noted(100_000)
    assert deno.compare(runtime) == []


def test_a_note_that_is_a_link_is_not_written_through(runtime: Deno, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (runtime.cache / "compared.json").symlink_to(mine)
    deno.compare(runtime)
    assert mine.read_text() == "mine"


def test_no_session_starts_from_changed_parts(runtime: Deno, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(package_of(runtime) / "pyodide.asm.wasm")
    monkeypatch.setattr(deno, "find", lambda: runtime)
    with pytest.raises(SandboxUnavailable, match=r"pyodide\.asm\.wasm"):
        start_session(SandboxSettings())


@pytest.mark.slow
def test_doctor_names_the_changed_part_and_says_what_to_do(runtime: Deno, tmp_path: Path) -> None:
    flip(package_of(runtime) / "python_stdlib.zip")
    told = run("doctor", "--json", cwd=tmp_path, env={"RBANK_CACHE": str(runtime.cache.parent)}, code=1)
    [*_, failed] = json.loads(told.out)["checks"]
    assert (failed["name"], failed["ok"]) == ("digests", False)
    assert "python_stdlib.zip" in failed["detail"] and "doctor --warm" in failed["fix"]
