"""No stored text steers a terminal or hides from a reader, wherever it is shown; JSON keeps its value."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbank_es.bank import Bank
from rbank_es.cli import main
from rbank_es.cli.shared import output
from rbank_es.cli.shared.loop_progress import LoopDisplay
from rbank_es.events import NoteLogged
from rbank_es.events.hidden_characters import visible, visible_json, without_hidden
from rbank_es.events.readable_text import safe_line
from rbank_es.page.escaped_html import escape
from tests.attacks.hostile_text import TEXTS, hostile_bank, steering
from tests.cli_runner import on_terminal
from tests.effort import one_in

attacks = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
texts = st.lists(
    st.one_of(st.sampled_from([*TEXTS.values()]), st.text(st.characters(codec="utf-8"), max_size=8)), max_size=6
).map("".join)


@pytest.fixture(scope="module")
def banks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A bank for each text, by the text."""
    folder = tmp_path_factory.mktemp("hostile")
    places = {}
    for name, text in TEXTS.items():
        hostile_bank(folder / name, text).log.close()
        places[text] = str(folder / name)
    yield places


def shown_by(bank: str, capsys: pytest.CaptureFixture[bytes], *, page: Path) -> dict[str, str]:
    """What each command that shows texts of a bank prints on both streams."""
    with Bank.open(bank) as opened:
        (item,) = opened.state().items
    lines = {
        "log": ["log", bank],
        "log --json": ["log", bank, "--json"],
        "show item": ["show", bank, f"item:{item}"],
        "show run": ["show", bank, "run:run-1"],
        "show event": ["show", bank, "5"],
        "show --json": ["show", bank, item, "--json"],
        "show --tree": ["show", bank, f"item:{item}", "--tree"],
        "show --tree --json": ["show", bank, f"item:{item}", "--tree", "--json"],
        "impact": ["impact", bank, "run:run-1"],
        "search": ["search", bank, "a one pass red user all Z x nothing delete"],
        "search --json": ["search", bank, "a one pass red user all Z x nothing", "--json"],
        "diff": ["diff", f"{bank}@0", bank],
        "diff --json": ["diff", f"{bank}@0", bank, "--json"],
        "replay": ["replay", bank],
        "runs": ["runs", bank],
        "runs --json": ["runs", bank, "--json"],
        "runs --csv": ["runs", bank, "--csv"],
        "items": ["items", bank],
        "items --json": ["items", bank, "--json"],
        "items --csv": ["items", bank, "--csv"],
        "dashboard": ["dashboard", bank, "-o", str(page)],
    }
    shown = {}
    for name, line in lines.items():
        code = main(line)
        printed = capsys.readouterr()
        shown[name] = (printed.out + printed.err).decode()
        assert code == 0, (name, shown[name])
    shown["page"] = page.read_text()
    return shown


def test_all_texts_at_once_steer_no_answer_of_a_query(
    capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """Nor do they end a literal of the graph that it asks."""
    hostile_bank(tmp_path / "bank", " ".join(TEXTS.values())).log.close()
    for more in ([], ["--json"]):
        line = ["query", str(tmp_path / "bank"), "--sparql", "SELECT ?x ?text { ?x prov:value ?text }", *more]
        assert main(line) == 0
        printed = capsysbinary.readouterr().out.decode()
        assert "urn:rbank-es:" in printed and not steering(printed)


@pytest.mark.slow
@attacks
def test_a_text_steers_no_output_of_any_command(
    text: str, banks: dict[str, str], capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    shown = shown_by(banks[text], capsysbinary, page=tmp_path / "page.html")
    for name, printed in shown.items():
        kept = printed.replace("\r\n", "\n") if "csv" in name else printed
        assert not steering(kept), (name, steering(kept))
    document = json.loads(shown["show --json"])
    assert document["item"]["content"] == text  # escaped, and of the same value


@pytest.mark.parametrize("text", one_in(5, TEXTS.values()), ids=TEXTS)
def test_a_text_steers_no_error(text: str, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    """As a bank, a point, an id, a file, an option, a command and an event's field."""
    bank = tmp_path / "bank"
    Bank.create(bank).log.close()
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(json.dumps({"type": "run_finished", "run": "r", "outcome": text}), "utf-8", "surrogatepass")
    lines = [
        ["log", f"./{text}"],
        ["log", f"{bank}@{text}"],
        ["show", str(bank), text],
        ["log", str(bank), "--run", text],
        ["log", str(bank), "--type", text],
        ["import", str(bank), f"./{text}"],
        ["append", str(bank), str(wrong)],
        ["append", str(bank), f"./{text}", "--json"],
        ["search", str(bank), "x", "--polarity", text],
        [text],
        ["log", str(bank), f"--{text}"],
    ]
    for line in lines:
        assert main(line) == 2, line
        printed = capsysbinary.readouterr()
        shown = (printed.out + printed.err).decode()
        assert shown and not steering(shown), (line, shown)


@pytest.mark.parametrize("text", ["\x1b[31m", "a\udc80b", "\udcff\x1b]0;x\x07"], ids=["escape", "surrogate", "both"])
def test_a_lone_surrogate_is_spelled_out(text: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Names of files that are no UTF-8 come with lone surrogates, which can't be encoded."""
    output.echo(text)
    output.warn(text)
    printed = capsysbinary.readouterr()
    assert not steering((printed.out + printed.err).decode())


@attacks
def test_a_text_steers_no_progress_of_a_loop(
    text: str, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    display = LoopDisplay(verbose=True)
    display.events([NoteLogged(run="r", by=text[:99], note=text)])
    display.wipe()
    printed = capsysbinary.readouterr().err.decode()
    assert not steering(printed.replace("\r", "").replace("\x1b[2K", ""))


@pytest.mark.slow
def test_on_a_terminal_only_our_own_styles_are_sent(tmp_path: Path) -> None:
    """Colours are on: what is left without the seven sequences of the program is plain text."""
    hostile_bank(tmp_path / "b", "".join(TEXTS.values())).log.close()
    for line in (["show", "./b", "run:run-1"], ["runs", "./b"], ["log", "./b"]):
        printed = on_terminal(*line, cwd=tmp_path, columns=80).out
        assert "\x1b[" in printed
        for style in ("0", "1", "2", "31", "32", "33", "36", "1;0"):
            printed = printed.replace(f"\x1b[{style}m", "")
        assert not steering(printed.replace("\r", "")), line


def test_echo_lets_no_sequence_through_that_a_caller_forgot(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    output.echo("\x1b[2Jx\u202e")
    assert capsysbinary.readouterr().out == b"\\x1b[2Jx\\u202e\n"


# ---------------------------------------------------------------- laws


@pytest.mark.slow
@given(texts)
def test_visible_text_has_nothing_hidden_and_is_stable(text: str) -> None:
    """For any text: nothing steers, nothing printable is lost, and twice is once."""
    for shown in (
        visible(text),
        output.safe_line(text),
        safe_line(text),
        str(escape(text)).replace("\t", "").replace("\r", ""),
    ):
        assert not steering(shown.replace("\n", ""))
    assert visible(visible(text)) == visible(text)
    if text.isascii() and text.isprintable():
        assert visible(text) == text


@pytest.mark.slow
@given(st.recursive(st.text(st.characters(codec="utf-8")) | st.integers() | st.none(), st.lists, max_leaves=5))
def test_json_keeps_its_value_and_hides_nothing(value: object) -> None:
    document = visible_json(json.dumps(value, ensure_ascii=False).encode())
    assert json.loads(document) == value and not steering(document.decode())


@pytest.mark.slow
@given(texts)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_command_shows_a_steering_character_of_any_text(
    tmp_path_factory: pytest.TempPathFactory, capsysbinary: pytest.CaptureFixture[bytes], text: str
) -> None:
    place = tmp_path_factory.mktemp("bank") / "b"
    # Without U+0000, which no name can have.
    hostile_bank(place, text.replace("\0", "") or "x").log.close()
    for name, printed in shown_by(str(place), capsysbinary, page=place.parent / "page.html").items():
        assert not steering(printed.replace("\r\n", "\n")), name


# ---------------------------------------------------------------- a reviewer sees what the agent got


@pytest.mark.parametrize("name", ["zero-width", "tags", "bidi-override"])
def test_show_says_how_many_characters_a_context_leaves_out(
    name: str, banks: dict[str, str], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = TEXTS[name]
    with Bank.open(banks[text]) as bank:
        (item,) = bank.state().items
    assert main(["show", banks[text], item]) == 0
    printed = capsysbinary.readouterr().out.decode()
    hidden = 2 * (len(text) - len(without_hidden(text)))  # in the title and in the content
    assert f"{hidden} hidden characters spelled out above; contexts leave them out" in printed


@pytest.mark.parametrize("text", ["Grüße", "日本語", "नमस्ते", "Tiếng Việt", "שָׁלוֹם", "สวัสดี", "❤️", "é̂", "a\u00a0b"])
def test_what_people_write_is_shown_as_they_write_it(text: str) -> None:
    assert visible(text) == text


def test_four_marks_over_a_letter_are_shown() -> None:
    assert visible("a" + "\u0301" * 4) == "a" + "\u0301" * 4
    assert visible("a" + "\u0301" * 5) == "a" + "\u0301" * 4 + "\\u0301"
