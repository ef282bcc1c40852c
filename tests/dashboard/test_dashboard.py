"""The page of a bank: what it says, what it leaves unsaid, and that no text of a bank can harm it."""

import base64
import copy
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rbank_es import limits
from rbank_es.dashboard import PageFacts, write_page
from rbank_es.dashboard.charts import DASHBOARD_BARS
from rbank_es.dashboard.figures import PALETTE
from rbank_es.dashboard.page_facts import peaks
from rbank_es.dashboard.page_text import element, escape, join, shorten
from rbank_es.dashboard.tables import TURN_ITEMS
from rbank_es.errors import CannotWrite, MissingExtra
from tests.effort import one_in

HOSTILE = "</script><script>window.broken=1</script><img src=x onerror=window.broken=1>\"'&<b>bold</b>\x00\u202e\u2028"


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


def figures(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])["figures"]


def with_text(rows: Any, text: str) -> Any:
    """The rows with every text in them replaced, states and flags aside."""
    kept = {"state", "flag", "at", "started_at", "finished_at", "relation"}
    return {
        name: [{k: text if isinstance(v, str) and k not in kept else v for k, v in row.items()} for row in table]
        for name, table in rows.items()
    }


def test_the_header_says_which_bank_this_is_and_when(page: Any, rows: Any, facts: PageFacts) -> None:
    """Name, purpose, position, time, head digest and the point that was asked for."""
    text = Seen(page(rows, msgspec.structs.replace(facts, point="HEAD~5"))).text
    for said in ("voyages", facts.purpose, "437", "2026-01-02 12:25:00 UTC", facts.head, "as of HEAD~5"):
        assert said in text


def test_scripted_runs_are_called_scripted(page: Any, rows: Any) -> None:
    """All of them, some of them; and where none is, nothing is said."""
    assert "All 24 runs in this bank are scripted" in page(rows)
    rows["runs"] = [{**row, "scripted": int(i < 3)} for i, row in enumerate(rows["runs"])]
    assert "3 of 24 runs are scripted" in page(rows)
    rows["runs"] = [{**row, "scripted": 0} for row in rows["runs"]]
    assert "scripted" not in Seen(page(rows)).text.replace("model: scripted", "")


def test_key_figures_count_what_the_views_hold(page: Any, rows: Any) -> None:
    """Runs, success rate among judged runs, items, uses, wins and flags."""
    text = Seen(page(rows)).text
    judged = [row["verdict"] == "success" for row in rows["runs"] if row["verdict"] in ("success", "failure")]
    active = sum(row["state"] == "active" for row in rows["items"])
    uses, wins = (sum(row[name] for row in rows["item_usage"]) for name in ("uses", "wins"))
    assert f"Success rate {100 * sum(judged) / len(judged):.0f}% {sum(judged)} of {len(judged)} judged runs" in text
    assert f"Active items {active} of {len(rows['items'])} ever stored" in text
    assert f"Uses {uses} of {len(rows['item_usage'])} items Wins {wins}" in text
    assert f"Red flags {len(rows['red_flags'])} in" in text


def test_a_chart_holds_the_values_of_the_view_in_the_order_of_the_log(page: Any, rows: Any) -> None:
    """Also when the view gives them in another order; what was not recorded is a gap, not a zero."""
    expected = [row["context_size"] for row in rows["leakage_by_run"]]
    rows["leakage_by_run"].reverse()
    [trace] = figures(page(rows))["chart-run-context-size"]["data"]
    assert None in expected
    assert trace["y"] == expected
    assert trace["x"] == [*range(1, 25)]


@pytest.mark.parametrize(("column", "value"), [("max-single-return", 1000), ("context-size", 4000)])
def test_thresholds_are_drawn(page: Any, rows: Any, column: str, value: int) -> None:
    """The line is inside the chart even where every run stays far below it."""
    for row in rows["leakage_by_run"]:
        row.update(max_single_return=10, context_size=10)
    layout = figures(page(rows))[f"chart-run-{column}"]["layout"]
    assert [shape["y0"] for shape in layout["shapes"]] == [value]
    assert layout["yaxis"]["range"][1] > value


def test_a_chart_says_in_words_what_it_shows(page: Any, rows: Any) -> None:
    """The largest and where, the latest, how often it was over its threshold, and what is missing."""
    for row in rows["leakage_by_run"]:
        row.update(memory_items_injected=0, max_single_return=9)
    text = Seen(page(rows)).text
    assert "Most 5,373 in run-008; latest 2,967; over 4,000 in 2 of 22 runs; not recorded in 2 runs." in text
    assert "Most 9 in run-001; latest 9; never over 1,000." in text
    assert "None in any run; never over 3." in text


def test_what_was_not_recorded_is_never_zero(page: Any, rows: Any) -> None:
    """A measure that no run has says so in place of a chart, and each of its cells does too."""
    for row in rows["leakage_by_run"]:
        row["stdout_chars"] = None
        row["memory_items_injected"] = None
    for row in rows["runs"]:
        row["verdict"] = None
    for row in rows["item_usage"]:
        row["wins"] = 0
    rows["red_flags"] = [row for row in rows["red_flags"] if row["flag"] != "items_injected"]
    made = page(rows)
    assert "chart-run-stdout-chars" not in figures(made)
    text = Seen(made).text
    assert "Not recorded in any of 24 runs." in text
    for said in ("Success rate not recorded no run was judged", "Wins not recorded no run was judged"):
        assert said in text
    assert "Many memory items injected: not recorded" in text
    assert text.count("not recorded") > 24


def test_a_verdict_is_shown_with_the_authority_behind_it(page: Any, rows: Any) -> None:
    """A person, a model, a check that is sure; an undecided run is no failure."""
    rows["runs"] = rows["runs"][:3]
    for row, (verdict, kind, sure) in zip(
        rows["runs"], [("failure", "human", 0), ("failure", "check", 1), ("undecided", "lm", 0)], strict=True
    ):
        row.update(verdict=verdict, kind=kind, sure=sure)
    text = Seen(page(rows)).text
    for said in ("failure a person", "failure a check, sure", "undecided a model", "0 of 2 judged runs, 1 undecided"):
        assert said in text


def test_what_ended_items_and_brought_them_back_is_listed_the_latest_first(page: Any, rows: Any) -> None:
    """By event and effect, with a few items of each; a bank in which nothing ended says so."""
    text = Seen(page(rows)).text
    listed = text[text.index("What ended items, restored or admitted them") :]
    assert listed.index("correction restored") < listed.index("judgment ended")
    many = [{**rows["lineage_edges"][0], "target": row["id"]} for row in rows["items"]]
    assert f"and {len(many) - TURN_ITEMS} more" in Seen(page({**rows, "lineage_edges": many})).text
    assert "No item has ended up to this point." in Seen(page({**rows, "lineage_edges": []})).text


def test_flags_are_explained_and_the_worst_comes_first(page: Any, rows: Any) -> None:
    """Each kind is counted and told in plain words; the table goes by how far a value is over its threshold."""
    rows["red_flags"].append(
        {"run": "run-999", "flag": "context_size", "value": 99_000, "threshold": 4000, "seq": 9, "tool": None}
    )
    text = Seen(page(rows)).text
    assert "Large single return: 5 One tool call returned more than 1,000 characters." in text
    assert re.search(r"Position Large context 99,000 4,000 24.8× run-999 the context 9 ", text)


def test_flags_that_the_page_does_not_know_are_shown_by_name(page: Any, rows: Any) -> None:
    """A later release may flag more."""
    rows["red_flags"] = [{"run": "r", "flag": "new_kind", "value": 9, "threshold": 0, "seq": 1, "tool": None}]
    assert "new_kind" in Seen(page(rows)).text


def test_an_empty_bank_has_a_page_that_helps(page: Any, nothing: Any, facts: PageFacts) -> None:
    """No charts and no tables, no plotly; but what to do next. At a point in the past: to look at a later one."""
    made = page(nothing)
    assert "An empty bank" in made
    assert "rbank-es import voyages PATH" in Seen(made).text
    assert len(made) < 20_000
    assert "Choose a later one" in page(nothing, msgspec.structs.replace(facts, point="1", at=None))


@pytest.mark.parametrize("kept", ["runs", "items", "red_flags", "leakage_by_tool", "item_usage", "health_over_time"])
def test_any_part_may_be_missing(page: Any, rows: Any, nothing: Any, kept: str) -> None:
    """A bank with items and no runs, with uses of unknown items, with tools and no run: each has its page."""
    assert Seen(page({**nothing, kept: rows[kept]})).open == []


@pytest.mark.parametrize(
    "blank", one_in(3, ["runs", "leakage_by_run", "leakage_by_tool", "item_usage", "items", "health_over_time"])
)
def test_any_value_may_be_missing(page: Any, rows: Any, blank: str) -> None:
    """Every column but those that a view always has may be NULL in every row."""
    always = {"run", "tool", "item", "id", "state", "seq", "uses", "calls"}
    rows[blank] = [{name: value if name in always else None for name, value in row.items()} for row in rows[blank]]
    assert Seen(page(rows)).open == []


def test_no_text_of_a_bank_becomes_markup(page: Any, rows: Any, facts: PageFacts) -> None:
    """Every text at once, the bank's name and purpose too: the page has the elements that it has with plain text."""
    named = {"name": HOSTILE, "purpose": HOSTILE, "point": HOSTILE, "head": HOSTILE}
    plain = Seen(page(with_text(rows, "plain"), msgspec.structs.replace(facts, **dict.fromkeys(named, "plain"))))
    hostile = Seen(page(with_text(rows, HOSTILE), msgspec.structs.replace(facts, **named)))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)
    assert "</script><script>window.broken=1</script>" in hostile.text


def test_text_inside_charts_is_escaped_for_plotly(page: Any, rows: Any) -> None:
    """Plotly reads <b>, <a> and the like in labels: none may come from a title, a task, a tool or an id."""
    texts = json.dumps(figures(page(with_text(rows, HOSTILE))))
    assert set(re.findall(r"<[^>]*>", texts)) <= {"<br>"}


def test_the_policy_forbids_every_source_but_this_file(page: Any, rows: Any) -> None:
    """Nothing is fetched; only the two scripts of the page run, by their digests; no element names an address."""
    seen = Seen(page(rows))
    [policy] = [a["content"] for tag, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy"]
    programs = seen.scripts[1:]
    digests = [base64.b64encode(hashlib.sha256(program.encode()).digest()).decode() for program in programs]
    assert policy and policy.startswith("default-src 'none'; script-src " + " ".join(f"'sha256-{d}'" for d in digests))
    assert not re.search(r"https?:|unsafe-eval|\*", policy)
    addresses = [a[name] for _, a in seen.tags for name in ("src", "href", "action") if name in a]
    assert addresses and all(str(address).startswith(("#", "data:")) for address in addresses)


def test_plotly_is_inlined_once(page: Any, rows: Any) -> None:
    """The library is most of the page, and there is one of it."""
    made = page(rows)
    assert made.count("* plotly.js v") == 1
    assert 4_000_000 < len(made) < 6_000_000
    assert re.search(r"This page is one file \(about [45]\.\d MB", made)


def test_the_same_rows_make_the_same_page(page: Any, rows: Any) -> None:
    """Byte for byte: no random ids, no time of writing, no order of a set."""
    assert page(rows) == page(copy.deepcopy(rows))


@pytest.mark.slow
def test_a_large_bank_has_a_bounded_page(page: Any, many: Any) -> None:
    """Points, bars and rows stay within the limits, and the page says what it left out."""
    made = page(many)
    points = [len(trace["x"]) for figure in figures(made).values() for trace in figure["data"]]
    assert max(points) == limits.DASHBOARD_POINTS
    assert len(figures(made)["chart-items-used"]["data"][0]["x"]) == DASHBOARD_BARS
    assert made.count("<tr>") < 6 * (limits.DASHBOARD_ROWS + 1)
    assert len(made) < 10_000_000
    for said in (
        "1,000 points for 12,000 runs",
        "200 of 12,000 are shown, those that began last",
        "200 of 1,500 are shown",
    ):
        assert said in made
    assert "the 20 items used most, of 1,500" in made


def test_thinning_keeps_every_peak_that_stands_out() -> None:
    """The largest of each group of neighbours stands for it; a group without values is a gap."""
    series = [None if i < 100 else float(i == 5555) for i in range(10_000)]
    shown = peaks(series, 100)
    assert len(shown) == 100 and shown == sorted(shown)
    assert 5555 in shown and series[shown[0]] is None
    assert peaks([1, None, 3], 100) == [0, 1, 2]
    assert peaks([]) == []


def test_items_that_were_erased_or_are_unknown_say_so(page: Any, rows: Any) -> None:
    """A use outlives the text of its item, and may come before the item."""
    rows["items"][0].update(title="", erased=1)
    rows["item_usage"][0]["title"] = ""
    rows["item_usage"].append({**rows["item_usage"][1], "item": "elsewhere", "title": None})
    text = Seen(page(rows)).text
    assert "(text erased) 000000000000" in text
    assert "(not in this bank) elsewhere" in text


def test_charts_and_tables_have_words(page: Any, rows: Any) -> None:
    """Each chart is an image with a label, each table has a caption, headings go down by one, ids are unique."""
    seen = Seen(page(rows))
    tags = [tag for tag, _ in seen.tags]
    labels = [a["aria-label"] for _, a in seen.tags if a.get("role") == "img"]
    assert len(labels) == len(figures(page(rows))) == 14
    assert all(label and label.startswith("Chart: ") and len(label) > 30 for label in labels)
    assert tags.count("table") == tags.count("caption") == 8
    assert all(a.get("scope") for tag, a in seen.tags if tag == "th")
    levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    ids = [a["id"] for _, a in seen.tags if "id" in a]
    assert len(ids) == len(set(ids))


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_told_from_the_ground(dark: bool) -> None:
    """WCAG AA: 4.5 for text, 3 for marks; and charts can be repainted, as no two light colours are the same."""

    def contrast(name: str, ground: str) -> float:
        lighter, darker = sorted((luminance(PALETTE[each][dark]) for each in (name, ground)), reverse=True)
        return (lighter + 0.05) / (darker + 0.05)

    assert all(contrast(name, ground) >= 4.5 for name in ("ink", "muted") for ground in ("paper", "wash"))
    assert all(contrast(name, "paper") >= 4.5 for name in ("accent", "flag"))
    assert all(contrast(name, "paper") >= 3 for name in PALETTE if name not in ("paper", "wash", "rule"))
    assert len({light for light, _ in PALETTE.values()}) == len(PALETTE)


def test_markup_is_escaped_by_construction() -> None:
    """Text is escaped once, in content and in attributes; markup is left as it is."""
    assert join("<b>", element("i", "&", title='"')) == '&lt;b&gt;<i title="&quot;">&amp;</i>'
    assert escape(escape("<")) == "&lt;"
    assert shorten("a\n b\x07" + "c" * 500, 10) == "a b\\x07cc…"
    assert len(shorten("x" * 10**7)) == limits.DASHBOARD_TEXT_CHARS


def test_the_page_is_written_whole_in_place_of_an_older_one(
    rows: Any, facts: PageFacts, tmp_path: Path, page: Any
) -> None:
    """And nothing else is left in the folder."""
    goal = tmp_path / "page.html"
    goal.write_text("old")
    written = write_page(Views(rows), goal, facts)
    assert goal.read_text("utf-8") == page(rows)
    assert (written.path, written.size_bytes) == (str(goal), goal.stat().st_size)
    assert [*tmp_path.iterdir()] == [goal]


class Views:
    def __init__(self, rows: Any) -> None:
        self.tables = rows

    def rows(self, name: str, /, **equal: str) -> Any:
        return [row for row in self.tables[name] if all(row[key] == value for key, value in equal.items())]


@pytest.mark.parametrize("place", ["missing/page.html", "folder", "file/page.html", "/"])
def test_a_place_that_can_not_be_written_is_named(nothing: Any, facts: PageFacts, tmp_path: Path, place: str) -> None:
    """The error names the place, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    with pytest.raises(CannotWrite, match=re.escape(place)):
        write_page(Views(nothing), tmp_path / place, facts)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_without_plotly_the_error_names_what_to_install(page: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An optional part that is missing is bad input, not a traceback."""
    for name in [name for name in sys.modules if name.split(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rbank-es\[dashboard\]'"):
        page(rows)
