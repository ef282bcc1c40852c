"""A password or a token in a locator is shown nowhere: no output, no error, no log, no cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.bank.locator import split_point
from rbank_es.cli.shared.command_registry import COMMANDS, OURS
from rbank_es.errors import BankNotFound, LogBusy, RBankError
from rbank_es.system.redacted_locator import shown_locator, without_secrets
from tests.cli_runner import environment, run
from tests.plugins import install, run_with

SECRET = "Hx7Secret9q"
PLACES = {
    "a password": f"postgresql://u:{SECRET}@h/db",
    "no bank": f"postgres://u:{SECRET}@h",
    "no user": f"redis://:{SECRET}@h:6379/0",
    "a point": f"postgresql://u:{SECRET}@h:5432/db@12",
    "a slash in it": f"postgresql://u:a/{SECRET}@h/db",
    "an @ in it": f"postgresql://u:a@{SECRET}@h/db",
    "one slash": f"postgresql:/u:{SECRET}@h/db",
    "no slashes": f"postgresql:u:{SECRET}@h/db",
    "no scheme": f"u:{SECRET}@h/db",
    "a parameter": f"postgresql://h/db?user=u&password={SECRET}&x=1",
    "a token": f"libsql://h/db?authToken={SECRET}",
    "a signature": f"https://h/db?sig={SECRET}",
    "a fragment": f"https://h/#access_token={SECRET}",
    "words": f"pg:host=h password='a {SECRET}' dbname=x",
    "IPv6": f"pg://u:{SECRET}@[::1]:5432/db",
}
UNCHANGED = (
    *("notes", "./notes", "/a/b:c@5", "./a:b@HEAD~2", "memory:", "memory:x@12", "file:/a:b/c@3", "sqlite:./x.db@4"),
    *("pg://h:5432/db", "pg://h:5432", "pg://u@h/db@12", "pg://[::1]:5432/db", "http://localhost:8080/?a=b#c", "seq:5"),
)


def banks_of(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[click.Parameter]]]:
    """Every command that takes a bank, by its words, with the parameters that name one."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from banks_of(command.get_command(context, name) or command, (*path, name))
        return
    named = [each for each in command.params if "BANK" in (each.metavar or each.human_readable_name).upper()]
    if named:
        yield path, named


TAKING_BANKS = [found for name in OURS for found in banks_of(COMMANDS.get(name), (name,))]
WORDS = {
    "RUN": "r1",
    "[RUN]": "r1",
    "[RUN]...": "r1",
    "RUN...": "r1",
    "THING": "run:r1",
    "ITEM|RUN|SEQ": "run:r1",
    "FILE": "events.jsonl",
    "-o": "page.html",
    "--into": "written",
    "--ont": "lights",
    "--task": "t",
    "--cases": "events.jsonl",
    "--reason": "x",
    "--because": "x",
    "--bad": "r1",
    "--good": "r1",
    "--verdict": "r1=failure",
}
"""What stands for a parameter, by its name or its metavar."""
NEEDED = ("-o", "--reason", "--because", "--by", "--task", "--ont", "--into", "--verdict", "--bad", "--good")


def line_of(path: tuple[str, ...], named: list[click.Parameter], command: click.Command, place: str) -> list[str]:
    """A whole command line, with the place for each bank and some word for all else that is required."""
    words = list(path)
    for each in command.params:
        name = each.opts[0]
        if isinstance(each.type, click.Choice):
            word = str(each.type.choices[0])
        else:
            word = WORDS.get(name) or WORDS.get(each.metavar or each.human_readable_name.upper(), "1")
        if each in named:
            words += [name, place] if isinstance(each, click.Option) else [place]
        elif isinstance(each, click.Argument):
            words.append(word)
        elif each.required or (name in NEEDED and path[0] not in ("run", "replay", "project", "judge")):
            words += [name, word]
    return words


def lines(place: str) -> list[list[str]]:
    return [line_of(path, named, command_at(path), place) for path, named in TAKING_BANKS]


def command_at(path: tuple[str, ...]) -> click.Command:
    command = COMMANDS.get(path[0])
    for name in path[1:]:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name) or command
    return command


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_locator_is_shown_without_its_secret(place: str) -> None:
    shown = shown_locator(place)
    assert SECRET not in shown and "***" in shown and shown_locator(shown) == shown


@pytest.mark.parametrize("place", UNCHANGED)
def test_a_locator_without_a_secret_is_shown_as_it_is(place: str) -> None:
    assert shown_locator(place) == place


@example("00000#")
@example("00000/")
@given(st.text(st.characters(codec="ascii", exclude_characters="@", categories=["L", "N", "P", "S"]), min_size=6))
def test_any_password_is_hidden(password: str) -> None:
    shown = shown_locator(f"pg://user:{password}!@host/bank")
    assert f"{password}!" not in shown and shown.endswith("@host/bank")


def test_a_point_is_told_from_a_host() -> None:
    assert split_point("pg://u:s@h") == ("pg://u:s@h", None)
    assert split_point("pg://u:s@h/db") == ("pg://u:s@h/db", None)
    assert split_point("pg://u:s@h/db@12") == ("pg://u:s@h/db", "12")
    assert split_point("pg://h@12") == ("pg://h", "12")


def test_no_error_of_ours_shows_a_secret() -> None:
    place = PLACES["a password"]
    for error in (BankNotFound(place), LogBusy(place, 3), RBankError(f"can't reach {place}, nor '{place}'")):
        assert SECRET not in str(error) and "h/db" in str(error)
    with pytest.raises(RBankError) as raised:
        Bank.open(Path(place))
    assert SECRET not in str(raised.value)
    assert without_secrets("see http://HOST:PORT/ and a:b@c") == "see http://HOST:PORT/ and a:b@c"


@pytest.mark.slow
@pytest.mark.parametrize("place", [PLACES["a password"], PLACES["no bank"], PLACES["no scheme"]])
def test_no_command_shows_the_secret_of_a_bank_that_no_engine_has(place: str, tmp_path: Path) -> None:
    for line in lines(place):
        for more in ([], ["--json"]):
            done = run(*line, *more, cwd=tmp_path, code=None)
            assert SECRET not in done.out + done.err, line
            assert "unexpected" not in done.err, done.err
    assert not any(SECRET.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_locator_in_a_wrong_place_of_a_command_line_is_shown_without_its_secret(tmp_path: Path) -> None:
    place = PLACES["a password"]
    run("init", "./b", cwd=tmp_path)
    for line in (
        [place],
        ["log", "./b", place],
        ["log", "--since", place, "./b"],
        ["import", "./b", place],
        ["append", "./b", place],
        ["fork", "./b", place],
        ["absorb", "./b", place],
        ["overrule", "./b", "--from", place],
        ["verify", "./b", "--parent", place],
        ["show", "./b", place],
        ["init", "./c", "--policy", place],
    ):
        done = run(*line, cwd=tmp_path, code=None)
        assert done.code and SECRET not in done.out + done.err, (line, done.err)


ENGINE = '''
from pathlib import Path
import msgspec
from rbank_es.log import LOG_ENGINES, LogWrapper, Relative
from rbank_es.log.file.file_log import ENGINE as FILES
from rbank_es.system.files import BankCache

def folder(locator):
    return "./kept-" + locator.rpartition("/")[2]

class Log(LogWrapper):
    """A log that is found by a URL with a password, which it shows to whoever asks for its place."""

    scheme = "vault"

    def __init__(self, log, locator):
        super().__init__(log)
        self.locator = locator

    @property
    def place(self):
        return self.locator

    @property
    def derived_directory(self):
        return BankCache(self.bank_id, Path(self.locator)).folder()

    def erase(self, what, **more):
        there = Relative("b" * 32, self.locator, 1)
        return msgspec.structs.replace(self._log.erase(what, **more), relatives=(there,))

    def fork(self, upto, into=None, **more):
        return Log(self._log.fork(upto, into and folder(into), **more), into or "vault:")

class Engine:
    outlives_process = True

    def name_of(self, locator):
        return locator.removeprefix("vault://")

    def create(self, locator, events=(), *, fill=None, **more):
        return Log(FILES.create(folder(locator), events, fill=fill, **more), locator)

    def open(self, locator, **more):
        return Log(FILES.open(folder(locator), **more), locator)

def add():
    LOG_ENGINES.add("vault", "vault_engine:ENGINE")

ENGINE = Engine()
'''


@pytest.mark.slow
def test_the_locators_of_another_engine_are_shown_recorded_and_cached_without_their_secrets(tmp_path: Path) -> None:
    install(tmp_path, "vault_engine", ENGINE)
    place, other = f"vault://u:{SECRET}@h/one", f"vault://u:{SECRET}@h/two"
    cache = tmp_path / "cache"
    made = [
        ["init", place],
        ["init", "./own"],
        ["append", place, "events.jsonl"],
        ["absorb", "./own", place],
        ["fork", place, other],
        ["log", "./own", "--json"],
        ["erase", place, "--text", "words.txt", "--dry-run"],
        ["erase", place, "--text", "words.txt", "--dry-run", "--json"],
    ]
    (tmp_path / "words.txt").write_text("words of a task")
    (tmp_path / "events.jsonl").write_text('{"type":"run_started","run":"r1","task":"words of a task"}\n')
    ask = [line for line in lines(place) if line[0] not in ("init", "serve", "erase", "hook")]
    program = f"import os; os.environ['RBANK_CACHE'] = {str(cache)!r}\n"
    program += f"made = [command(*line) for line in {made!r}]\n"
    program += f"asked = [[line, *command(*line)] for line in {ask!r}]\n"
    program += f"bank = Bank.open({place!r}); result = [made, asked, repr(bank), bank.place, bank.name]"
    done, asked, *shown = run_with(tmp_path, program, tmp_path)
    assert [code for code, _ in done] == [0] * len(made), done
    for line, code, printed in [*([each, *rest] for each, rest in zip(made, done, strict=True)), *asked]:
        assert SECRET not in printed, (line, code, printed)
    assert not any(SECRET in text for text in shown)
    assert sum(code == 0 for _, code, _ in asked) > 20, [line for line, code, _ in asked if code]
    for path in tmp_path.rglob("*"):
        assert SECRET not in str(path)
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_traceback_of_a_plugin_shows_no_secret(tmp_path: Path) -> None:
    install(
        tmp_path,
        "broken_engine",
        "from rbank_es.log import LOG_ENGINES\n"
        "class Engine:\n"
        "    outlives_process = True\n"
        "    def name_of(self, locator): raise ConnectionError(f'no answer from {locator}')\n"
        "ENGINE = Engine()\n"
        "def add(): LOG_ENGINES.add('vault', 'broken_engine:ENGINE')\n",
    )
    line = [sys.executable, "-m", "rbank_es", "log", f"vault://u:{SECRET}@h/db", "--debug"]
    env = environment() | {"PYTHONPATH": f"{tmp_path}:{environment()['PYTHONPATH']}"}
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode and "vault://u:***@h/db" in done.stderr and SECRET not in done.stdout + done.stderr
