"""Arguments of commands: the banks, files, event types and budgets that a command line names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.bank.locator import locate, split_point
from rbank_es.errors import BadInput, BadPolicy, BankExists, BankNotFound, LimitExceeded, RBankError
from rbank_es.events.run_events import RunBounds
from rbank_es.system.files import is_temporary, replaceable
from rbank_es.system.input_file import read_given, without_mark
from rbank_es.system.nearest_name import hint
from rbank_es.system.whole_number import whole_number

if TYPE_CHECKING:
    from io import BufferedReader

    from rbank_es.bank.bank_access import OpenBank
    from rbank_es.judging.judge_protocol import Judge
    from rbank_es.loop.loop_spend import LoopBounds
    from rbank_es.system.registry import Registry

_PIECE_BYTES = 64 * limits.KIB  # what a pipe holds on Linux


def split_names(text: str) -> list[str]:
    """Return the names in a comma-separated list. Raises `BadInput` where there are none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadInput(f"{text!r} holds no names; separate several by commas")
    return names


def parse_budget(text: str) -> tuple[str, int]:
    """Return the layer and its characters from `L1=400`. Raises `BadInput`."""
    layer, equals, number = (part.strip() for part in text.partition("="))
    chars = whole_number(number)
    if not equals or chars is None:
        raise BadInput(f"{text!r} is not a budget: write a layer and characters, such as L1=400")
    return layer if layer == "base" else layer.upper(), chars


def parse_bounds(texts: Sequence[str]) -> RunBounds:
    """Return the bounds of a run from texts such as `step_calls=50`; the defaults for those not named.

    Raises `BadInput`.
    """
    from rbank_es.tools.shared.call_budget import check_bounds

    bounds = RunBounds(**_named_bounds(texts, RunBounds.__struct_fields__))
    check_bounds(bounds)
    return bounds


def parse_loop_bounds(texts: Sequence[str]) -> tuple[RunBounds, LoopBounds]:
    """Return the bounds of a run and of its loop, as `parse_bounds` does."""
    from rbank_es.loop.loop_spend import LoopBounds

    of_loop = LoopBounds.__struct_fields__
    named = _named_bounds(texts, (*RunBounds.__struct_fields__, *of_loop))
    of_run = parse_bounds([f"{name}={number}" for name, number in named.items() if name not in of_loop])
    return of_run, LoopBounds(**{name: number for name, number in named.items() if name in of_loop})


def _named_bounds(texts: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    named = dict[str, Any]()
    for text in texts:
        name, _, number = (part.strip() for part in text.partition("="))
        if name not in known:
            raise BadInput(f"{name!r} is no bound of a run{hint(name, known)}")
        if name in named:
            raise BadInput(f"--bound {name} is given twice; give it once")
        try:
            # Seconds and dollars may be fractions; all other bounds are counts.
            named[name] = float(number) if name.endswith(("_s", "_usd")) else int(number)
        except ValueError:
            raise BadInput(f"{text!r} is not a bound: write a name and a number, such as step_calls=50") from None
    return named


class RegisteredName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """A name in a registry, one of a plugin too, or one of `others`. `load` imports the registry when it is needed."""

    name = "name"

    def __init__(self, load: Callable[[], Registry[Any]], *others: str) -> None:
        self._load = load
        self._others = others

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the names as help shows them."""
        return f"[{'|'.join((*self._load().names(), *self._others))}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Raises `BadParameter` for an unknown one, listing the known ones."""
        try:
            self._load().check(value, *self._others)
        except BadInput as error:
            self.fail(str(error), param, ctx)
        return value


class NumberRange(click.FloatRange):
    """A range of numbers. NaN is in none: it is neither below nor above a bound, so click lets it into every one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises `BadParameter` for one outside of the range."""
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def judges() -> Registry[Judge]:
    """Return the registry of judges, imported now."""
    from rbank_es.judging.judges import JUDGES

    return JUDGES


# ---------------------------------------------------------------- banks


def whole_bank(text: str) -> str:
    """Return the bank of an argument BANK. Raises `BadInput` for BANK@POINT, because the command takes no point."""
    bank, point = split_point(text)
    if point is not None:
        raise BadInput(f"this command works on a whole bank: leave out @{point} and write {bank}")
    return bank


def open_whole(text: str, *, current: bool = False) -> Bank:
    """Open the bank of an argument BANK. Raises as `Bank.open` and `whole_bank` do.

    Once the command has ended, the bank's read models are made or brought up to date, if it recorded anything; with
    `current`, in any case.
    """
    bank = Bank.open(whole_bank(text))
    with suppress(RBankError, OSError):  # whoever reads a damaged log says so
        click.get_current_context().call_on_close(partial(_bring_up, bank, None if current else bank.position))
    return bank


def _bring_up(bank: Bank, before: int | None) -> None:
    with suppress(RBankError, OSError), bank:
        if bank.position != before:
            bring_up(bank)


def bring_up(bank: Bank) -> None:
    """Make read models or bring them up to the head: a hook, which can't, gives no lesson while they are behind."""
    with suppress(RBankError, OSError):
        if not is_temporary(bank.read_models().path):
            bank.project()


def open_to_fill(text: str) -> Bank:
    """Open the bank of an argument BANK, for a command that has --create. Raises as `open_whole` and `lasting` do."""
    try:
        return Bank.open(whole_bank(text))
    except BankNotFound as missing:
        lasting(text)  # because --create would be refused
        if Path(missing.place).is_file():
            raise  # for the same reason
        raise BankNotFound(missing.place, "Add --create to make it") from None


def open_at(text: str) -> tuple[Bank, str | None]:
    """Open the bank of an argument BANK@POINT, and return it with the point, if one is given."""
    place, point = split_point(text)
    return Bank.open(place), point


def lasting(bank: str) -> str:
    """Return BANK. Raises `BadInput` for one that would be lost when the command that creates it ends."""
    if not locate(bank).engine.outlives_process:
        raise BadInput(f"{bank} would be lost when this command ends; name a bank that is kept, such as ./notes")
    return bank


def open_or_create(place: str, *, may_be_lost: bool = False) -> tuple[Bank, bool]:
    """Open a bank, or create it where there is none; return it, and whether it is new."""
    if not may_be_lost:
        lasting(place)
    with suppress(BankNotFound):
        return Bank.open(place), False
    try:
        return Bank.create(place), True
    except BankExists:
        # Another process created it between the two calls; or other files are in the place, which is refused again.
        return Bank.open(place, create=True), False


def begun_run(bank: Bank, given: str) -> str:
    """Return the id of a run that began, written whole because something is recorded about it. Raises `NotInBank`."""
    from rbank_es.bank.id_lookup import exact_id

    with bank.live() as view:
        return exact_id(view, "run", given)


# ---------------------------------------------------------------- files


def read_bounded(path: str) -> bytes:
    """Return the text in a file, or with `-` in standard input, as UTF-8 without a byte order mark.

    Raises `LimitExceeded` past `limits.IMPORT_FILE_BYTES`, OSError where the file can't be read.
    """
    if path != "-":
        return read_given(path, limits.IMPORT_FILE_BYTES)
    if sys.stdin is None:
        raise BadInput("standard input is closed; name a file")
    return without_mark(_read(cast("BufferedReader", sys.stdin.buffer), "standard input"), "standard input")


def _read(stream: BufferedReader, name: str) -> bytes:
    data = bytearray()
    # In pieces, because one long read misses a Ctrl-C that comes while it copies.
    while len(data) <= limits.IMPORT_FILE_BYTES and (piece := stream.read1(_PIECE_BYTES)):
        data += piece
    if len(data) > limits.IMPORT_FILE_BYTES:
        raise LimitExceeded(f"{name} in bytes", len(data), limits.IMPORT_FILE_BYTES, "split it")
    return bytes(data)


def read_text_file(path: str) -> str:
    """Return the text of a file, or with `-` of standard input. Raises as `read_bounded`, `BadInput` if not UTF-8."""
    try:
        return read_bounded(path).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text (byte {error.start:,})") from None


def read_policy_tables(path: str) -> dict[str, Any]:
    """Return the settings of a file of policies, by kind. Raises as `read_text_file`, `BadPolicy`."""
    from rbank_es.policies.policy_registry import parse_tables

    try:
        return parse_tables(read_text_file(path))
    except FileNotFoundError:
        hint = "to change a setting, write KIND.SETTING=VALUE, to choose a policy, KIND=NAME"
        raise BadPolicy(f"there is no file {path!r}; {hint}") from None


def writable(path: Path) -> Path:
    """Return the path to write a file to, as `replaceable` does. Raises `BadInput` if its directory is missing, too."""
    if path.is_dir():
        raise BadInput(f"{path} is a directory; name a file in it")
    path = replaceable(path)
    if not path.parent.is_dir():
        raise BadInput(f"{path.parent} is not a directory, so {path.name} can't be written there")
    return path


def outside(bank: OpenBank, path: Path) -> Path:
    """Return the path. Raises `BadInput` where it is inside the bank's directory, which holds nothing but the bank."""
    if bank.log.owns(path):
        raise BadInput(f"{path} is inside the bank's own directory; choose a place outside of it")
    return path
