"""Nobody is asked but the model's own server: seen at the sockets of a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.openai_server import openai_server

WATCHED = """
import os, socket, sys
from pathlib import Path
seen = set()
connect, look_up = socket.socket.connect, socket.getaddrinfo
def connecting(self, address):
    seen.add(str(address))
    return connect(self, address)
def looking_up(host, port, *arguments, **named):
    seen.add(f"{host}:{port}")
    if host not in ("127.0.0.1", "localhost"):
        raise socket.gaierror(f"no name is looked up here: {host}")
    return look_up(host, port, *arguments, **named)
socket.socket.connect, socket.getaddrinfo = connecting, looking_up

from rbank_es.models.model_choice import LmChoice
from tests.models.runs import ask, models
choice = LmChoice(model=sys.argv[3], api_base=sys.argv[1])
with models(Path(sys.argv[2]), choice) as (bank, lms):
    print(ask(lms), ask(lms, role="judge", temperature=0.0))
print(*sorted(seen), sep="|")
print("litellm" in sys.modules)
"""


def watched(place: Path, model: str) -> tuple[str, set[str], bool]:
    """What two calls say, whom the process asked (but the server), and whether litellm was loaded."""
    with openai_server(["one", "two"]) as server:
        command = [sys.executable, "-c", WATCHED, server.url, str(place), model]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=Path(__file__).parents[2])
        assert done.returncode == 0, done.stderr
        said, seen, litellm = done.stdout.strip().split("\n")[-3:]
        port = server.url.split(":")[2].split("/")[0]
    own = {f"127.0.0.1:{port}", f"('127.0.0.1', {port})"}
    return said, set(seen.split("|")) - own, litellm == "True"


@pytest.mark.slow
def test_a_known_provider_is_asked_alone_and_without_litellm(tmp_path: Path) -> None:
    assert watched(tmp_path, "openai/stub") == ("one two", set(), False)


@pytest.mark.slow
def test_a_provider_that_only_litellm_knows_is_asked_alone_too(tmp_path: Path) -> None:
    assert watched(tmp_path, "lm_studio/stub") == ("one two", set(), True)
