"""Names on the disk are no commands of the shell: completion offers plain words only."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.test_completion import in_shell, offered
from tests.cli_runner import ROOT

NAMES = {
    "substitution": "$(touch owned)",
    "backticks": "`touch owned`",
    "semicolon": "n;touch owned",
    "newline": "n\nplain,rm",
    "glob": "*",
    "option": "-rf",
    "comma": "n,file,x",
    "escape": "n\x1b]0;owned\x07",
    "bidi": "n\u202eseton",
    "quote": "n'o\"t",
    "space": "n otes",
    "tilde": "~root",
    "undecodable": b"n\xff\xfe",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_hostile_name_is_not_offered(name: str | bytes, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "notes").mkdir()
    path = bytes(logs) + b"/" + (name if isinstance(name, bytes) else name.encode())
    subprocess.run([b"mkdir", b"--", path], check=True)
    assert offered("rbank-es log ", tmp_path) == ["plain,notes"]


def test_bash_runs_nothing_of_what_it_completes(tmp_path: Path) -> None:
    for name in ("notes", "$(touch owned)", "`touch owned`", "*"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    script = """
    eval "$(rbank-es completion bash)"
    COMP_WORDS=(rbank-es log "") COMP_CWORD=2 COMPREPLY=()
    _rbank_es_completion rbank-es; echo "${COMPREPLY[@]}"
    """
    assert in_shell("bash", script, tmp_path) == "notes\n"
    assert not (tmp_path / "owned").exists() and (ROOT / "pyproject.toml").exists()


def test_a_folder_of_many_names_is_cut(tmp_path: Path) -> None:
    for number in range(1_200):
        (tmp_path / "logs" / f"b{number}").mkdir(parents=True)
    assert len(offered("rbank-es log b", tmp_path)) == 1_000
