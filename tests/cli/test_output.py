"""How the command line writes: texts fit for a terminal, tables that fit its width, progress, one line per event."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import errors
from rbank_es.bank import Bank
from rbank_es.cli.shared import main as run
from rbank_es.cli.shared import output
from rbank_es.cli.shared.command_registry import application
from rbank_es.cli.shared.output import Progress, format_bar
from rbank_es.events import type_of
from rbank_es.events.codec import TYPES
from rbank_es.events.event_sentences import summary
from tests.cli_runner import ROOT

any_text = st.text(st.characters(codec="utf-8"), max_size=60)


@given(any_text)
def test_a_line_is_one_line_that_steers_nothing(text: str) -> None:
    """No control character and no turn of direction gets through, and what is harmless stays."""
    for shown in (output.safe_line(text), output.safe_block(text).replace("\n", "")):
        assert not any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in shown)
        assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert output.safe_line("a  b\n\tc") == "a b c" and output.safe_block("a\n b\r\n\tc") == "a\n b\n    c"


@given(st.lists(st.sampled_from(["ab ", "ab   ", "高さ", "高さを ", " a高"])).map("".join), st.integers(8, 40))
def test_text_without_long_words_is_wrapped_to_fit(text: str, columns: int) -> None:
    """Between words, at runs of blanks and in text without blanks; nothing but blanks is lost."""
    line = text.strip()
    pieces = output.wrapped(line, columns)
    assert "".join(pieces).replace(" ", "") == line.replace(" ", "")
    assert all(output.width(piece) <= columns for piece in pieces)
    assert output.wrapped("灯台の高さ" * 3, 10) == ["灯台の高さ"] * 3
    assert output.wrapped("?l  lt:p  ?m", 9) == ["?l  lt:p", "?m"]
    assert output.wrapped("name  value of", 9, hang=6) == ["name  value", "    of"]


@given(any_text, st.integers(1, 40))
def test_a_cut_text_fits(text: str, columns: int) -> None:
    """A text that is too wide ends in an ellipsis and fits, wide and combining characters counted; others stay."""
    shown = output.truncate(text, columns)
    assert shown == text if output.width(text) <= columns else shown.endswith("…")
    assert output.width(shown) <= columns


def test_widths_of_letters() -> None:
    """Ideographs and emoji take two columns, combining marks none."""
    assert [output.width(text) for text in ("abc", "日本", "😀", "e\u0301", "")] == [3, 4, 2, 1, 0]
    assert (output.pad("日", 4), output.pad("日", 4, right=True), output.pad("long", 2)) == ("日  ", "  日", "long")


def golden_events() -> list[object]:
    banks = sorted((ROOT / "logs" / "golden").glob("v*/bank")) + [ROOT / "logs" / "sample"]
    events = []
    for place in banks:
        with Bank.open(place) as bank:
            events += bank.log.read()
    return events


def test_every_type_of_event_has_its_sentence() -> None:
    """Each event of the golden and sample logs, which hold every type, is summed up on one line."""
    seen = set()
    for event in golden_events():
        said = summary(event)  # type: ignore[arg-type]
        seen.add(type_of(event))  # type: ignore[arg-type]
        assert said and "\n" not in said and "Struct" not in said and "Ref(" not in said, said
    assert seen == TYPES.keys()


# ---------------------------------------------------------------- tables


def plain(capsysbinary: pytest.CaptureFixture[bytes]) -> list[str]:
    return capsysbinary.readouterr().out.decode().splitlines()


@given(st.integers(20, 120), st.lists(st.integers(1, 60), min_size=3, max_size=3))
def test_a_table_on_a_terminal_fits_where_it_can(room: int, wide: list[int]) -> None:
    """Flexible columns give way first, in order, then headers are broken; other cells are never cut."""
    headers = ["first", "two words", "flexible"]
    cells = [["x" * width for width in wide]]
    widths = output.fit_widths(headers, cells, ["flexible"], room)
    assert all(widths[at] >= wide[at] for at in (0, 1))
    least = sum(max(wide[at], 5) for at in (0, 1)) + min(12, max(wide[2], 8)) + 2 * output.GAP
    assert sum(widths) + 2 * output.GAP <= max(room, least)


def test_a_narrow_table_has_its_headers_over_several_lines(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their last words stand above the rows; of a flexible column the values are cut."""
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "terminal_columns", lambda: 25)
    monkeypatch.setenv("NO_COLOR", "1")
    output.echo_table(["n", "given to runs", "title"], [[5, 12, "a title of many words"]], flexible=["title"])
    assert plain(capsysbinary) == ["   given to", "n      runs  title", "5        12  a title of…"]


# ---------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_only_past_a_second_and_wipes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick work shows nothing; slow work a bar that is gone at the end."""
    terminal, now = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with Progress("replaying") as advance:
        for now[0] in (0.0, 0.5, 0.99):
            advance(1, 10)
        assert terminal.getvalue() == ""
        for now[0] in (2.0, 2.01, 2.02):
            advance(5, 10)
        assert terminal.getvalue().count("replaying") == 1
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_the_bar_says_how_much_is_done_and_left() -> None:
    """Share, counts and seconds left; only the count where the total isn't known."""
    assert format_bar("x", 50, 200, 3.0) == "x  ███████░░░░░░░░░░░░░░░░░░░░░░░  25%  50 of 200  9 s left"
    assert format_bar("x", 0, 200, 3.0).endswith("0 of 200") and format_bar("x", 7, None, 3.0) == "x  7"
    assert "100%" in format_bar("x", 300, 200, 3.0)


# ---------------------------------------------------------------- errors


def subclasses(cls: type[BaseException]) -> list[type[BaseException]]:
    return [cls, *(found for sub in cls.__subclasses__() for found in subclasses(sub))]


def test_every_error_has_one_of_the_exit_codes() -> None:
    """1 check failed, 2 bad input, 3 corruption, 4 conflict, as the help says."""
    codes = {cls.__name__: cls.exit_code for cls in subclasses(errors.RBankError)}  # type: ignore[attr-defined]
    assert set(codes.values()) == {1, 2, 3, 4}
    assert (codes["CheckFailed"], codes["LogCorruption"], codes["PositionConflict"]) == (1, 3, 4)


def test_a_defect_is_named_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exception that nobody foresaw is one message as well, with a way to see more."""

    def broken(*_: object) -> int:
        raise ZeroDivisionError("oops\x1b[2J")

    monkeypatch.setattr(application, "make_context", broken)
    assert run.main([]) == run.DEFECT
    said = capfd.readouterr().err
    assert said.startswith("rbank-es: unexpected ZeroDivisionError: oops\\x1b[2J") and "--debug" in said
    assert "Traceback" not in said
    assert run.main(["--debug"]) == run.DEFECT
    assert "Traceback" in capfd.readouterr().err
