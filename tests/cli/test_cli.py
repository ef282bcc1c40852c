"""The command line, through the real command in a process of its own."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import click
import pytest

from rbank_es import __version__, errors
from rbank_es.bank import Bank
from rbank_es.cli.shared import main as endings
from rbank_es.cli.shared.application import COMMANDS, Command, application
from rbank_es.events.codec import TYPES
from rbank_es.events.items import make_id
from rbank_es.rerun.recorded_run import runs_of
from tests.cli_runner import ROOT, SAMPLE, digest_of, fails, on_terminal, run, shell

RUN = {"type": "run_started", "run": "r1", "task": "Which kilns are there?", "scripted": True}
NOTE = '{"type":"note_logged","note":{"n":1}}'
ITEM = {"title": "List the kilns first", "content": "Ask for the classes, then for their instances."}
EXTRACTION = "00000000-0000-8000-8000-000000000001"


def log_bytes(cwd: Path, bank: str = "notes") -> bytes:
    return b"".join(path.read_bytes() for path in sorted((cwd / "logs" / bank).glob("*.jsonl")))


@pytest.fixture(scope="module")
def first_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that each test has a copy of."""
    folder = tmp_path_factory.mktemp("place")
    item = make_id(ITEM["title"], ITEM["content"])
    decision = {"candidate": 0, "action": "add", "item": item}
    events: list[dict[str, Any]] = [
        {"type": "memories_extracted", "id": EXTRACTION, "kind": "manual", "candidates": [ITEM]},
        {"type": "memories_consolidated", "extraction": EXTRACTION, "policy": "dedup-1", "decisions": [decision]},
        RUN,
        {"type": "context_built", "run": "r1", "chars": 4500, "items": [item]},
        {"type": "tool_called", "run": "r1", "tool": "g_query", "chars": 1500, "arguments": {"limit": 5}},
        {"type": "run_finished", "run": "r1", "outcome": "submitted", "answer": "three kilns"},
        {"type": "run_judged", "run": "r1", "purpose": "learning", "success": True,
         "judge": "checks", "judge_version": "1", "kind": "check"},
    ]  # fmt: skip
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run("init", "notes", cwd=folder)
    run("append", "notes", "events.jsonl", cwd=folder)
    return folder


@pytest.fixture
def place(first_place: Path, tmp_path: Path) -> Path:
    """A working directory with a bank `notes`: one run that used an item."""
    shutil.copytree(first_place, tmp_path, dirs_exist_ok=True)
    return tmp_path


def vouch(place: Path) -> None:
    """Append until a group says that all of `place` is on disk: a copy's first writer can't know that yet."""
    for _ in range(2):
        run("append", "notes", cwd=place, stdin=NOTE)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a copy of the sample bank, whose read models are up to date."""
    folder = tmp_path_factory.mktemp("sample")
    shutil.copytree(SAMPLE, folder / "logs" / "sample", ignore=shutil.ignore_patterns("*lock"))
    run("project", "sample", cwd=folder)
    return folder


# ---------------------------------------------------------------- help


def commands() -> list[tuple[str, Command]]:
    context = click.Context(application)
    found = [(name, application.get_command(context, name)) for name in COMMANDS.names()]  # type: ignore[attr-defined]
    return [(name, command) for name, command in found if isinstance(command, Command)]


def test_help_lists_every_command_and_what_bank_and_point_mean(tmp_path: Path) -> None:
    """`--help`, and no arguments at all, show all commands, and what BANK, POINT and exit codes are."""
    shown = run("--help", cwd=tmp_path).out
    assert run(cwd=tmp_path).out == shown
    assert all(re.search(rf"^  {name} ", shown, re.MULTILINE) for name in COMMANDS.names())
    assert all(word in shown for word in ("BANK:", "POINT:", "Exit codes:", "RBANK_HOME", "HEAD~"))
    assert max(map(len, shown.splitlines())) <= 100


def test_help_lists_every_exit_code(tmp_path: Path) -> None:
    """Those of errors that are raised on purpose, those of the shell, and that of a defect."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RBankError)]
    codes = {0, endings.DEFECT, endings.INTERRUPTED, endings.READER_GONE} | {kind.exit_code for kind in kinds}
    told = " ".join(run("--help", cwd=tmp_path).out.split("Exit codes:")[1].split())
    assert [int(code) for code in re.findall(r"(?:^|, )(\d+) [a-z]", told)] == sorted(codes)


@pytest.mark.parametrize("name", COMMANDS.names())
def test_each_command_explains_itself_with_an_example(name: str, tmp_path: Path) -> None:
    """`COMMAND --help` has a paragraph, its options, and an example that begins with the command itself."""
    shown = run(name, "--help", cwd=tmp_path).out
    assert f"rbank-es {name}" in shown.split("Example")[1]
    assert "--json" in shown and "--debug" in shown
    assert len(shown.split("\n\n")[1].split()) >= 8


@pytest.mark.parametrize(("name", "command"), commands())
def test_each_example_is_a_command_line_that_can_be_read(name: str, command: Command) -> None:
    """Every example in the help parses: its options exist, and their values are possible."""
    for example in command.examples:
        (words,) = [part for part in re.split(r"[|>]", example) if "rbank-es" in part]
        _, called, *arguments = shlex.split(words)
        assert called == name
        assert command.make_context(name, arguments).params


def test_version_and_nearest_command(tmp_path: Path) -> None:
    """`--version` prints the release; a mistyped command is answered with the nearest one."""
    assert run("--version", cwd=tmp_path).out == f"rbank-es {__version__}\n"
    assert "did you mean 'append'?" in fails("apend", cwd=tmp_path)
    assert "there are: init, " in fails("zzzz", cwd=tmp_path)
    assert "See: rbank-es log --help" in fails("log", cwd=tmp_path)


def test_commands_that_append_load_nothing_that_they_do_not_need(place: Path) -> None:
    """`append` starts without rich, watchfiles, SQLite, asyncio or a graph library."""
    heavy = ("rich", "watchfiles", "sqlite3", "asyncio", "rdflib", "sqlite_utils", "plotly", "rbank_es.projections")
    code = (
        "import sys; sys.argv[1:] = ['append', 'notes', 'note.json']\n"
        "from rbank_es.cli import main; assert main() == 0\n"
        f"print(sorted(sys.modules.keys() & {set(heavy)!r}))"
    )
    (place / "note.json").write_text(NOTE)
    done = shell(
        f'python3() {{ {shlex.quote(__import__("sys").executable)} "$@"; }}; python3 -c {shlex.quote(code)}', place
    )
    assert (done.code, done.out.splitlines()[-1]) == (0, "[]"), done


# ---------------------------------------------------------------- init, append


def test_init_records_birth_and_policies(tmp_path: Path) -> None:
    """A new bank begins with `bank_created` and `policy_set`; JSON tells where it is and its head."""
    made = run("init", "./banks/notes", "--json", cwd=tmp_path).json
    assert made["path"] == "banks/notes" and made["head"].startswith("2:")
    assert made["policies"] == {"retrieval": "bm25-1", "consolidation": "dedup-1", "forgetting": "never-1"}
    events = run("log", "./banks/notes", cwd=tmp_path).lines
    assert [event["type"] for event in events] == ["bank_created", "policy_set"]
    assert "already" in fails("init", "./banks/notes", cwd=tmp_path)


def test_init_takes_policies_from_a_file(tmp_path: Path) -> None:
    """`--policy` sets them; a file that holds none that exist is refused and no bank is made."""
    (tmp_path / "policies.toml").write_text('[forgetting]\nname = "bounded"\nmax_items = 9\n')
    (tmp_path / "bad.toml").write_text('[forgetting]\nname = "bonded"\n')
    (tmp_path / "latin.toml").write_bytes(b"\xe9")
    assert "bounded-1" in run("init", "notes", "--policy", "policies.toml", cwd=tmp_path).out
    assert "did you mean 'bounded'" in fails("init", "other", "--policy", "bad.toml", cwd=tmp_path)
    assert "not UTF-8" in fails("init", "other", "--policy", "latin.toml", cwd=tmp_path)
    assert "No such file" in fails("init", "other", "--policy", "none.toml", cwd=tmp_path)
    assert not (tmp_path / "logs" / "other").exists()


@pytest.mark.parametrize("name", ["a b", ".hidden", "a.", "", "ä", "x" * 101, "postgresql://host/db", "a@1", "a@"])
def test_a_bad_bank_name_is_refused_before_anything_is_made(name: str, tmp_path: Path) -> None:
    """What can't name a bank is a usage error that says what can."""
    assert fails("init", name, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bare_names_live_under_rbank_home(tmp_path: Path) -> None:
    """RBANK_HOME moves the banks that are named by a bare name."""
    made = run("init", "notes", "--json", cwd=tmp_path, env={"RBANK_HOME": str(tmp_path / "home")}).json
    assert made["path"] == str(tmp_path / "home" / "notes")


def test_append_prints_positions_and_the_head(place: Path) -> None:
    """The head that `append` prints is the one that `verify` proves."""
    done = run("append", "notes", "--json", cwd=place, stdin=NOTE).json
    assert (done["first"], done["last"], done["appended"], done["duplicate"]) == (10, 10, 1, False)
    assert run("verify", "notes", "--head", done["head"], cwd=place).code == 0
    said = run("append", "notes", cwd=place, stdin=f"{NOTE}\n\n{NOTE}\n").out
    assert "2 events at positions 11 to 12" in said and "head 12:" in said


def test_append_takes_one_object_on_many_lines(place: Path) -> None:
    """A pretty-printed JSON object is one event."""
    done = run("append", "notes", "-", "--json", cwd=place, stdin=json.dumps(RUN | {"run": "r2"}, indent=2)).json
    assert done["appended"] == 1


def test_append_again_adds_nothing(place: Path) -> None:
    """Events with ids can be appended again after any failure; the answer says where they stand."""
    event = json.dumps({"type": "note_logged", "id": "00000000-0000-7000-8000-00000000000a", "note": "{}"})
    first = run("append", "notes", "--json", cwd=place, stdin=event).json
    again = run("append", "notes", "--json", "--expect", "3", cwd=place, stdin=event).json
    assert (again["first"], again["appended"], again["known"], again["duplicate"]) == (first["first"], 0, 1, True)
    assert again["head"] == first["head"]
    assert "were there already" in run("append", "notes", cwd=place, stdin=event).out
    assert "other content" in fails("append", "notes", cwd=place, stdin=event.replace("{}", "[]"), code=4)


def test_append_checks_what_the_writer_expects(place: Path) -> None:
    """A wrong expectation is a conflict; of two writers with the same expectation one wins."""
    assert run("append", "notes", "--expect", "9", cwd=place, stdin=NOTE).code == 0
    message = fails("append", "notes", "--expect", "9", cwd=place, stdin=NOTE, code=4)
    assert "at position 9, it is at 10" in message
    assert fails("append", "notes", "--expect", "empty", cwd=place, stdin=NOTE, code=4)
    assert "'soon' is not a position" in fails("append", "notes", "--expect", "soon", cwd=place, stdin=NOTE)


def test_append_creates_a_bank_only_when_asked_and_only_for_good_input(tmp_path: Path) -> None:
    """`--create` makes a missing bank, but not for events that can't be read."""
    assert "Add --create" in fails("append", "new", cwd=tmp_path, stdin=NOTE)
    assert fails("append", "new", "--create", cwd=tmp_path, stdin="{")
    assert not (tmp_path / "logs").exists()
    made = run("append", "new", "--create", "--expect", "empty", "--json", cwd=tmp_path, stdin=NOTE).json
    assert (made["created"], made["first"]) == (True, 3)
    assert run("append", "new", "--create", "--json", cwd=tmp_path, stdin=NOTE).json["created"] is False


def test_append_in_batches(place: Path) -> None:
    """`--batch` splits the input into groups; what went in before a failure is said."""
    done = run("append", "notes", "--batch", "2", "--expect", "9", "--json", cwd=place, stdin=f"{NOTE}\n" * 5).json
    assert (done["groups"], done["first"], done["last"], done["appended"]) == (3, 10, 14, 5)
    known = json.dumps({"type": "note_logged", "id": EXTRACTION})
    message = fails("append", "notes", "--batch", "2", cwd=place, stdin=f"{NOTE}\n{NOTE}\n{known}\n", code=4)
    assert "The first 2 events are in the log, up to position 16." in message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f'{NOTE}\n{{"type":"note_logged"', "line 2: not JSON"),
        ('{"type":"note_loged"}', "did you mean 'note_logged'? (at $.type)"),
        ('{"note":"{}"}', "'type' is missing"),
        ('{"type":"run_started"}', "missing required field `run`"),
        ('{"type":"run_started","run":"r","bogus":1}', "unknown field `bogus`"),
        ('{"type":"run_started","run":"r","layers":["L0",7]}', "(at $.layers[1])"),
        ('{"type":"note_logged","seq":3}', "'seq' is set by the log's writer"),
        ('{"type":"note_logged","id":"mine"}', "not a UUID"),
        ('{"type":"note_logged","occurred_at":"yesterday00000000000000000"}', "occurred_at"),
        ("[1]", "expected a JSON object, got list"),
        ("", "no events in standard input"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (json.dumps({"type": "run_started", "run": "r" * 300}), "Expected `str` of length <= 256"),
        (json.dumps({"type": "note_logged", "note": "x" * (17 << 20)}), "over the limit"),
        (f"{NOTE}\n" * 10_001, "over the limit"),
    ],
)
def test_bad_events_are_refused_with_line_and_path_and_nothing_is_lost(
    given: str | bytes, said: str, place: Path
) -> None:
    """Bad input is one clear message and exit code 2; the log stays as it was, byte for byte."""
    before = log_bytes(place)
    message = fails("append", "notes", cwd=place, stdin=given)
    assert said in message and len(message) < 600
    assert log_bytes(place) == before


def test_append_of_a_file_that_is_not_there(place: Path) -> None:
    """A missing file, and a directory, are named in the message."""
    assert fails("append", "notes", "none.jsonl", cwd=place) == "none.jsonl: No such file or directory"
    assert fails("append", "notes", ".", cwd=place) == ".: Is a directory"
    assert "leave out @3" in fails("append", "notes@3", cwd=place, stdin=NOTE)


# ---------------------------------------------------------------- points, replay, project


@pytest.mark.slow
def test_all_forms_of_a_point_mean_the_same(place: Path) -> None:
    """A position, a time, HEAD~n, an event id and a run id name the same moment."""
    time.sleep(0.002)
    run("append", "notes", cwd=place, stdin=NOTE)
    events = run("log", "notes", cwd=place).lines
    want = run("replay", "notes@4", "--json", cwd=place).json
    for point in (events[3]["at"], events[3]["id"], "HEAD~6", "r1", "seq:4"):
        found = run("replay", f"notes@{point}", "--json", cwd=place).json
        assert (
            found["digests"]["all"]
            == (want if point != events[3]["at"] else run("replay", "notes@9", "--json", cwd=place).json)["digests"][
                "all"
            ]
        )
    for point in ("99", "HEAD~99", "2026-13-01", "nothing", EXTRACTION[:-1] + "9"):
        assert f"point '{point}'" in fails("replay", f"notes@{point}", cwd=place)


def test_replay_prints_what_the_bank_was(place: Path) -> None:
    """Items by state and source, runs, uses, wins, and digests that are the same at every replay."""
    first = run("replay", "notes", "--json", cwd=place).json
    assert first["items"]["by_state"]["active"] == 1 and first["items"]["by_source"]["seed"] == 1
    assert (first["runs"]["total"], first["runs"]["submitted"], first["uses"], first["wins"]) == (1, 1, 1, 1)
    assert run("replay", "notes", "--json", cwd=place).json["digests"] == first["digests"]
    said = run("replay", "notes@3", cwd=place).out
    assert said.startswith("bank notes at position 3 of 9, 20") and "no items yet" in said
    assert all(digest in run("replay", "notes", cwd=place).out for digest in first["digests"].values())


def test_replay_writes_the_read_models_as_they_were(place: Path) -> None:
    """`--into` writes a SQLite file of that moment; it replaces nothing without `--force`."""
    written = run("replay", "notes@4", "--into", "then.sqlite", "--json", cwd=place).json["into"]
    assert written["bytes"] == (place / "then.sqlite").stat().st_size
    with sqlite3.connect(place / "then.sqlite") as then:
        assert then.execute("SELECT count(*), sum(uses) FROM items").fetchone() == (1, 0)
    assert "--force" in fails("replay", "notes", "--into", "then.sqlite", cwd=place)
    assert "wrote then.sqlite" in run("replay", "notes", "--into", "then.sqlite", "--force", cwd=place).out
    with sqlite3.connect(place / "then.sqlite") as then:
        assert then.execute("SELECT count(*), sum(uses) FROM items").fetchone() == (1, 1)
    assert "is a directory" in fails("replay", "notes", "--into", ".", cwd=place)
    assert "not a directory" in fails("replay", "notes", "--into", "none/x", cwd=place)
    assert "bank's own directory" in fails("replay", "notes", "--into", "logs/notes/x", cwd=place)


def test_project_brings_read_models_up_to_date(place: Path) -> None:
    """The first time all are made, then nothing is left to do; `--list` shows how far behind each one is."""
    before = run("project", "notes", "--list", "--json", cwd=place).json
    assert {entry["behind"] for entry in before["projections"]} == {9}
    done = run("project", "notes", "--json", cwd=place).json
    assert done["position"] == 9 and done["rebuilt"].keys() == {entry["name"] for entry in before["projections"]}
    assert "nothing to apply" in run("project", "notes", cwd=place).out
    run("append", "notes", cwd=place, stdin=NOTE)
    assert run("project", "notes", "--only", "usage", "--json", cwd=place).json["position"] == 10
    listed = run("project", "notes", "--list", "--json", cwd=place).json["projections"]
    assert {entry["name"]: entry["behind"] for entry in listed}["usage"] == 0
    assert "rebuilt (asked for): usage" in run("project", "notes", "--only", "usage", "--rebuild", cwd=place).out
    assert re.search(r"^usage +\d+ +10 +0 ", run("project", "notes", "--list", cwd=place).out, re.MULTILINE)


def test_project_refuses_what_makes_no_sense(place: Path) -> None:
    """Unknown names and contradictory flags are usage errors."""
    assert "no projection 'uses'; there are: " in fails("project", "notes", "--only", "uses", cwd=place)
    assert "holds no names" in fails("project", "notes", "--only", ",", cwd=place)
    assert "--list only looks" in fails("project", "notes", "--list", "--rebuild", cwd=place)


# ---------------------------------------------------------------- log, show, search, diff


def test_log_prints_the_events_as_they_are_stored(place: Path) -> None:
    """Piped, and with `--json`, every line is byte for byte the line in the log."""
    stored = [line for line in log_bytes(place).decode().splitlines(keepends=True) if '"seq":' in line]
    assert run("log", "notes", cwd=place).out == "".join(stored)
    assert run("log", "notes", "--json", cwd=place).out == "".join(stored)
    assert run("log", "notes@4", cwd=place).out == "".join(stored[:4])


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


def test_show_tells_everything_about_an_item(place: Path) -> None:
    """Words, state, counters, where it comes from, who used it and what happened to it."""
    item = make_id(ITEM["title"], ITEM["content"])
    shown = run("show", "notes", item, "--json", cwd=place).json
    assert shown["kind"] == "item" and shown["item"]["title"] == ITEM["title"]
    assert (shown["item"]["uses"], shown["item"]["wins"], shown["item"]["support"]) == (1, 1, 1)
    assert shown["provenance"][0]["extraction"] == EXTRACTION
    assert [use["run"] for use in shown["used_in"]] == ["r1"]
    assert [event["type"] for event in shown["history"]] == [
        "memories_extracted", "memories_consolidated", "context_built"]  # fmt: skip
    said = run("show", "notes", item, cwd=place).out
    assert said.startswith(ITEM["title"]) and ITEM["content"] in said and "r1" in said
    earlier = run("show", "notes@r1", item, "--json", cwd=place).json
    assert (earlier["item"]["uses"], len(earlier["history"])) == (0, 2)
    assert "at position 2" in fails("show", "notes@2", item, cwd=place)


def test_show_tells_everything_about_a_run(place: Path) -> None:
    """Task, verdicts, leakage with red flags, timeline, all as it was then."""
    shown = run("show", "notes", "r1", "--json", cwd=place).json
    assert shown["run"]["task"] == RUN["task"] and shown["run"]["success"] == 1
    assert [event["success"] for event in shown["judgments"]] == [True]
    assert shown["leakage"]["total_chars_returned"] == 1500
    assert {flag["flag"] for flag in shown["red_flags"]} == {"single_return", "context_size"}
    assert [event["seq"] for event in shown["timeline"]] == [5, 6, 7, 8, 9]
    said = run("show", "notes", "r1", cwd=place).out
    assert "red flag at 7: single return by g_query, 1,500 is over 1,000" in said
    assert "not judged" in run("show", "notes@8", "r1", cwd=place).out


def test_show_tells_everything_about_an_event(place: Path) -> None:
    """By position or id, with long texts put in."""
    run("append", "notes", cwd=place, stdin=json.dumps({"type": "note_logged", "note": "y" * 5000}))
    shown = run("show", "notes", "10", "--json", cwd=place).json
    assert shown["event"]["note"] == "y" * 5000 and shown["stored"]["note"]["is"] == "ref"
    assert run("show", "notes", shown["event"]["id"], "--json", cwd=place).json == shown
    assert "memories_extracted at position 3" in run("show", "notes", f"event:{EXTRACTION}", cwd=place).out
    assert fails("show", "notes@2", "3", cwd=place)


def test_show_asks_what_is_meant_where_it_could_be_several(place: Path) -> None:
    """A run named like a position is ambiguous; kind:ID says which."""
    run("append", "notes", cwd=place, stdin=json.dumps(RUN | {"run": "4"}))
    assert fails("show", "notes", "4", cwd=place) == "'4' is a run and an event; write run:4 or event:4"
    assert run("show", "notes", "run:4", "--json", cwd=place).json["kind"] == "run"
    assert run("show", "notes", "event:4", "--json", cwd=place).json["kind"] == "event"
    assert "no item '4' at position" in fails("show", "notes", "item:4", cwd=place)


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
    assert run("search", "sample", query, "--domain", "nowhere", "--json", cwd=sample).json["hits"] == []


@pytest.mark.parametrize(
    "query", ['"keepers', "keepers OR", "keep* NEAR(", "keepers:title", "^keepers - +", "😀 keepers", "AND NOT keepers"]
)
def test_search_takes_syntax_as_plain_words(query: str, sample: Path) -> None:
    """Quotes, operators, column filters and emoji are searched, never obeyed and never an error."""
    hits = run("search", "sample", query, "--json", cwd=sample).json["hits"]
    assert hits or "keepers" not in query


def test_search_refuses_what_can_not_be(sample: Path) -> None:
    """A polarity that isn't one, a number of hits out of range; a query without words finds nothing and says why."""
    assert "'maybe' is no polarity" in fails("search", "sample", "x", "--polarity", "maybe", cwd=sample)
    assert "from 1 to 100" in fails("search", "sample", "x", "-k", "0", cwd=sample)
    assert "not a valid integer" in fails("search", "sample", "x", "-k", "many", cwd=sample)
    assert "no words to search for" in run("search", "sample", "?!…", cwd=sample).err


def test_diff_tells_what_changed(sample: Path) -> None:
    """Between two points, and between two banks; nothing differs between a point and itself."""
    found = run("diff", "sample@173", "sample@324", "--json", cwd=sample).json
    assert (found["before"], found["after"]) == (173, 324) and found["added"] and found["runs"]
    said = run("diff", "sample@173", "sample@324", cwd=sample).out
    assert f"items added: {len(found['added'])}" in said and "active → retracted" in said
    assert "nothing differs" in run("diff", "sample@324", "./logs/sample@324", cwd=sample).out
    run("init", "other", cwd=sample)
    assert run("diff", "other", "sample", "--json", cwd=sample).json["added"]
    assert "Missing argument 'BANK@B'" in fails("diff", "sample@3", cwd=sample)


# ---------------------------------------------------------------- verify


def test_verify_proves_noted_heads_and_recorded_retrievals(sample: Path) -> None:
    """A sound log, all noted heads, all recorded searches: exit code 0. A head that doesn't hold: 1."""
    seen = run("verify", "sample", "--retrievals", "--json", cwd=sample).json
    assert seen["ok"] and seen["retrievals"]["checked"] > 30 and not seen["retrievals"]["different"]
    assert run("verify", "sample", "--head", seen["head"], cwd=sample).out.startswith("the log of sample is sound")
    wrong = seen["head"].split(":")[0] + ":" + "0" * 64
    assert "the head noted at" in fails("verify", "sample", "--head", seen["head"], "--head", wrong, cwd=sample, code=1)
    assert "is not a head" in fails("verify", "sample", "--head", "12:xyz", cwd=sample)


def test_a_retrieval_that_does_not_hold_fails_the_check(place: Path) -> None:
    """A recorded retrieval whose hits can't be found again: exit code 1."""
    hit = {"id": "elsewhere", "rank": 1, "score": -1.0}
    event = {"type": "memories_retrieved", "k": 1, "policy": "bm25-1", "query": "kilns", "hits": [hit]}
    run("append", "notes", cwd=place, stdin=json.dumps(event))
    run("verify", "notes", cwd=place)
    assert "1 of 1 retrievals" in fails("verify", "notes", "--retrievals", cwd=place, code=1)


def test_corruption_is_exit_code_3_and_says_where(place: Path) -> None:
    """A changed byte is found by `verify` and by whatever reads it; the message names segment, line and byte."""
    vouch(place)
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    damaged = segment.read_bytes().replace(b"three kilns", b"seven kilns")
    segment.write_bytes(damaged)
    for arguments in (("verify", "notes"), ("log", "notes"), ("replay", "notes")):
        assert re.search(r"segment \d{20}\.jsonl, line 9, byte", fails(*arguments, cwd=place, code=3))


def test_a_log_from_the_future_is_exit_code_3(place: Path) -> None:
    """An event type that this release doesn't know is named, not skipped."""
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    lines = segment.read_bytes().replace(b'"note_logged"', b'"mood_logged"')
    segment.write_bytes(lines)
    run("append", "notes", cwd=place, stdin=NOTE)
    text = segment.read_bytes().replace(b'"type":"note_logged"', b'"type":"mood_logged"')
    segment.write_bytes(_resealed(text, place))
    assert "'mood_logged'" in fails("log", "notes", cwd=place, code=3)


def _resealed(data: bytes, cwd: Path) -> bytes:
    """The segment with the checksum of its last line made good, as a later release would have written it."""
    from zlib import crc32

    from rbank_es.bank import Bank
    from rbank_es.log.lines import seed_of

    with Bank.open(cwd / "logs" / "notes") as bank:
        seed = seed_of(bank.id)
    *before, last = data.splitlines(keepends=True)
    body = last[: last.rindex(b',"crc":"')]
    return b"".join(before) + body + f',"crc":"{crc32(body, seed):08x}"}}\n'.encode()


# ---------------------------------------------------------------- import, export, schema, dashboard, demo


def test_items_go_out_and_come_back(place: Path) -> None:
    """Exported items imported into a new bank are the same items; importing again adds nothing."""
    (place / "more.json").write_text(
        json.dumps(
            [{"id": "glaze", "title": "Glaze last", "desc": "", "content": "Dip.", "src": "success", "tags": []}]
        )
    )
    report = run("import", "notes", "more.json", "--json", cwd=place).json
    assert report["files"][0]["items_added"] == 1
    assert run("import", "notes", "more.json", "--json", cwd=place).json["appended"] == 0
    run("export", "notes", "--format", "items", "-o", "items.json", cwd=place)
    assert "items.json" in run("import", "copy", "items.json", "--create", cwd=place).out
    assert "was there already" in run("import", "copy", "items.json", cwd=place).out
    assert run("export", "copy", "--format", "items", cwd=place).json == json.loads((place / "items.json").read_text())
    assert {item["title"] for item in run("export", "notes@9", "--format", "items", cwd=place).json} == {ITEM["title"]}


def test_events_go_out_and_come_back_with_the_same_digests(sample: Path) -> None:
    """A bank made from exported events has the digests of the original."""
    run("export", "sample", "--format", "events", "-o", "events.jsonl", cwd=sample)
    run("import", "again", "events.jsonl", "--create", cwd=sample)
    digests = [run("replay", bank, "--json", cwd=sample).json["digests"] for bank in ("sample", "again")]
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_export_writes_files_folders_and_standard_output(sample: Path) -> None:
    """Trajectories are a folder of files; every other form is one file, or standard output."""
    report = run("export", "sample", "--format", "trajectories", "-o", "runs", "--json", cwd=sample).json
    assert len(report["files"]) == 31 == len(list((sample / "runs").glob("*.jsonl")))
    assert "31 runs" in fails("export", "sample", "--format", "trajectories", cwd=sample)
    assert run("export", "sample", "--format", "prov", cwd=sample).out.startswith("@prefix")
    assert run("export", "sample", "--format", "reasoningbank", cwd=sample).lines[0]["memory_items"] is not None
    assert "wrote runs/sample.ttl" in run("export", "sample", "--format", "prov", "-o", "runs/", cwd=sample).out
    assert "is not one of" in fails("export", "sample", "--format", "csv", cwd=sample)
    assert "--json reports" in fails("export", "sample", "--format", "items", "--json", cwd=sample)
    assert "own directory" in fails("export", "sample", "--format", "items", "-o", "logs/sample/x", cwd=sample)
    assert "not a directory" in fails("export", "sample", "--format", "items", "-o", "none/x", cwd=sample)


def test_an_export_that_fails_leaves_the_file_that_was_there(place: Path) -> None:
    """A file is replaced whole or not at all."""
    (place / "out.jsonl").write_text("precious")
    vouch(place)
    segment = next((place / "logs" / "notes").glob("*.jsonl"))
    segment.write_bytes(segment.read_bytes().replace(b"three kilns", b"seven kilns"))
    fails("export", "notes", "--format", "events", "-o", "out.jsonl", cwd=place, code=3)
    assert (place / "out.jsonl").read_text() == "precious"
    assert [path.name for path in place.iterdir() if "part" in path.name] == []


def test_import_refuses_broken_files_and_makes_no_bank_for_them(tmp_path: Path) -> None:
    """A file of no known form, or broken, is named with its line; nothing of the others is imported."""
    (tmp_path / "good.json").write_text('[{"id":"a","title":"A","desc":"","content":"x","src":"seed","tags":[]}]')
    (tmp_path / "bad.json").write_text('{"what": "is this"}')
    assert "bad.json" in fails("import", "new", "good.json", "bad.json", "--create", cwd=tmp_path)
    assert "none.json" in fails("import", "new", "none.json", "--create", cwd=tmp_path)
    assert not (tmp_path / "logs").exists()
    assert "no bank at" in fails("import", "new", "good.json", cwd=tmp_path)
    assert "Missing argument 'PATH...'" in fails("import", "new", cwd=tmp_path)


def test_schema_is_json_schema(tmp_path: Path) -> None:
    """Of one type, or of all; an unknown type is answered with the nearest."""
    one = run("schema", "run_started", cwd=tmp_path).json
    assert "run" in one["$defs"]["RunStarted"]["required"]
    assert len(run("schema", cwd=tmp_path).json["anyOf"]) == len(TYPES)
    assert "did you mean 'run_started'?" in fails("schema", "run_start", cwd=tmp_path)


@pytest.mark.slow
def test_dashboard_writes_one_page(place: Path) -> None:
    """The page is a whole HTML file; where it can't be written, the message says so."""
    written = run("dashboard", "notes@HEAD~1", "-o", "page.html", "--json", cwd=place).json
    page = (place / "page.html").read_text()
    assert written["size_bytes"] == len(page.encode()) and page.startswith("<!") and "HEAD~1" in page
    assert "wrote" in run("dashboard", "notes", "-o", "page.html", cwd=place).out
    assert "not a directory" in fails("dashboard", "notes", "-o", "none/page.html", cwd=place)
    assert "Missing option '-o'" in fails("dashboard", "notes", cwd=place)


def test_demo_tours_a_copy_of_the_sample(tmp_path: Path) -> None:
    """Three points in time, a search at each, one diff, a page; under 15 seconds, and the sample stays as it was."""
    before, began = digest_of(SAMPLE), time.monotonic()
    said = run("demo", "--recorded", cwd=tmp_path).out
    assert time.monotonic() - began < 15
    assert all(f"{number} of 3: position " in said for number in (1, 2, 3))
    assert said.count("rbank-es search") + said.count("rbank_es search") == 3 and "What changed between" in said
    assert [path.name for path in tmp_path.iterdir()] == ["rbank-demo.html"]
    assert digest_of(SAMPLE) == before
    facts = run("demo", "--recorded", "--json", "-o", "tour.html", cwd=tmp_path).json
    assert [bool(point["hits"]) for point in facts["points"]] == [True] * 3 and (tmp_path / "tour.html").exists()


def test_demo_without_a_sandbox_says_so_and_tours_the_sample(tmp_path: Path) -> None:
    """An empty cache is reason enough: what is missing, what to do, then the recorded tour; with `--into`, an error."""
    cold = {"RBANK_CACHE": str(tmp_path / "cache")}
    said = run("demo", "-o", "tour.html", cwd=tmp_path, env=cold).out
    assert "The tasks can't be run here" in said and "to fix  " in said and "3 of 3: position " in said
    assert run("demo", "--json", "-o", "tour.html", cwd=tmp_path, env=cold).json["live"] is False
    refused = run("demo", "--into", "./lesson", cwd=tmp_path, env=cold, code=2)
    assert "doctor --warm" in refused.err or "pip install" in refused.err
    assert refused.out == "" and not (tmp_path / "lesson").exists()
    assert "--into keeps the bank of live tasks" in fails("demo", "--into", "lesson", "--recorded", cwd=tmp_path)


def test_demo_of_any_bank(place: Path) -> None:
    """`--bank` shows another bank; one that is not there is an error."""
    assert "bank 'notes' is an append-only log of 9 events" in run("demo", "--bank", "notes", cwd=place).out
    assert "no bank at" in fails("demo", "--bank", "none", cwd=place)
    run("init", "empty", cwd=place)
    assert "no items yet" in run("demo", "--bank", "empty", cwd=place).out


# ---------------------------------------------------------------- erase


def test_erase_lists_first_and_needs_a_yes(place: Path) -> None:
    """A dry run changes nothing; without a terminal nothing is erased unless `--yes` is given."""
    before = log_bytes(place)
    listed = run("erase", "notes", "--run", "r1", "--dry-run", cwd=place).out
    assert re.search(r"^ *8 +run_finished +answer +named", listed, re.MULTILINE)
    assert "--yes" in fails("erase", "notes", "--run", "r1", cwd=place)
    assert log_bytes(place) == before


def test_erase_leaves_no_byte_and_the_heads_hold(place: Path) -> None:
    """After an erasure no file of the bank holds the words, the bank replays, and an earlier head verifies."""
    run("project", "notes", cwd=place)
    head = run("verify", "notes", "--json", cwd=place).json["head"]
    item = make_id(ITEM["title"], ITEM["content"])
    done = run("erase", "notes", "--item", item, "--reason", "asked for", "--yes", "--json", cwd=place).json
    assert done["places"] and done["appended"]
    for path in (place / "logs" / "notes").rglob("*"):
        assert not path.is_file() or ITEM["content"].encode() not in path.read_bytes(), path
    assert run("verify", "notes", "--head", head, "--json", cwd=place).json["log"]["erased"] == 1
    assert "[erased]" in run("show", "notes", item, cwd=place).out
    assert "no item 'nothing'" in fails("erase", "notes", "--item", "nothing", "--yes", cwd=place)


def test_erase_of_a_run_says_what_other_runs_keep_and_which_of_them_lose_texts(place: Path) -> None:
    """Before anything is erased, and in JSON; a question that both runs were put stays with the other."""
    events: list[dict[str, Any]] = [
        {"type": "run_started", "run": "first", "task": "Which berths are taken?"},
        {"type": "run_finished", "run": "first", "outcome": "submitted", "answer": "Berths three and five."},
        {"type": "run_started", "run": "second", "task": "Which berths are taken?"},
        {"type": "note_logged", "run": "second", "note": "before: Berths three and five."},
    ]
    (place / "runs.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    run("append", "notes", "runs.jsonl", cwd=place)
    listed = run("erase", "notes", "--run", "first", "--dry-run", cwd=place).out
    assert "stays: 1 text in other runs that have the same" in listed
    assert "1 other run loses texts, and can't be run again: second" in listed
    done = run("erase", "notes", "--run", "first", "--yes", "--json", cwd=place).json
    assert (done["shared"], {entry["run"] for entry in done["places"]}) == (1, {"first", "second"})
    told = (place / "logs" / "notes").glob("*.jsonl")
    stored = b"".join(path.read_bytes() for path in told)
    assert stored.count(b"Which berths are taken?") == 1 and b"Berths three" not in stored


def test_erase_a_text_wherever_it_stands(place: Path) -> None:
    """`--text` takes the words from a file, its last newline aside."""
    (place / "secret.txt").write_text("Which kilns are there?\n")
    said = run("erase", "notes", "--text", "secret.txt", "--yes", cwd=place).out
    assert "run_started" in said and "erased from notes: 1 place" in said
    assert "nothing to erase" in run("erase", "notes", "--text", "secret.txt", "--yes", cwd=place).out
    (place / "empty.txt").write_text("\n")
    assert "empty" in fails("erase", "notes", "--text", "empty.txt", "--yes", cwd=place)
    assert "8" in fails("erase", "notes", "--text", "-", "--yes", cwd=place, stdin="yes")


def test_erase_needs_exactly_one_thing(place: Path) -> None:
    """None, or two, is a usage error."""
    assert "exactly one" in fails("erase", "notes", cwd=place)
    assert "exactly one" in fails("erase", "notes", "--run", "r1", "--event", "3", cwd=place)
    assert "'99'" in fails("erase", "notes", "--event", "99", cwd=place)


def test_erase_asks_on_a_terminal(place: Path) -> None:
    """On a terminal it lists, asks, and does nothing unless the answer is yes."""
    before = log_bytes(place)
    declined = on_terminal("erase", "notes", "--run", "r1", cwd=place, typed="n\n")
    assert declined.code == 2 and "for good?" in declined.out and "nothing was erased" in declined.out
    assert log_bytes(place) == before
    assert "recorded at position 10" in on_terminal("erase", "notes", "--run", "r1", cwd=place, typed="y\n").out


# ---------------------------------------------------------------- how it looks, and how it ends


def a_run_of_the_sample() -> str:
    with Bank.open(SAMPLE) as bank:
        return runs_of(bank)[6]


LOOKS = [
    ("log", "sample@60"),
    ("show", "sample", a_run_of_the_sample()),
    ("search", "sample", "keepers on watch"),
    ("diff", "sample@173", "sample@324"),
    ("replay", "sample"),
    ("project", "sample", "--list"),
    ("verify", "sample"),
    ("schema",),
    ("--help",),
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_output_is_plain_when_piped_and_fits_when_shown(arguments: tuple[str, ...], sample: Path) -> None:
    """Piped output has no escape sequence; on a terminal no line of a table is wider than it, also without colour."""
    assert "\x1b" not in run(*arguments, cwd=sample).out
    assert "\x1b" not in on_terminal(*arguments, cwd=sample, env={"NO_COLOR": "1"}).out
    shown = on_terminal(*arguments, cwd=sample, columns=100).out
    assert "\x1b[1m" in shown or arguments[0] in ("verify", "--help")
    lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    # Texts of any length are left to the terminal to wrap.
    assert max(map(len, lines)) <= 100 or arguments[0] == "show"


def test_log_on_a_narrow_terminal(sample: Path) -> None:
    """On a terminal each event is one line, cut to the width."""
    lines = on_terminal("log", "sample", "--tail", "9", cwd=sample, columns=80, env={"NO_COLOR": "1"}).out.splitlines()
    assert lines[0].split() == ["seq", "time", "(UTC)", "type", "run", "summary"]
    assert len(lines) == 10 and max(map(len, lines)) <= 80 and any(line.endswith("…") for line in lines)


def test_stored_text_can_not_steer_the_terminal(place: Path) -> None:
    """Control characters in texts are spelled out wherever people see them."""
    run("append", "notes", cwd=place, stdin=json.dumps(RUN | {"run": "r2", "task": "a\x1b[2Jb\u202ec\x07"}))
    for shown in (
        on_terminal("log", "notes", cwd=place, columns=200, env={"NO_COLOR": "1"}).out,
        on_terminal("show", "notes", "r2", cwd=place, env={"NO_COLOR": "1"}).out,
        run("show", "notes", "r2", cwd=place).out,
    ):
        assert "a\\x1b[2Jb\\u202ec\\x07" in shown and "\x1b" not in shown and "\u202e" not in shown


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(sample: Path) -> None:
    """`| head` is no error: nothing on standard error, and the exit code that shells give for it."""
    done = shell("rbank-es log sample | head -n 1", sample)
    assert (done.err, done.out.count("\n")) == ("", 1) and done.code in (0, 141)
    assert shell("rbank-es log sample | true", sample).err == ""
    assert shell("rbank-es replay sample --json | true", sample).err == ""


@pytest.mark.parametrize(
    "command", ["log sample", "replay sample", "--help", "export sample --format events", "schema"]
)
def test_output_that_can_not_be_written_is_an_error(command: str, sample: Path) -> None:
    """A full disk behind standard output is exit code 2 and one message; a closed one is no crash."""
    full = shell(f"rbank-es {command} > /dev/full", sample)
    assert full.code == 2 and full.err == "rbank-es: the system refused: No space left on device\n"
    assert shell(f"rbank-es {command} >&-", sample).err == ""


def test_closed_standard_input_and_standard_error(place: Path) -> None:
    """Neither makes it crash."""
    assert "standard input is closed" in shell("rbank-es append notes <&-", place).err
    assert shell("rbank-es log nowhere 2>&-", place).code == 2


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    """`--debug`, before or after the command, or RBANK_DEBUG=1; without them there is only the message."""
    for line in ("rbank-es --debug log none", "rbank-es log none --debug", "RBANK_DEBUG=1 rbank-es log none"):
        err = shell(line, tmp_path).err
        assert "Traceback" in err and err.splitlines()[-1].startswith("rbank-es: no bank at")
    assert "Traceback" not in shell("rbank-es log none", tmp_path).err


def test_a_locale_without_unicode_is_no_obstacle(sample: Path) -> None:
    """Output is UTF-8 whatever the locale says."""
    env = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert "→" in run("diff", "sample@173", "sample@324", cwd=sample, env=env).out


def test_a_place_that_can_not_be_written_is_exit_code_2(place: Path) -> None:
    """Where the system refuses, the message says what and where; the log stays as it was."""
    (place / "file").write_text("")
    assert "file" in fails("init", "./file/notes", cwd=place)
    assert "file" in fails("append", "./file", cwd=place, stdin=NOTE)
    assert "it is a file" in fails("init", "./file", cwd=place)


def test_looking_writes_nothing_to_the_log(sample: Path) -> None:
    """Commands that only look leave the bank's log as it was."""
    before = log_bytes(sample, "sample")
    for arguments in LOOKS:
        run(*arguments, cwd=sample)
    assert log_bytes(sample, "sample") == before


def test_the_repository_root_is_where_the_sample_is_found() -> None:
    """The demo's sample stands where the command looks for it."""
    assert (ROOT / "logs" / "sample").is_dir()
