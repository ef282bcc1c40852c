"""Commands that look: `log`, `show`, `search`, `diff`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kilns import EXTRACTION, RUN
from tests.cli_runner import fails, run


def test_log_filters(place: Path) -> None:
    """By type, run, point and number; filters come before `--tail`."""

    def seqs(*arguments: str) -> list[int]:
        return [event["seq"] for event in run("log", *arguments, cwd=place).lines]

    assert seqs("notes", "--type", "run_started,run_finished") == [5, 8]
    assert seqs("notes", "--run", "r1") == [5, 6, 7, 8, 9]
    assert seqs("notes", "--run", "r1", "--tail", "2") == [8, 9]
    assert seqs("notes", "--tail", "3") == [7, 8, 9]
    assert seqs("notes@8", "--since", "r1", "--tail", "3") == [6, 7, 8]
    assert seqs("notes", "--since", "HEAD") == []
    assert "did you mean 'run_started'?" in fails("log", "notes", "--type", "run_start", cwd=place)
    assert "leave out the point" in fails("log", "notes@3", "--follow", cwd=place)
    assert "--tail" in fails("log", "notes", "--tail", "0", cwd=place)
    assert "point '99'" in fails("log", "notes", "--since", "99", cwd=place)


def test_show_without_a_thing_says_what_can_be_shown(place: Path) -> None:
    said = fails("show", "notes", cwd=place, code=2)
    for command in ("items notes", "runs notes", "log notes --tail 20"):
        assert f"rbank-es {command}" in said
        run(*command.split(), cwd=place)
    run("ask", "notes", "overview", cwd=place)


def test_show_tells_everything_about_a_run(place: Path) -> None:
    """Task, verdicts, leakage with red flags, timeline, all as it was then."""
    shown = run("show", "notes", "r1", "--json", cwd=place).json
    assert shown["run"]["task"] == RUN["task"] and shown["run"]["verdict"] == "success"
    assert [event["verdict"] for event in shown["judgments"]] == ["success"]
    assert shown["leakage"]["total_chars_returned"] == 1500
    assert {flag["flag"] for flag in shown["red_flags"]} == {"single_return", "context_size"}
    assert [event["seq"] for event in shown["events"]] == [5, 6, 7, 8, 9]
    assert shown == run("ask", "notes", "run", "run=r1", "limit=10000", "--json", cwd=place).json
    said = run("show", "notes", "r1", cwd=place).out
    assert "red flag at 7: single return by g_query, 1,500 is over 1,000" in said
    assert "not judged" in run("show", "notes@8", "r1", cwd=place).out


@pytest.mark.slow
def test_lessons_that_were_recalled_and_not_sent_are_named(place: Path) -> None:
    """In `show`, in the rows of runs, and in health with its denominator; an end that says nothing counts nowhere."""
    ends = [{"recall_sent": False, "recall_unsent": ["0123abcd4567"]}, {"recall_sent": True}, {}]
    for number, end in enumerate(ends):
        run("append", "notes", cwd=place, stdin=json.dumps(RUN | {"run": f"n{number}"}))
        told = {"type": "run_finished", "run": f"n{number}", "outcome": "submitted"} | end
        run("append", "notes", cwd=place, stdin=json.dumps(told))
    assert "recalled, not sent: 0123abcd4567" in run("show", "notes", "n0", cwd=place).out
    assert "recalled, not sent" not in run("show", "notes", "n1", cwd=place).out
    rows = run("ask", "notes", "runs", "--json", cwd=place).json["runs"]
    assert {row["run"]: row["recall_sent"] for row in rows} == {"r1": None, "n0": False, "n1": True, "n2": None}
    measures = {each["name"]: each for each in run("health", "notes", "--json", cwd=place).json["measures"]}
    assert (measures["recalls_not_sent"]["part"], measures["recalls_not_sent"]["whole"]) == (1, 2)


def test_show_tells_everything_about_an_event(place: Path) -> None:
    """By position or id, with long texts put in."""
    run("append", "notes", cwd=place, stdin=json.dumps({"type": "note_logged", "note": "y" * 5000}))
    shown = run("show", "notes", "10", "--json", cwd=place).json
    assert [text["text"] for text in shown["event"]["texts"]] == ["y" * 5000]
    assert len(shown["event"]["summary"]) < 100
    assert run("show", "notes", shown["id"], "--json", cwd=place).json == shown
    assert "memories_extracted at position 3" in run("show", "notes", f"event:{EXTRACTION}", cwd=place).out
    assert fails("show", "notes@2", "3", cwd=place)


def test_show_asks_what_is_meant_where_it_could_be_several(place: Path) -> None:
    """A run named like a position is ambiguous; kind:ID says which."""
    run("append", "notes", cwd=place, stdin=json.dumps(RUN | {"run": "4"}))
    assert fails("show", "notes", "4", cwd=place) == "'4' is a run and an event; write run:4 or event:4"
    assert run("show", "notes", "run:4", "--json", cwd=place).json["run"]["run"] == "4"
    assert run("show", "notes", "event:4", "--json", cwd=place).json["event"]["seq"] == 4
    assert "no item '4' at position" in fails("show", "notes", "item:4", cwd=place)


@pytest.mark.slow
def test_search_finds_as_of_any_point(sample: Path) -> None:
    """Hits are ranked; a search of the past equals that of a bank that ends there."""
    query = "Which keepers were on watch?"
    now = run("search", "sample", query, "--json", cwd=sample).json
    then = run("search", "sample@173", query, "-k", "2", "--json", cwd=sample).json
    assert [hit["rank"] for hit in now["hits"]] == list(range(1, len(now["hits"]) + 1))
    assert (then["position"], len(then["hits"])) == (173, 2)
    assert then["hits"][0]["score"] != now["hits"][0]["score"]
    failures = run("search", "sample", query, "--polarity", "failure", "--json", cwd=sample).json
    assert {hit["polarity"] for hit in failures["hits"]} == {"failure"}
    assert now["hits"][0]["title"] in run("search", "sample", query, cwd=sample).out
    elsewhere = run("search", "sample", query, "--domain", "nowhere", "--json", cwd=sample).json["hits"]
    assert {hit["near"] for hit in elsewhere} <= {"none", "other"} and elsewhere


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ['"keepers', "keepers OR", "keep* NEAR(", "keepers:title", "^keepers - +", "😀 keepers", "AND NOT keepers"]
)
def test_search_takes_syntax_as_plain_words(query: str, sample: Path) -> None:
    """Quotes, operators, column filters and emoji are searched, never obeyed and never an error."""
    found = run("search", "sample", query, "--all", "--json", cwd=sample).json
    assert found["hits"] or found["withheld"] or "keepers" not in query


def test_search_refuses_what_can_not_be(sample: Path) -> None:
    """A polarity that isn't one, a number of hits out of range; a query without words."""
    assert "'maybe' is no polarity" in fails("search", "sample", "x", "--polarity", "maybe", cwd=sample)
    assert "from 1 to 100" in fails("search", "sample", "x", "-k", "0", cwd=sample)
    assert "not a whole number" in fails("search", "sample", "x", "-k", "many", cwd=sample)
    for empty in ("?!…", "", "  "):
        assert "no words to search for" in fails("search", "sample", empty, cwd=sample)


def test_search_by_role_finds_the_items_of_that_role_alone(tmp_path: Path) -> None:
    items = [
        {"title": f"Sort towers {n}", "content": "By their height.", **({"role": role} if role else {})}
        for n, role in enumerate(("planner", "writer", None))
    ]
    (tmp_path / "items.json").write_text(json.dumps(items))
    run("import", "./b", "items.json", "--create", cwd=tmp_path)
    found = run("search", "./b", "towers", "--role", "planner", "--all", "--json", cwd=tmp_path).json
    assert [hit["title"] for hit in found["hits"] + found["withheld"]] == ["Sort towers 0"]
    said = run("search", "./b", "towers", "--role", "planer", cwd=tmp_path).err
    assert "no item has the role planer; did you mean 'planner'?" in said


@pytest.mark.slow
def test_diff_tells_what_changed(sample: Path) -> None:
    """Between two points, and between two banks; nothing differs between a point and itself."""
    found = run("diff", "sample@173", "sample@324", "--json", cwd=sample).json
    assert found == run("ask", "sample@324", "difference", "since=173", "--json", cwd=sample).json
    assert (found["since_seq"], found["position"]) == (173, 324) and found["items"] and found["runs"]
    said = run("diff", "sample@173", "sample@324", cwd=sample).out
    came = [each for each in found["items"] if each["before"] is None]
    assert f"came: {len(came)} items" in said and "active → unsupported" in said
    assert "nothing differs" in run("diff", "sample@324", "./logs/sample@324", cwd=sample).out
    run("init", "other", cwd=sample)
    assert run("diff", "other", "sample", "--json", cwd=sample).json["items"]
    assert "a second bank" in fails("diff", "sample", cwd=sample)


@pytest.mark.slow
@pytest.mark.parametrize("since", ["0", "2026-03-09", "2026-03-09T15:20", "HEAD~300", "lights-12"])
def test_diff_takes_any_point_and_goes_to_the_newest_and_counts_the_runs_that_began(sample: Path, since: str) -> None:
    """A first verdict changes none: runs that began are counted by it."""
    found = run("diff", f"sample@{since}", "--json", cwd=sample).json
    said = run("diff", f"sample@{since}", cwd=sample).out
    new = [each for each in found["runs"] if each["before"] is None]
    assert found["position"] == 609 and f"runs that began: {len(new)}\n" in said
    verdicts = [each["after"]["verdict"] for each in new]
    assert f"{verdicts.count('success')} success" in said
    assert ("runs changed" in said) == (len(new) < len(found["runs"]))


@pytest.mark.slow
def test_diff_names_the_setting_of_a_policy_that_differs_and_another_policy_by_its_name(sample: Path) -> None:
    run("fork", "sample", "trial", cwd=sample)
    changes = ("--set", "retrieval.k_success=2", "--set", "consolidation=append")
    run("policy", "trial", *changes, cwd=sample)
    found = run("diff", "sample", "trial", "--json", cwd=sample).json["policies"]
    assert {(each["kind"], each["setting"]): (each["before"], each["after"]) for each in found} == {
        ("retrieval", "k_success"): (1, 2),
        ("consolidation", None): ("dedup-1", "append-1"),
    }
    said = run("diff", "sample", "trial", cwd=sample).out.splitlines()
    assert [line.split() for line in said[-2:]] == [
        ["retrieval.k_success", "1", "→", "2"],
        ["consolidation", "dedup-1", "→", "append-1"],
    ]
