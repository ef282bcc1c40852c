"""Attacks on erasure: texts written so that the words in them are not found, or so that too much is found."""

from __future__ import annotations

import base64
import html
import json
import os
import textwrap
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import Erased, NoteLogged
from rbank_es.events.items import Item
from rbank_es.log.escaped_words import SoughtWords
from rbank_es.testing import extraction, note
from tests.effort import one_in

WORDS = 'the "vault" opens with <marigold> & owl 🦉 é\n7'
Writer = Callable[[str], str]


def each(write: Callable[[int], str]) -> Writer:
    """A writer that escapes every character, by its code point."""
    return lambda text: "".join(write(ord(char)) for char in text)


def each_byte(write: Callable[[int], str]) -> Writer:
    return lambda text: "".join(write(byte) for byte in text.encode())


def ascii_half(first: Writer, second: Writer) -> Writer:
    """A writer that escapes the halves of a text in two ways."""
    return lambda text: first(text[: len(text) // 2]) + second(text[len(text) // 2 :])


def twice(first: Writer, second: Writer) -> Writer:
    return lambda text: second(first(text))


def surrogates(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))


HEX = each(lambda code: f"\\x{code:02x}" if code < 256 else f"\\U{code:08X}")
OCTAL_BYTES = each_byte(lambda byte: chr(byte) if 31 < byte < 127 else f"\\{byte:03o}")
OCTAL = each_byte(lambda byte: f"\\{byte:03o}" if byte < 128 else f"\\x{byte:02X}")
DECIMAL = each(lambda code: f"&#{code};")
PERCENT = each_byte(lambda byte: f"%{byte:02x}")
PERCENT_UPPER = each_byte(lambda byte: f"%{byte:02X}")

FOUND: dict[str, Writer] = {
    "indented": lambda text: textwrap.indent(text, "    "),
    "indented-in-json": lambda text: json.dumps([text.replace("\n", "\n\t  ")]),
    "hex-escapes": HEX,
    "octal-bytes": OCTAL_BYTES,
    "octal-bytes-in-json": lambda text: json.dumps(OCTAL_BYTES(text)),
    "bytes-of-utf-16": lambda text: repr(text.encode("utf-16-le")),
    "bytes-of-utf-16-with-a-mark": lambda text: json.dumps([repr(text.encode("utf-16"))]),
    "bytes-of-utf-16-big": lambda text: repr(text.encode("utf-16-be")),
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "decomposed-in-ascii": lambda text: ascii(unicodedata.normalize("NFD", text)),
    "wrapped": lambda text: text.replace(" ", "\n"),
    "windows-line-ends": lambda text: text.replace("\n", "\r\n"),
    "windows-line-ends-in-json": lambda text: json.dumps(text.replace("\n", "\r\n")),
    "one-line": lambda text: " ".join(text.split()),
    "hidden-characters-between": lambda text: "\u200b".join(text),
    "hidden-characters-between-in-json": lambda text: json.dumps("\xad".join(text)),
    "controls-between": lambda text: json.dumps("\x01".join(text)),
    "octal-escapes": OCTAL,
    "octal-escapes-of-two-digits": lambda text: text.replace('"', "\\42"),
    "bytes-of-python": lambda text: repr(text.encode()),
    "surrogate-pairs": surrogates,
    "surrogates-apart": lambda text: json.dumps(text).replace("\\ud83e", "\\\\ud83e"),
    "long-unicode-escapes": each(lambda code: f"\\U{code:08x}"),
    "braced-unicode-escapes": each(lambda code: f"\\u{{{code:x}}}"),
    "names-of-characters": each(
        lambda code: f"\\N{{{unicodedata.name(chr(code))}}}" if unicodedata.name(chr(code), "") else f"\\x{code:02x}"
    ),
    "decimal-entities": DECIMAL,
    "decimal-entities-without-semicolon": each(
        lambda code: f"&#{code}" if not chr(code).isdigit() else f"&#{code:05d};"
    ),
    "hex-entities": each(lambda code: f"&#X{code:x};"),
    "named-entities": lambda text: html.escape(text).replace("é", "&eacute;").replace("\n", "&NewLine;"),
    "entities-without-semicolon": lambda text: text.replace("&", "&amp").replace("<", "&lt").replace('"', "&quot"),
    "entities-twice": twice(html.escape, DECIMAL),
    "percent-lower": PERCENT,
    "percent-upper": PERCENT_UPPER,
    "percent-twice": twice(PERCENT, quote),
    "percent-of-javascript": each(lambda code: f"%u{code:04x}" if 255 < code < 65536 else quote(chr(code))),
    "latin-1-percent": lambda text: quote(text).replace("%C3%A9", "%E9"),
    "plus-for-space": quote_plus,
    "plus-for-space-alone": lambda text: text.replace(" ", "+"),
    "repr-in-repr-in-repr": lambda text: repr(repr([repr(text)])),
    "ascii-of-dict": lambda text: ascii({text: (text,)}),
    "json-six-times": lambda text: nested(text, 6),
    "json-in-html-in-url": twice(twice(json.dumps, html.escape), quote),
    "url-in-html-in-json": twice(twice(quote_plus, html.escape), json.dumps),
    "html-in-repr-in-url": twice(twice(html.escape, repr), quote),
    "halves-hex-and-entities": ascii_half(HEX, DECIMAL),
    "halves-percent-and-json": ascii_half(PERCENT, lambda text: json.dumps(text)[1:-1]),
    "halves-plain-and-octal": ascii_half(lambda text: text, OCTAL),
    "backslash-as-percent": lambda text: HEX(text).replace("\\", "%5C"),
    "backslash-as-entity": lambda text: HEX(text).replace("\\", "&bsol;"),
    "backslash-as-escape": lambda text: HEX(text).replace("\\", "\\u005c"),
    "ampersand-as-percent": lambda text: DECIMAL(text).replace("&", "%26"),
    "percent-as-escape": lambda text: PERCENT(text).replace("%", "\\x25"),
    "percent-as-entity": lambda text: PERCENT(text).replace("%", "&percnt;"),
    "quotes-doubled": lambda text: '"' + text.replace('"', '""') + '"',
    "overlapping-itself": lambda text: text[:20] + text,
    "after-a-backslash": lambda text: "C:\\" + text,
    "after-half-an-escape": lambda text: "\\u00" + text,
    "after-half-an-entity": lambda text: "&#" + text + ";",
    "after-half-a-percent": lambda text: "%7" + text,
    "between-backslashes-in-json": lambda text: json.dumps("\\" + text + "\\"),
    "slashes-of-javascript": lambda text: json.dumps(text).replace("<", "\\u003c").replace("/", "\\/"),
    "without-white-space-around": lambda text: text.strip(),
    "turtle": lambda text: '"' + each(lambda c: chr(c) if chr(c).isalnum() else f"\\u{c:04X}")(text[:-5]) + text[-5:],
}


def nested(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.dumps({"q": text})
    return text


def erased(bank: Bank, words: str, *texts: str) -> list[bool]:
    """Which of the texts are gone once the words were erased."""
    first = bank.position + 1
    bank.append([NoteLogged(note=text) for text in texts])
    bank.erase(text=words)
    return [isinstance(event.note, Erased) for event in bank.events(after=first - 1) if isinstance(event, NoteLogged)]


@pytest.fixture(scope="module")
def bank() -> Bank:
    return Bank.create("memory:")


@pytest.mark.parametrize("hidden", one_in(3, FOUND))
def test_a_text_written_in_escapes_is_erased(bank: Bank, hidden: str) -> None:
    """Whichever escapes were used, and whatever stands around them."""
    assert erased(bank, WORDS, f"they wrote {FOUND[hidden](WORDS)} there", f"and {WORDS[:9]} alone") == [True, False]


@pytest.mark.parametrize(
    ("words", "context"),
    {
        "path": ("notes on C:\\new\\table", "see {}\\u0041"),
        "starts-like-a-newline": ("new marigold vault", "C:\\{}"),
        "starts-like-a-number": ("0041 is the number", "\\u{} of it"),
        "starts-like-a-parameter": ("region=eu central 7", "?a=1&{}&b=2"),
        "starts-like-hex": ("41 marigolds stand", "sold %{}"),
        "ends-in-a-backslash": ("C:\\marigold\\vault\\", "{}name is the folder"),
        "ends-in-a-percent": ("marigold at 100%", "{}20 of them"),
        "ends-in-half-an-entity": ("marigold &am", "{}p; owl"),
        "entities": ("a &amp; b &lt; c &copy", "write {} here"),
        "percents": ("100%25 sure %41 marigold", "be {} of it"),
        "escapes": ("\\u0041 is not A, \\n is no line", "know that {}"),
        "nothing-but-marks": ("@#$%^&*()!\\\"'", "the password {} of it"),
        "nothing-but-blanks": (" \n \t \n \t \n", "a{}b"),
        "controls": ("nul \x00 esc \x1b nbsp \xa0 sep \u2028", "a {} b"),
        "another-script": ("金庫は金盞花で開く、七", "say {} now"),
    }.values(),
    ids=lambda value: None,
)
def test_words_that_look_like_escapes_are_found_in_every_form(bank: Bank, words: str, context: str) -> None:
    """Words that begin or end within what looks like an escape, or that are escapes, in JSON and `repr` as well."""
    text = context.format(words)
    assert all(erased(bank, words, text, json.dumps({"q": text}), repr([text]), nested(text, 3)))


@pytest.mark.parametrize(
    "hide",
    {
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "reversed": lambda text: text[::-1],
        "upper-case": str.upper,
        "joined-by-code": lambda text: f'"{text[:9]}" + "{text[9:]}"',
        "escaped-nine-times": lambda text: nested(text, 9),
    }.values(),
)
def test_what_is_out_of_reach_is_as_documented(bank: Bank, hide: Writer) -> None:
    """A text that was changed rather than escaped stays; `docs/erasure.md` says so."""
    assert erased(bank, WORDS, hide(WORDS)) == [False]


@pytest.mark.parametrize(
    ("words", "other"),
    [
        ("the vault opens with marigold-7", "the vault opens with marigold-8"),
        ("the vault opens with marigold-7", "the vault opens with marigold7"),
        ("\\x41\\x42\\x43\\x44", "the ABCD of vaults"),  # unescaped, the words are too short to search for
        ("&lt;&gt;&lt;&gt;", "a <><> b"),
        ("1.0.0.0.0", "10000 and 1 0 0 0 0"),
    ],
)
def test_a_text_that_is_merely_like_the_words_stays(bank: Bank, words: str, other: str) -> None:
    assert erased(bank, words, other) == [False]


def test_words_that_are_escapes_are_found_unescaped_and_reported_as_alike(bank: Bank) -> None:
    """The one way in which other words are erased: the report names it before anything happens."""
    bank.append(NoteLogged(note="the vault & the <marigold>"))
    would = bank.erase(text="the vault &amp; the &lt;marigold&gt;", dry_run=True).erasure
    assert [place.form for place in would.places] == ["alike"] and would.searched.forms == {"alike": 1}


def test_words_that_are_long_enough_only_just_are_found_unescaped(bank: Bank) -> None:
    bank.append(NoteLogged(note="about a&b <c>."))
    unescaped = "a&b <c>."
    assert len(unescaped) == limits.NEEDLE_CHARS
    found = bank.erase(text="a&amp;b &lt;c&gt;.", dry_run=True).erasure
    assert [place.form for place in found.places] == ["alike"]


def test_a_label_that_other_items_have_does_not_take_them_along() -> None:
    """Whoever gives an item the tags of all others can't have them erased with it."""
    with Bank.create("memory:") as bank:
        mine = Item.make("marigold", "the vault opens with it", tags=("aggregation", "marigold-secret"))
        other = Item.make("counting", "group by class, then count", tags=("aggregation",))
        texts = [note("about marigold-secret"), note("aggregation is easy")]
        first = bank.append([extraction(mine), extraction(other), *texts]).first
        report = bank.erase(item=mine.id).erasure
        assert [place.seq - first for place in report.places] == [0, 2] and report.shared == 1
        assert report.residue and not report.residue.found


@pytest.mark.parametrize("field", ["title", "desc", "content", "tags"])
def test_words_that_stand_in_one_field_of_an_item_only_are_searched_for(field: str) -> None:
    words = "marigold in the vault"
    fields = {"title": "an item", "desc": "a sentence", "content": "how to go about it", field: words}
    given = {name: (text,) if name == "tags" else text for name, text in fields.items()}
    item = Item(id="hidden", **({"tags": ()} | given))  # type: ignore[arg-type]
    with Bank.create("memory:") as bank:
        first = bank.append([extraction(item), note(f"it said {words!r}"), note("nothing")]).first
        assert [place.seq - first for place in bank.erase(item="hidden").erasure.places] == [0, 1]


def foreign_link(place: Path, outside: Path) -> Path:
    (place / "link").symlink_to(outside)
    return place / "link"


def pipe(place: Path, _: Path) -> Path:
    os.mkfifo(place / "pipe")
    return place / "pipe"


@pytest.mark.parametrize("make", [foreign_link, pipe])
def test_what_can_not_be_searched_is_neither_followed_nor_waited_for(
    tmp_path: Path, make: Callable[[Path, Path], Path]
) -> None:
    """A link or a pipe in the bank's directory: the report names it."""
    outside = tmp_path / "outside.txt"
    outside.write_text(WORDS)
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(note(WORDS))
        made = make(tmp_path / "bank", outside)
        residue = bank.erase(text=WORDS).erasure.residue
    assert residue and not residue.found
    assert len(residue.unread) == 1 and str(made) in residue.unread[0]
    assert outside.read_text() == WORDS


def test_a_copy_in_a_file_that_is_not_the_banks_is_reported(tmp_path: Path) -> None:
    """Erasure removes nothing that the bank didn't write, and says where the words still are."""
    with Bank.create(tmp_path / "bank") as bank:
        bank.append(note(WORDS))
        (tmp_path / "bank" / "notes.html").write_text(f"<p>{html.escape(WORDS)}</p>")
        residue = bank.erase(text=WORDS).erasure.residue
    assert residue and residue.found == {str(tmp_path / "bank" / "notes.html"): {"HTML": 1}}


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "backslashes": lambda size: b"\\" * size,
    "escaped-quotes": lambda size: b'\\"' * (size // 2),
    "unicode-escapes": lambda size: b"\\u0041" * (size // 6),
    "escaped-bytes": lambda size: b"\\xc3\\xa9" * (size // 8),
    "broken-escapes": lambda size: b"\\u00\\x4\\N{" * (size // 10),
    "entities": lambda size: b"&#65;" * (size // 5),
    "nested-entities": lambda size: b"&" + b"amp;" * (size // 4),
    "nested-percents": lambda size: b"%" + b"25" * (size // 2),
    "percents": lambda size: b"%c3%a9" * (size // 6),
    "ampersands": lambda size: b"&a" * (size // 2),
    "all-at-once": lambda size: b"\\u0026lt;%5cx41&amp;#65;" * (size // 23),
    "almost-the-words": lambda size: b"marigold-" * (size // 9),
}
MARIGOLD = SoughtWords(["marigold-marigold-7"])


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_costs_time_in_proportion_to_its_length(text: str) -> None:
    """A quarter of a MiB in at most 3 s, where it takes 0.1 s on an idle machine."""
    began = time.process_time()
    assert MARIGOLD.form_in(HOSTILE[text](256 * 1024)) is None
    assert time.process_time() - began < 3


@pytest.mark.slow
@pytest.mark.parametrize("text", ["all-at-once", "nested-entities"])
def test_a_hostile_text_of_the_largest_size_is_searched_in_a_minute(text: str) -> None:
    """16 MiB, the limit of a text line."""
    began = time.process_time()
    assert MARIGOLD.form_in(HOSTILE[text](16 * 1024 * 1024)) is None
    assert time.process_time() - began < 60
