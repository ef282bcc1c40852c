"""The exported page as a file: what it holds, what it leaves out, and that it can ask for nothing."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import itertools
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import rbank_es.dashboard
from rbank_es.bank import Bank
from rbank_es.dashboard import ExportOptions, write_page
from rbank_es.dashboard.app_script import app_script, app_style, asset, module_order
from rbank_es.dashboard.exported_page import exported_page, newest_runs, page_data, whole_runs
from rbank_es.dashboard.packed_data import LineTable, compact_json, gzipped, packed_column, packed_table
from rbank_es.dashboard.page_text import element, escape, join, shorten
from rbank_es.dashboard.palette import PALETTE
from rbank_es.errors import CannotWrite
from rbank_es.limits import page_limits
from tests.cli_runner import SAMPLE
from tests.cli_runner import run as command


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


def page_of(bank: Bank, point: str | None = None, options: ExportOptions | None = None) -> str:
    with bank.as_of(point) as view:
        return exported_page(page_data(bank, view, options or ExportOptions()), newest_runs(view)).decode("ascii")


def data_in(page: str) -> Any:
    """The data that a page holds, unpacked."""
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    held = json.loads(block)
    data = unpacked(held["packed"])
    named = zip(data["blocks"], held["blocks"], strict=True)
    return data | {"blocks": [{"runs": runs, "packed": packed} for runs, packed in named]}


def unpacked(packed: str) -> Any:
    return json.loads(gzip.decompress(base64.b85decode(packed.translate(str.maketrans(",.:", "<>&")))))


@pytest.fixture(scope="module")
def sample_page() -> str:
    with Bank.open(SAMPLE) as bank:
        return page_of(bank)


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


def test_the_same_bank_makes_the_same_page(sample_page: str) -> None:
    """Byte for byte: no random ids, no time of writing, no order of a set."""
    with Bank.open(SAMPLE) as bank:
        assert page_of(bank) == sample_page


def test_the_sample_with_every_prompt_stays_small(sample_page: str) -> None:
    assert len(sample_page.encode()) <= 250_000
    data = data_in(sample_page)
    with Bank.open(SAMPLE) as bank:
        calls = sum(1 for event in bank.events(types={"lm_called"}) if getattr(event, "run", None))
    events = [
        event for block in data["blocks"] for run in unpacked(block["packed"])["events"].values() for event in run
    ]
    assert sum(event["type"] == "lm_called" and bool(event["request"]) for event in events) == calls


def test_without_prompts_no_word_of_them_is_in_the_file() -> None:
    with Bank.open(SAMPLE) as bank:
        data = data_in(page_of(bank, options=ExportOptions(prompts=False)))
    assert data["in_file"]["prompts"] is False
    for block in data["blocks"]:
        for events in unpacked(block["packed"])["events"].values():
            for event in events:
                sent = [*event.get("request", ()), *event.get("response", ())] if event["type"] == "lm_called" else []
                assert all(message["text"]["left_out"] and message["text"]["text"] is None for message in sent)
                assert event["type"] != "context_built" or all(text["left_out"] for text in event.get("texts", ()))


@pytest.mark.slow
def test_commands_of_the_page_name_the_bank_as_the_command_that_wrote_it(tmp_path: Path) -> None:
    command("dashboard", "./sample@400", "-o", tmp_path / "page.html", cwd=SAMPLE.parent)
    data = data_in((tmp_path / "page.html").read_text("utf-8"))
    assert data["bank"]["argument"] == "./sample"
    assert all(row["confirm"].startswith("rbank-es overrule ./sample ") for row in data["doubts"]["rows"])
    with Bank.open(SAMPLE) as bank:
        assert data["doubts"]["total"] == len(bank.doubtful_verdicts(400)) > 0


def test_a_page_as_of_a_point_knows_nothing_later() -> None:
    with Bank.open(SAMPLE) as bank:
        then, run = 40, next(event for event in bank.events(types={"run_started"}, after=40))
        page = page_of(bank, str(then))
        data = data_in(page)
        assert data["marks"]["head"] == then and run.run not in json.dumps(data) + page
        assert all(block["runs"] for block in data["blocks"])


def test_without_a_script_the_page_has_the_newest_runs(sample_page: str) -> None:
    text = Seen(sample_page).text
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        rows = view.rows("runs")
        assert f"As of position {bank.position}: {len(rows)} runs." in text
    for row in rows:
        assert shorten(row["task"]) in text
    assert "Without JavaScript" in text


def test_the_newest_runs_go_in_whole_with_places_kept_for_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_limits, "PAGE_WHOLE_RUNS", 4)
    runs = [f"r{i}" for i in range(10)]
    assert whole_runs(runs, frozenset(), ()) == ["r9", "r8", "r7", "r6"]
    assert whole_runs(runs, frozenset({"r1", "r2", "r9"}), ()) == ["r9", "r8", "r2", "r1"]
    assert whole_runs(runs, frozenset({"r1"}), ("r0", "unknown", "r0")) == ["r9", "r8", "r7", "r1", "r0"]
    assert whole_runs([], frozenset(), ()) == []


def test_old_runs_are_counted_without_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_limits, "PAGE_LISTED_RUNS", 5)
    monkeypatch.setattr(page_limits, "PAGE_WHOLE_RUNS", 2)
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        data = page_data(bank, view, ExportOptions())
        rows = sorted(view.rows("runs"), key=lambda row: row["started_seq"])
    tasks = column_values(data["tables"]["run_starts"]["task"])
    assert tasks[-5:] == [row["task"] for row in rows[-5:]] and sum(task is not None for task in tasks) <= 7
    assert len(tasks) == len(rows) == data["in_file"]["runs"] and len(data["blocks"]) == 1
    reasons = column_values(data["tables"]["judgments"]["reason"])
    assert None in reasons and any(reasons)


def test_texts_are_packed_and_unpacked_as_they_were() -> None:
    lines = LineTable()
    assert lines.put("one\ntwo\n\none\ntwo") == [0, 3, 0, 2] and lines.lines == "one\ntwo\n"
    assert lines.put("two\n\n") == [1, 2, 2, 1] and lines.put("") == [2, 1]
    assert packed_column([1, 1, 5]) == {"deltas": [1, 0, 4]} and packed_column([3, 1]) == [3, 1]
    assert packed_column(["a", "a", None, "a"]) == {"values": ["a", None], "at": [0, 0, 1, 0]}
    assert packed_column([]) == []
    assert packed_table(("a", "to_seq"), [(1, None)]) == {"a": {"deltas": [1]}}
    assert packed_table(("a", "to_seq"), []) == {"a": []}
    assert unpacked(gzipped({"a": "\ud800 <"})) == {"a": "\ud800 <"}
    assert "</" not in compact_json("</script><!--") and json.loads(compact_json("</script>&")) == "</script>&"


def test_the_script_is_every_module_once_each_after_those_it_needs() -> None:
    order = module_order()
    assert order[-1] == "main.js" and len(order) == len(set(order))
    assert set(order) == {path.name for path in (Path(rbank_es.dashboard.__file__).parent / "app").glob("*.js")}
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


def test_the_page_is_written_whole_in_place_of_an_older_one(tmp_path: Path, sample_page: str) -> None:
    """And nothing else is left in the folder."""
    goal = tmp_path / "page.html"
    goal.write_text("old")
    with Bank.open(SAMPLE) as bank, bank.as_of() as view:
        written = write_page(bank, view, goal)
    assert goal.read_text("ascii") == sample_page
    assert (written.path, written.size_bytes) == (str(goal), goal.stat().st_size)
    assert [*tmp_path.iterdir()] == [goal]


@pytest.mark.parametrize("place", ["missing/page.html", "folder", "file/page.html", "/"])
def test_a_place_that_can_not_be_written_is_named(tmp_path: Path, place: str) -> None:
    """The error names the place, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    with Bank.create("memory:") as bank, bank.as_of() as view, pytest.raises(CannotWrite, match=re.escape(place)):
        write_page(bank, view, tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_an_empty_bank_has_a_page() -> None:
    with Bank.create("memory:") as bank:
        page = page_of(bank)
    assert "This bank holds no runs yet." in html.unescape(page)


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
        data = data_in(page)
        assert 1 in column_values(data["tables"]["candidates"]["erased"])


def everything(page: str) -> str:
    """The text of a page with all its data unpacked."""
    data = data_in(page)
    return page + json.dumps(data) + "".join(json.dumps(unpacked(block["packed"])) for block in data["blocks"])


def column_values(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    if "at" in column:
        return [column["values"][place] for place in column["at"]]
    return list(itertools.accumulate(column["deltas"]))
