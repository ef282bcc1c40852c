"""Laws of erasure: no byte of an erased text is left, in whatever form and by whatever path it came into the bank."""

from __future__ import annotations

import html
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.bank import Bank
from rbank_es.events import (
    ArtifactMaterialised,
    ContextBuilt,
    Event,
    LmCalled,
    MemoriesRetrieved,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.events.items import Item
from rbank_es.exchange.exporters import FORMS, export_files
from rbank_es.log.escaped_words import SoughtWords
from rbank_es.log.file.file_log import FileLog
from rbank_es.page import write_page
from rbank_es.system.files import caches_of
from rbank_es.testing import extraction
from tests.effort import examples
from tests.faults.disk import Quick
from tests.sandbox import sandboxes

Writer = Callable[[str], str]

WRITERS: dict[str, Writer] = {
    "JSON": lambda text: json.dumps({"q": [text]}),
    "JSON, not ASCII": lambda text: json.dumps({"q": [text]}, ensure_ascii=False),
    "repr": repr,
    "repr of a container": lambda text: repr({"q": [text, (text,)]}),
    "f-string": lambda text: f"so {text!r} it is, or {text}",
    "ascii": lambda text: ascii([text]),
    "bytes": lambda text: repr(text.encode()),
    "HTML": lambda text: f'<p title="{html.escape(text)}">',
    "HTML, not quotes": lambda text: f"<p>{html.escape(text, quote=False)}</p>",
    "URL": lambda text: f"https://a.example/{quote(text, safe='')}?b=1",
    "form": lambda text: f"https://a.example/?a=1&{quote_plus(text)}&b=2",
    "SPARQL": lambda text: f'SELECT ?s {{ ?s ?p "{short_escapes(text)}" }}',
    "N-Triples": lambda text: "".join(
        char if char.isalnum() and char.isascii() else f"\\U{ord(char):08X}" for char in text
    ),
    "as it is": lambda text: text,
}
INSIDE: Sequence[Writer] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: ascii(text)[1:-1],
    lambda text: repr(text + "'\"")[1:-4],
    html.escape,
    lambda text: quote(text, safe=""),
    quote_plus,
)
"""Writers without what they put around a text."""


def short_escapes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


PIECES = (
    '"',
    "'",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "\xa0",
    "\u2028",
    "🦉",
    "é",
    "\x00",
    "\x1b",
    "\x7f",
    "\ufeff",
    "</script>",
)
PIECES += ("%", "{", "}", "{{", "&", "<", "+", "/", " ", "marigold", "vault", "7", "\\n", "&amp;", "%20", "\\u0041")
MINIFIED = 100_000
"""Characters of a line from which on it is the code of a library that a page contains, and none of the bank's."""

texts = (
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), min_size=6, max_size=14)
    .map("".join)
    # A log holds no lone surrogates; last backslashes of words don't count.
    .filter(
        lambda text: (
            len(text.strip().rstrip("\\")) >= limits.NEEDLE_CHARS and not any("\ud800" <= c <= "\udfff" for c in text)
        )
    )
)
ways = st.lists(st.sampled_from(sorted(WRITERS)), max_size=2)


def written(text: str, way: Sequence[str]) -> str:
    for name in way:
        text = WRITERS[name](text)
    return text


def forms_of_all(text: str) -> set[bytes]:
    """The forms of a text, two writers deep, as they are and as the log's JSON has them. Knows nothing of readings."""
    forms = {text, *(write(text) for write in INSIDE)}
    forms |= {second(first(text)) for first, second in product(INSIDE, INSIDE)}
    forms |= {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
    return {form.encode() for form in forms}


def carriers(run: str, text: str, way: Callable[[], str]) -> Iterator[Event]:
    """Events that hold a text in every field that can, each written in its own way."""
    yield RunStarted(run=run, task=f"Find {way()} now", settings=json.dumps({"query": text}))
    yield ContextBuilt(run=run, chars=9, texts=("# Strategies", way()))
    yield MemoriesRetrieved(run=run, query=way(), mode="auto", k=2, policy="bm25-2")
    arguments = json.dumps({"query": way(), "k": 3})
    yield ToolCalled(run=run, tool="t", arguments=arguments, result=way() + " and more" * 400, error=way())
    yield StepTaken(run=run, index=1, reasoning=way(), code=f"x = {text!r}\nprint(x)", output=f"{text}\n[{text!r}]")
    messages = [{"role": "user", "content": f"[[ ## question ## ]]\n{way()}\n[[ ## repl ## ]]\n{way()}"}]
    yield LmCalled(run=run, role="agent", model="m", request=json.dumps(messages), response=json.dumps([way()]))
    yield LmCalled(run=run, role="judge", model="m", request_key=way(), error=f"ValueError: {text!r}")
    evidence = json.dumps({"rows": [[way()]]})
    yield RunFinished(run=run, outcome="submitted", answer=way(), sparql=way(), evidence=evidence, error=way())
    yield RunJudged(
        run=run, purpose="learning", verdict="failure", judge="j", judge_version="1", kind="human", reason=way()
    )
    yield NoteLogged(note=json.dumps({"said": way()}), run=run)
    yield NoteLogged(note=way())
    yield ArtifactMaterialised(artifact="g", kind="guide", chars=9, text=f"# Guide\n\n- {way()}\n")
    fields = ("title", "desc", "content", "tags")
    yield extraction(*(item_with(name, way()) for name in fields), item_with("content", f"{way()} {'x ' * 1500}"))


def item_with(field: str, text: str) -> Item:
    given = {"title": "a title", "desc": "a description", "content": "contents"} | {field: text}
    tags = (str(given.pop("tags")),) if field == "tags" else ()
    return Item.make(given["title"], given["content"], desc=given["desc"], tags=tags)


def pages_and_exports(bank: Bank, folder: Path) -> Iterator[Event]:
    """Events that hold what the bank's own writers write of it: somebody gave an agent the page to read."""
    with bank.as_of() as view:
        write_page(bank, view, folder / "page.html")
    page = (folder / "page.html").read_text().split("\n")
    yield ToolCalled(run="r", tool="read", result="\n".join(line for line in page if len(line) < MINIFIED))
    for form in FORMS:
        for _, pieces in export_files(bank, None, form):
            yield NoteLogged(note=b"".join(pieces).decode()[: limits.TEXT_LINE_BYTES // 8])


def stored(bank: Bank, place: Path) -> bytes:
    folders = (place, *caches_of(bank.log.bank_id))
    return b"\n".join(path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file())


def check(text: str, more: Callable[[Bank, Path], Iterator[Event]], ways_of: Callable[[], str]) -> None:
    """Fill a bank with a text by every path, erase it, and find nothing of it."""
    forms = forms_of_all(text)
    with tempfile.TemporaryDirectory() as folder, patch.dict("os.environ", RBANK_CACHE=f"{folder}/cache"):
        place = Path(folder) / "bank"
        with Bank(FileLog.create(place, calls=Quick()), "bank") as bank:
            bank.append(list(carriers("before", "a harmless text", lambda: "a harmless text")))
            bank.project()
            assume(not any(form in stored(bank, place) for form in forms))
            bank.append(list(carriers("r", text, ways_of)))
            bank.append(list(more(bank, Path(folder))) or [NoteLogged()])
            bank.project()
            noted = [bank.head(seq) for seq in range(bank.position + 1)]
            assert any(form in stored(bank, place) for form in forms)
            report = bank.erase(text=text).erasure
            assert report.residue and not report.residue.found and not report.residue.unread
            left = stored(bank, place)
            assert not [form for form in forms if form in left]
            bank.check(noted=noted)


def nothing_more(bank: Bank, folder: Path) -> Iterator[Event]:
    yield from ()


@settings(max_examples=examples(40), deadline=None)
@example(text='a "quoted" text\nof two lines\xa0', way=["repr", "JSON"])
@example(text="C:\\new\\table & </script> 100%20", way=["HTML", "URL"])
@given(text=texts, way=ways)
def test_a_text_is_found_in_any_form_anywhere(text: str, way: list[str]) -> None:
    """In a line of the log, within other texts, whatever two writers did to it."""
    line = json.dumps({"note": f"before {written(text, way)} behind"}, ensure_ascii=False).encode()
    sought = SoughtWords([text])
    assert sought.may_be_in(line) and sought.form_in(line, levels=1)


@settings(max_examples=5, deadline=None)
@given(text=texts, data=st.data())
def test_no_byte_of_an_erased_text_is_left(text: str, data: st.DataObject) -> None:
    """By all paths that can carry it, each in another form, in the log and in the user's caches."""
    check(text, nothing_more, lambda: written(text, data.draw(ways)))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(text=texts, data=st.data())
def test_no_byte_of_an_erased_text_is_left_in_pages_and_exports(text: str, data: st.DataObject) -> None:
    """The same, with pages and exports of the bank that came back into it."""
    check(text, pages_and_exports, lambda: written(text, data.draw(ways)))


PRINTING = """
import json, html, pprint
from urllib.parse import quote
print(x); print(repr(x)); print([x]); print({"k": (x,)}); print(f"{x!r} and {x}"); print(ascii(x)); print(x.encode())
print(json.dumps(x)); print(json.dumps({"a": json.dumps([x])})); print(html.escape(x)); print(quote(x))
pprint.pprint({"x": x}, width=10_000)
[x, repr(x)]
"""


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(text=texts)
def test_no_byte_of_what_the_sandbox_printed_is_left(text: str) -> None:
    """The code of a step in the real guest prints the text in every way it has, hands it to a tool, and raises it."""
    sandboxes.require_dspy()
    handed = list[str]()

    def tool(value: str) -> dict[str, str]:
        handed.append(json.dumps({"value": value}))
        return {"got": value}

    with sandboxes.sandbox(tools={"tool": tool}) as sandbox:
        code = f"x = {text!r}\nprint(tool(x)){PRINTING}"
        output = str(sandbox.execute(code))
        raised = sandboxes.raised(lambda: sandbox.execute(f"raise ValueError({text!r})"))

    def recorded(bank: Bank, folder: Path) -> Iterator[Event]:
        yield StepTaken(run="r", index=2, code=code, output=output)
        yield StepTaken(run="r", index=3, code=f"raise ValueError({text!r})", output=str(raised))
        yield ToolCalled(run="r", tool="tool", arguments=handed[0], result=json.dumps({"got": text}))

    check(text, recorded, lambda: text)
