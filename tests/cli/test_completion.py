"""Shells complete commands, options, choices, banks and files: the protocol, and the script in the shells there are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli_runner import COMMAND, ROOT, run

SHELLS = ("bash", "zsh", "fish")


def offered(line: str, cwd: Path, shell: str = "bash") -> list[str]:
    """What the command offers for the last word of a line, as a shell asks for it."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_RBANK_ES_COMPLETE": f"{shell}_complete"}
    # fish gives the word itself.
    return run(cwd=cwd, env=asked | ({"COMP_CWORD": words[-1]} if shell == "fish" else {})).out.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("notes", "nights", "other"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_is_answered_and_has_its_script(shell: str, folder: Path) -> None:
    script = run("completion", shell, cwd=folder).out
    assert "_RBANK_ES_COMPLETE" in script and "rbank-es" in script
    assert run("completion", shell, "--json", cwd=folder).json["script"] == script
    assert "notes" in " ".join(offered("rbank-es log no", folder, shell))


def test_a_half_typed_line_prints_no_error(folder: Path) -> None:
    for line in ("rbank-es log 'no", "rbank-es --", "rbank-es log notes --tail x --", "rbank-es log notes --run"):
        result = run(
            cwd=folder, env={"COMP_WORDS": line, "COMP_CWORD": "2", "_RBANK_ES_COMPLETE": "bash_complete"}, code=None
        )
        assert result.err == "" and result.code in (0, 1)


def in_shell(shell: str, script: str, cwd: Path) -> str:
    """What a real shell prints, with the command on its PATH and the completion loaded."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    bin = cwd / "bin"
    bin.mkdir(exist_ok=True)
    (bin / "rbank-es").write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {" ".join(COMMAND)} "$@"\n')
    (bin / "rbank-es").chmod(0o755)
    env = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(cwd)}
    done = subprocess.run([shell, "-c", script], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_bash_completes(folder: Path) -> None:
    script = """
    eval "$(rbank-es completion bash)"
    complete -p rbank-es
    for line in "rbank-es sho" "rbank-es log n" "rbank-es log notes --fol"; do
        COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        _rbank_es_completion rbank-es; echo "${COMPREPLY[@]}"
    done
    """
    loaded, *completed = in_shell("bash", script, folder).splitlines()
    assert "-F _rbank_es_completion rbank-es" in loaded
    assert completed == ["show", "nights notes", "--follow"]


def test_zsh_loads_the_script(folder: Path) -> None:
    script = 'autoload -U compinit; compinit -D; eval "$(rbank-es completion zsh)"; echo $_comps[rbank-es]'
    assert in_shell("zsh", script, folder).strip() == "_rbank_es_completion"


def test_fish_completes(folder: Path) -> None:
    script = 'rbank-es completion fish | source; complete -C "rbank-es log not"'
    assert "notes" in in_shell("fish", script, folder)
