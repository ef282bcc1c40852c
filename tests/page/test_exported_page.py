"""The exported page as a file: what it holds, what it leaves out, and that it can ask for nothing."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rbank_es.page
from rbank_es.bank import Bank
from rbank_es.bank.verdict_review import doubts_at
from rbank_es.errors import CannotWrite
from rbank_es.limits import page_limits
from rbank_es.page import ExportOptions, write_page
from rbank_es.page.app_script import app_script, app_style, asset, module_order
from rbank_es.page.escaped_html import element, escape, join, shorten
from rbank_es.page.exported_page import exported_page, page_data
from rbank_es.page.packed_data import ValuePool, compact_json, gzipped, packed_column
from rbank_es.page.page_answer import PageAnswers
from rbank_es.page.palette import PALETTE
from tests.cli_runner import SAMPLE
from tests.cli_runner import run as command
from tests.effort import examples


class Seen(HTMLParser):
    """The elements, the attributes and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


FEW_STOPS = ExportOptions(stops=2)
"""Each stop takes its time, so only one page of this module has all of them."""


def page_of(bank: Bank, point: str | None = None, options: ExportOptions | None = None) -> str:
    with bank.as_of(point) as view:
        return exported_page(page_data(bank, view, options or FEW_STOPS)).decode("ascii")


def data_in(page: str) -> tuple[Any, list[Any]]:
    """The data that a page holds, unpacked: the head, and the other parts."""
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    held = json.loads(block)
    return unpacked(held["packed"]), list(map(unpacked, held["parts"]))


def unpacked(packed: str) -> Any:
    return json.loads(gzip.decompress(base64.b85decode(packed.translate(str.maketrans(",.:", "<>&")))))


class Values:
    """The values of a part of a page, as `app/packed_values.js` reads them."""

    def __init__(self, part: Any, before: Values | None = None) -> None:
        self.objects: list[Any] = before.objects[:] if before else []
        self.lines: list[str] = before.lines[:] if before else []
        self.lines += [] if part["lines"] is None else part["lines"].split("\n")
        shapes = [(names, [iter(column_values(column)) for column in columns]) for names, columns in part["shapes"]]
        for shape, number in zip(part["order"][::2], part["order"][1::2], strict=True):
            names, columns = shapes[shape]
            self.objects += [
                {name: next(column) for name, column in zip(names, columns, strict=True)} for _ in range(number)
            ]

    def value(self, packed: Any) -> Any:
        match packed:
            case list():
                return [self.value(each) for each in packed]
            case {"o": number}:
                return {name: self.value(each) for name, each in self.objects[number].items()}
            case {"l": deltas}:
                return [self.value({"o": number}) for number in accumulate(deltas)]
            case {"t": spans}:
                pairs = zip(spans[::2], spans[1::2], strict=True)
                return "\n".join(line for first, number in pairs for line in self.lines[first : first + number])
        return packed


def json_values() -> st.SearchStrategy[Any]:
    """JSON values, in which keys and scalars repeat, and texts that are long enough to be kept by lines."""
    texts = st.sampled_from(["", "a", "\n", "x" * 200, "one\ntwo\n" * 30, "two\n" * 60, "\ud800" * 130])
    scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(0, 2, width=16) | texts
    keys = st.sampled_from(["o", "l", "t", "at", "__proto__"])
    return st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3))


def column_values(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    return list(accumulate(column["deltas"])) if "deltas" in column else [column["values"][at] for at in column["at"]]


def answers_in(page: str) -> list[tuple[str, dict[str, str], Any]]:
    """All answers of a page: name, what was asked, and what was found."""
    head, parts = data_in(page)
    newest, found = Values(head), []
    for part, values in [(head, newest), *((part, Values(part, newest)) for part in parts)]:
        for name, (asked, answers) in part["answers"].items():
            found += [
                (name, *map(values.value, pair))
                for pair in zip(({"o": n} for n in asked), ({"o": n} for n in answers), strict=True)
            ]
    return found


@pytest.fixture
def sample_page(sample_file: Path) -> str:
    return sample_file.read_text("ascii")


@pytest.mark.slow
def test_the_policy_names_the_digests_of_script_and_style_and_no_source(sample_page: str) -> None:
    seen = Seen(sample_page)
    policy = next(a["content"] for _, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    digest = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in
              {"script": app_script(), "style": app_style()}.items()}  # fmt: skip
    assert f"script-src 'sha256-{digest['script']}'" in policy and f"style-src 'sha256-{digest['style']}'" in policy
    assert policy.startswith("default-src 'none'") and "require-trusted-types-for 'script'" in policy
    assert not re.search(r"https?:|unsafe|\*|connect", policy)
    assert app_script() in seen.scripts
    addresses = [a[name] for _, a in seen.tags for name in ("src", "href", "action") if name in a]
    assert addresses and all(str(address).startswith(("#", "data:")) for address in addresses)
    assert not any("style" in a or any(name.startswith("on") for name in a) for _, a in seen.tags)


@pytest.mark.slow
def test_the_same_bank_makes_the_same_page() -> None:
    """Byte for byte: no random ids, no time of writing, no order of a set."""
    with Bank.open(SAMPLE) as bank:
        assert page_of(bank) == page_of(bank)


@pytest.mark.slow
def test_the_sample_with_every_prompt_stays_small(sample_page: str) -> None:
    assert len(sample_page.encode()) <= 250_000
    with Bank.open(SAMPLE) as bank:
        calls = [event.seq for event in bank.events(types={"lm_called"}) if getattr(event, "run", None)]
    runs = [found for name, _, found in answers_in(sample_page) if name == "run"]
    assert sorted(event["seq"] for run in runs for event in run["events"] if event["type"] == "lm_called") == calls


@pytest.mark.slow
def test_a_file_holds_what_a_served_bank_answers(sample_page: str) -> None:
    """Lists and counts as of every stop; every run, item and text, what to look at and what changed as of the newest
    position."""
    held = answers_in(sample_page)
    stops = data_in(sample_page)[0]["stops"]
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        assert (stops[0], stops[-1], len(stops)) == (0, bank.position, page_limits.PAGE_STOPS + 2)
        names = Counter(name for name, _, _ in held)
        assert {names[name] for name in ("about", "overview", "runs", "items", "health", "difference")} == {len(stops)}
        assert names["leakage"] == len(stops) and names["review"] == names["doubts"] == 1
        assert names["run"] == len(view.rows("runs")) and names["item"] == len(view.items())
        cut = {(text["path"], event["seq"]) for name, _, run in held if name == "run" for event in run["events"]
               for text in event["texts"] if text["next_offset"] is not None}  # fmt: skip
        assert {(asked["path"], int(asked["event"])) for name, asked, _ in held if name == "text"} >= cut != set()
        asking = PageAnswers(bank, "file")
        for name, asked, found in held[:: 1 if os.environ.get("CI") else 5]:
            limit = {"limit": "200"} if name in ("runs", "items", "leakage") else {}
            assert found == json.loads(msgspec.json.encode(asking.ask(name, asked | limit))), (name, asked)


@pytest.mark.slow
def test_lists_longer_than_a_page_go_in_up_to_a_bound_and_say_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_limits, "LIST_ROWS_MOST", 4)
    monkeypatch.setattr(page_limits, "PAGE_LISTED_ROWS", 12)
    monkeypatch.setattr(page_limits, "PAGE_EARLIER_ROWS", 4)
    monkeypatch.setattr(page_limits, "PAGE_NEWEST_ITEMS", 3)
    monkeypatch.setattr(page_limits, "PAGE_USED_ITEMS", 2)
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        held, runs = answers_in(page_of(bank)), sorted(view.rows("runs"), key=lambda row: -row["started_seq"])
        items = sorted(view.items(), key=lambda row: -row["born_seq"])
    lists = {asked.get("at", "newest"): found for name, asked, found in held if name == "runs"}
    assert [row["run"] for row in lists["newest"]["runs"]] == [row["run"] for row in runs[:12]]
    assert lists["newest"]["total"] == len(runs) and lists["newest"]["next"] == runs[11]["run"]
    assert {len(found["runs"]) for at, found in lists.items() if at not in ("newest", "0")} == {4}
    used = sorted((row["uses"] for row in items[3:]), reverse=True)[:2]
    shown = [found for name, _, found in held if name == "item"]
    assert [found["item"]["id"] for found in shown[:3]] == [row["id"] for row in items[:3]]
    assert [found["item"]["uses"] for found in shown[3:]] == used


@pytest.mark.slow
def test_without_prompts_no_word_of_them_is_in_the_file() -> None:
    with Bank.open(SAMPLE) as bank:
        page = page_of(bank, options=ExportOptions(prompts=False, stops=2))
    assert data_in(page)[0]["in_file"]["prompts"] is False
    events = [event for name, _, run in answers_in(page) if name == "run" for event in run["events"]]
    assert events
    for event in events:
        prompts = [text for text in event["texts"] if text["author"] or text["path"].startswith("texts.")]
        assert all(text["text"] is None and not text["erased"] for text in prompts)


@pytest.mark.slow
def test_commands_of_the_page_name_the_bank_as_the_command_that_wrote_it(tmp_path: Path) -> None:
    command("dashboard", "./sample@400", "-o", tmp_path / "page.html", cwd=SAMPLE.parent)
    found = {name: found for name, _, found in answers_in((tmp_path / "page.html").read_text("utf-8"))}
    assert found["about"]["command"] == "./sample"
    assert all(row["confirm"].startswith("rbank-es overrule ./sample ") for row in found["doubts"]["rows"])
    with Bank.open(SAMPLE) as bank:
        assert found["doubts"]["total"] == len(doubts_at(bank, 400)) > 0


@pytest.mark.slow
def test_a_page_as_of_a_point_knows_nothing_later() -> None:
    with Bank.open(SAMPLE) as bank:
        then, run = 40, next(event for event in bank.events(types={"run_started"}, after=40))
        page = page_of(bank, str(then))
    assert data_in(page)[0]["stops"][-1] == then and str(getattr(run, "run", None)) not in everything(page)
    banks = [found for name, _, found in answers_in(page) if name == "about"]
    assert {found["head_position"] for found in banks} == {then}
    assert all(mark["seq"] <= then for found in banks for mark in found["notable"])


@pytest.mark.slow
def test_without_a_script_the_page_has_the_newest_runs(sample_page: str) -> None:
    text = Seen(sample_page).text
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        rows = view.rows("runs")
        assert f"As of position {bank.position}: {len(rows)} runs." in text
    for row in rows:
        assert shorten(row["task"]) in text
    assert "Without JavaScript" in text


def test_values_are_packed_and_unpacked_as_they_were() -> None:
    assert packed_column([1, 1, 5]) == {"deltas": [1, 0, 4]} and packed_column([3, 1]) == [3, 1]
    assert packed_column(["a", "a", None, "a"]) == {"values": ["a", None], "at": [0, 0, 1, 0]}
    assert packed_column([1, True, 1, True]) == {"values": [1, True], "at": [0, 1, 0, 1]}
    assert unpacked(gzipped({"a": "\ud800 <"})) == {"a": "\ud800 <"}
    assert "</" not in compact_json("</script><!--") and json.loads(compact_json("</script>&")) == "</script>&"


@settings(max_examples=examples(100), deadline=None)
@given(first=json_values(), second=json_values())
def test_any_values_come_back_from_two_pools(first: Any, second: Any) -> None:
    """With what repeats kept once, in the later pool not again, and 1, 1.0 and True told apart."""
    one = ValuePool()
    forms = [one.put(first), one.put([first, first])]
    two = ValuePool(one)
    later = [two.put(second), two.put(first)]
    head, tail = json.loads(json.dumps([one.packed(), two.packed()]))
    values = Values(head)
    assert repr(list(map(values.value, forms))) == repr([first, [first, first]])
    assert repr(list(map(Values(tail, values).value, later))) == repr([second, first])
    assert two.size - one.size <= distinct_objects(second)


def distinct_objects(value: Any) -> int:
    return len({json.dumps(each) for each in objects_in(value)})


def objects_in(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(each)


def test_the_script_is_every_module_once_each_after_those_it_needs() -> None:
    order = module_order()
    assert order[-1] == "main.js" and len(order) == len(set(order))
    assert set(order) == {path.name for path in (Path(rbank_es.page.__file__).parent / "app").glob("*.js")}
    for name in order:
        for imported in re.findall(r'from "\./(\w+\.js)"', asset(name)):
            assert order.index(imported) < order.index(name)
    assert not re.search(r"^\s*(import|export)\b", app_script(), re.MULTILINE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", app_script())


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_told_from_the_ground(dark: bool) -> None:
    """WCAG AA: 4.5 for text, 3 for marks."""

    def contrast(name: str, ground: str) -> float:
        lighter, darker = sorted((luminance(PALETTE[each][dark]) for each in (name, ground)), reverse=True)
        return (lighter + 0.05) / (darker + 0.05)

    grounds = ("paper", "wash", "past", "badwash", "okwash")
    assert all(contrast(name, ground) >= 4.5 for name in ("ink", "muted") for ground in grounds)
    assert all(contrast(name, ground) >= 4.5 for name in ("accent", "flag", "sand") for ground in ("paper", "wash"))
    assert all(contrast(name, "paper") >= 3 for name in ("second", "pale"))
    assert (
        contrast("flag", "badwash") >= 4.5 and contrast("accent", "okwash") >= 4.5 and contrast("sand", "past") >= 4.5
    )


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_markup_is_escaped_by_construction() -> None:
    """Text is escaped once, in content and in attributes; markup is left as it is."""
    assert join("<b>", element("i", "&", title='"')) == '&lt;b&gt;<i title="&quot;">&amp;</i>'
    assert escape(escape("<")) == "&lt;"
    assert shorten("a\n b\x07" + "c" * 500, 10) == "a b\\x07cc…"
    assert len(shorten("x" * 10**7)) == page_limits.DASHBOARD_TEXT_CHARS


@pytest.mark.slow
def test_the_page_is_written_whole_in_place_of_an_older_one(tmp_path: Path) -> None:
    """And nothing else is left in the folder."""
    goal = tmp_path / "page.html"
    goal.write_text("old")
    with Bank.open(SAMPLE) as bank, bank.as_of(100) as view:
        written = write_page(bank, view, goal, FEW_STOPS)
        assert goal.read_text("ascii") == page_of(bank, "100")
    assert (written.path, written.size_bytes) == (str(goal), goal.stat().st_size)
    assert [*tmp_path.iterdir()] == [goal]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["missing/page.html", "folder", "file/page.html", "/"])
def test_a_place_that_can_not_be_written_is_named(tmp_path: Path, place: str) -> None:
    """The error names the place, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    with Bank.create("memory:") as bank, bank.as_of() as view, pytest.raises(CannotWrite, match=re.escape(place)):
        write_page(bank, view, tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


@pytest.mark.slow
def test_erased_words_are_nowhere_in_the_page(tmp_path: Path) -> None:
    """Neither in the summary nor in any part of the data, whatever held them."""
    words = "Compare how tall lighthouses are by focal height"
    shutil.copytree(SAMPLE, tmp_path / "bank")
    with Bank.open(tmp_path / "bank") as bank:
        assert words in everything(page_of(bank))
        bank.erase(text=words)
        for point in ("300", None):
            page = page_of(bank, point)
            assert words not in everything(page)
    assert any(found["item"]["erased"] for name, _, found in answers_in(page) if name == "item")


def everything(page: str) -> str:
    """The text of a page with all its data unpacked."""
    return page + json.dumps(data_in(page)) + json.dumps(answers_in(page))
