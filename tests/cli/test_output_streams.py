"""How output looks in pipes and on terminals, and how commands end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.rerun.recorded_run import runs_of
from tests.cli.kilns import RUN
from tests.cli_runner import SAMPLE, on_terminal, run, shell
from tests.effort import one_in


def a_run_of_the_sample() -> str:
    with Bank.open(SAMPLE) as bank:
        return runs_of(bank)[6]


LOOKS = [
    ("log", "sample@60"),
    ("show", "sample", a_run_of_the_sample()),
    ("search", "sample", "keepers on watch"),
    ("diff", "sample@173", "sample@324"),
    ("replay", "sample"),
    ("project", "sample", "--list"),
    ("verify", "sample"),
    ("schema",),
    ("--help",),
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_output_is_plain_when_piped_and_fits_when_shown(arguments: tuple[str, ...], sample: Path) -> None:
    """Piped output has no escape sequence; on a terminal no line of a table is wider than it, also without colour."""
    assert "\x1b" not in run(*arguments, cwd=sample).out
    assert "\x1b" not in on_terminal(*arguments, cwd=sample, env={"NO_COLOR": "1"}).out
    shown = on_terminal(*arguments, cwd=sample, columns=100).out
    assert "\x1b[1m" in shown or arguments[0] in ("verify", "--help")
    lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    # Texts of any length are left to the terminal to wrap.
    assert max(map(len, lines)) <= 100 or arguments[0] == "show"


@pytest.mark.slow
def test_stored_text_can_not_steer_the_terminal(place: Path) -> None:
    """Control characters in texts are spelled out wherever people see them."""
    run("append", "notes", cwd=place, stdin=json.dumps(RUN | {"run": "r2", "task": "a\x1b[2Jb\u202ec\x07"}))
    for shown in (
        on_terminal("log", "notes", cwd=place, columns=200, env={"NO_COLOR": "1"}).out,
        on_terminal("show", "notes", "r2", cwd=place, env={"NO_COLOR": "1"}).out,
        run("show", "notes", "r2", cwd=place).out,
    ):
        assert "a\\x1b[2Jb\\u202ec\\x07" in shown and "\x1b" not in shown and "\u202e" not in shown


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(sample: Path) -> None:
    """`| head` is no error: nothing on standard error, and the exit code that shells give for it."""
    done = shell("rbank-es log sample | head -n 1", sample)
    assert (done.err, done.out.count("\n")) == ("", 1) and done.code in (0, 141)
    assert shell("rbank-es log sample | true", sample).err == ""
    assert shell("rbank-es replay sample --json | true", sample).err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", one_in(5, ["log sample", "replay sample", "--help", "export sample --format events", "schema"])
)
def test_output_that_can_not_be_written_is_an_error(command: str, sample: Path) -> None:
    """A full disk behind standard output is exit code 2 and one message; a closed one is no crash."""
    full = shell(f"rbank-es {command} > /dev/full", sample)
    assert full.code == 2 and full.err == "rbank-es: the system refused: No space left on device\n"
    assert shell(f"rbank-es {command} >&-", sample).err == ""


def test_closed_standard_input_and_standard_error(place: Path) -> None:
    """Neither makes it crash."""
    assert "standard input is closed" in shell("rbank-es append notes <&-", place).err
    assert shell("rbank-es log nowhere 2>&-", place).code == 2


@pytest.mark.slow
def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    """`--debug`, before or after the command, or RBANK_DEBUG=1; without them there is only the message."""
    for line in ("rbank-es --debug log none", "rbank-es log none --debug", "RBANK_DEBUG=1 rbank-es log none"):
        err = shell(line, tmp_path).err
        assert "Traceback" in err and err.splitlines()[-1].startswith("rbank-es: no bank at")
    assert "Traceback" not in shell("rbank-es log none", tmp_path).err


def test_a_locale_without_unicode_is_no_obstacle(sample: Path) -> None:
    """Output is UTF-8 whatever the locale says."""
    env = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert "→" in run("diff", "sample@173", "sample@324", cwd=sample, env=env).out
