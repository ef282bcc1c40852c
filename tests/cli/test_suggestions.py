"""A command line that can't be run is answered with the line that was likely meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_runner import SAMPLE, fails, run

RUN, ITEM = "lights-08-7d2405bc-1", "14f054b822ec"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (["show", RUN, "BANK"], f"did you mean: rbank-es show BANK {RUN}"),
        (["search", "which lights", "BANK", "-k", "3"], "did you mean: rbank-es search BANK 'which lights' -k 3"),
        (["reject", ITEM, "BANK", "--because", "x"], f"did you mean: rbank-es reject BANK {ITEM} --because x"),
        (["search", "BANK", "which", "lights", "-k", "3"], "needs quotes: rbank-es search BANK 'which lights' -k 3"),
        (["--json", "runs", "BANK"], "options come after the command: rbank-es runs BANK --json"),
        (["runs", "BANK", "--verdict", "fail"], "did you mean 'failure'?"),
        (["items", "BANK", "--state", "activ"], "did you mean 'active'?"),
        (["overrule", "BANK", RUN, "--verdict", "fail"], "did you mean --failure?"),
        (["serch", "BANK", "x"], "did you mean 'search'?"),
        (["help", "serch"], "did you mean 'search'?"),
    ],
)
def test_the_likely_line_is_suggested(line: list[str], advice: str, tmp_path: Path) -> None:
    bank = str(SAMPLE)
    assert advice.replace("BANK", bank) in fails(*[bank if word == "BANK" else word for word in line], cwd=tmp_path)


def test_help_is_a_command_too(tmp_path: Path) -> None:
    assert run("help", "search", cwd=tmp_path).out == run("search", "--help", cwd=tmp_path).out
    assert run("help", cwd=tmp_path).out == run("--help", cwd=tmp_path).out
