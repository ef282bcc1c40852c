"""Recorded runs and memories, imported whole: the counts in the bank equal the counts in the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.exchange import ImportReport, import_paths
from rbank_es.exchange.exporters import export, export_files
from rbank_es.law import active
from rbank_es.law.digests import state_digests

pytestmark = pytest.mark.real

RUNS, FINISHED, FAILED, TOOL_CALLS, STEPS, PACKS, ITEMS = 13, 12, 1, 103, 85, 3, 22


@pytest.fixture(scope="module")
def imported(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bank, ImportReport]]:
    with Bank.create(tmp_path_factory.mktemp("real") / "bank", unsafe_no_sync=True) as bank:
        yield bank, import_paths(bank, [data / "trajectories", data / "memory"])


@pytest.fixture
def bank(imported: tuple[Bank, ImportReport]) -> Bank:
    return imported[0]


def trajectories(data: Path) -> list[Path]:
    return sorted((data / "trajectories").rglob("*.jsonl"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def packs(data: Path) -> list[dict[str, Any]]:
    return [item for path in sorted((data / "memory").glob("*.json")) for item in json.loads(path.read_text())]


def exported(bank: Bank, form: str, folder: Path) -> list[Path]:
    folder.mkdir()
    files = []
    for name, pieces in export_files(bank, None, form):
        files.append(folder / name)
        files[-1].write_bytes(b"".join(pieces))
    return files


def test_every_file_is_recognised_and_counted(imported: tuple[Bank, ImportReport], data: Path) -> None:
    """Thirteen runs and three packs of items, none of them known before."""
    _, report = imported
    assert Counter(file.form for file in report.files) == {"trajectory": RUNS, "items": PACKS}
    assert sum(file.runs for file in report.files) == RUNS == len(trajectories(data))
    assert sum(file.items_added for file in report.files) == ITEMS == len(packs(data))
    assert sum(file.groups_known for file in report.files) == 0


def test_the_counts_in_the_read_models_equal_the_counts_in_the_files(bank: Bank, data: Path) -> None:
    """Runs, ends, failures, tool calls with their errors and sizes, steps, tokens and cost."""
    lines = [line for path in trajectories(data) for line in lines_of(path)]
    kinds = Counter(line["event_type"] for line in lines)
    answers = [line["data"] for line in lines if line["event_type"] == "tool_result"]
    usage = [line["data"]["lm_usage"] for line in lines if line["event_type"] == "run_complete"]
    with bank.as_of() as view:
        runs, tools = view.rows("runs"), view.rows("leakage_by_tool")
        flags = view.rows("red_flags")
    assert len(runs) == kinds["run_start"] == RUNS
    assert sum(run["outcome"] in ("submitted", "forced_at_limit") for run in runs) == kinds["run_complete"] == FINISHED
    assert sum(run["outcome"] == "failed" for run in runs) == kinds["run_error"] == FAILED
    assert sum(run["tool_calls"] for run in runs) == kinds["tool_call"] == TOOL_CALLS
    assert sum(run["steps"] for run in runs) == kinds["iteration"] == STEPS
    assert sum(tool["calls"] for tool in tools) == TOOL_CALLS
    assert sum(tool["errors"] for tool in tools) == sum("error" in answer for answer in answers)
    assert sum(tool["total_chars_returned"] for tool in tools) == sum(answer["result_size"] for answer in answers)
    large = sum(answer["result_size"] > 1000 for answer in answers)
    assert sum(tool["large_returns"] for tool in tools) == large
    assert sum(flag["flag"] == "single_return" for flag in flags) == large
    assert sum(run["tokens_in"] or 0 for run in runs) == sum(one["prompt_tokens"] for one in usage)
    assert sum(run["cost_usd"] or 0 for run in runs) == pytest.approx(sum(one["total_cost"] for one in usage))


def test_each_run_has_what_its_file_says(bank: Bank, data: Path) -> None:
    """Task, endpoint, iterations, context, and the time at which it began, run by run."""
    with bank.as_of() as view:
        runs = {run["run"]: run for run in view.rows("runs")}
        contexts = {row["run"]: row["context_size"] for row in view.rows("leakage_by_run")}
    for path in trajectories(data):
        start, *rest = lines_of(path)
        [run] = [run for name, run in runs.items() if name.startswith(path.stem + "-")]
        told = start["data"]
        assert run["started_at"].removesuffix("Z") == start["timestamp"]
        assert (run["task"], run["endpoint"], run["iterations_max"]) == (
            told["task"],
            told.get("endpoint"),
            told["max_iters"],
        )
        assert contexts[run["run"]] == told["context_size"]
        assert run["steps"] == sum(line["event_type"] == "iteration" for line in rest)


def test_the_same_files_again_add_nothing(bank: Bank, data: Path) -> None:
    """Not one event."""
    head = bank.head()
    report = import_paths(bank, [data / "trajectories", data / "memory"])
    assert report.appended == 0
    assert all(file.groups_known == file.groups for file in report.files)
    assert bank.head() == head


def test_every_item_is_found_by_a_search_on_its_own_title(bank: Bank, data: Path) -> None:
    """Ids are those of the packs."""
    for item in packs(data):
        found = [hit.id for hit in bank.search(item["title"], 5)]
        assert item["id"] in found, item["title"]


def test_items_are_kept_whole(bank: Bank, data: Path) -> None:
    """Word for word, whatever their length."""
    items = active(bank.state())
    for told in packs(data):
        item = items[told["id"]]
        kept = (item.title, item.desc, item.content, item.src, list(item.tags))
        assert kept == tuple(told[name] for name in ("title", "desc", "content", "src", "tags"))


def test_exported_trajectories_are_the_files_that_were_imported(bank: Bank, data: Path, tmp_path: Path) -> None:
    """Byte for byte."""
    written = {path.stem: path.read_bytes() for path in exported(bank, "trajectories", tmp_path / "out")}
    assert len(written) == RUNS
    for path in trajectories(data):
        [back] = [content for stem, content in written.items() if stem.startswith(path.stem + "-")]
        assert back == path.read_bytes(), path.name


@pytest.mark.slow
def test_exported_trajectories_are_known_to_the_bank_and_make_the_same_runs_in_another(
    bank: Bank, tmp_path: Path
) -> None:
    """Same ids, same facts."""
    files = exported(bank, "trajectories", tmp_path / "out")
    assert import_paths(bank, files).appended == 0
    with Bank.create(tmp_path / "other", unsafe_no_sync=True) as other:
        import_paths(other, files)
        assert state_digests(other.state()).runs == state_digests(bank.state()).runs


def test_exported_events_make_a_bank_with_the_same_state_digests(bank: Bank, tmp_path: Path) -> None:
    """All of them."""
    with Bank.create(tmp_path / "other", unsafe_no_sync=True) as other:
        import_paths(other, exported(bank, "events", tmp_path / "out"))
        assert state_digests(other.state()) == state_digests(bank.state())


def test_exported_items_make_a_bank_with_the_same_items(bank: Bank, tmp_path: Path) -> None:
    """And the same digest of items."""
    with Bank.create(tmp_path / "other", unsafe_no_sync=True) as other:
        import_paths(other, exported(bank, "items", tmp_path / "out"))
        assert active(other.state()) == active(bank.state())
        assert state_digests(other.state()).items == state_digests(bank.state()).items


def test_the_items_of_a_memory_file_keep_their_words(bank: Bank, data: Path, tmp_path: Path) -> None:
    """The packs' items, hung on a run, come back from a ReasoningBank file as they were."""
    told = [item for item in packs(data) if item["src"] == "success"]
    record = {"task_id": "pack", "query": "All of them", "status": "success", "memory_items": []}
    record["memory_items"] = [
        "# Memory Item {}\n\n## Title {title}\n\n## Description {desc}\n\n## Content {content}".format(number, **item)
        for number, item in enumerate(told, 1)
    ]
    (tmp_path / "memory.jsonl").write_text(json.dumps(record))
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as made:
        import_paths(made, [tmp_path / "memory.jsonl"])
        once = active(made.state())
        (tmp_path / "again.jsonl").write_bytes(b"".join(export(made, None, "reasoningbank")))
    assert [(item.title, item.desc, item.content) for item in once.values()] == [
        (item["title"].strip(), item["desc"].strip(), item["content"].strip()) for item in told
    ]
    with Bank.create(tmp_path / "other", unsafe_no_sync=True) as other:
        import_paths(other, [tmp_path / "again.jsonl"])
        assert active(other.state()) == once


def test_just_before_each_run_the_bank_is_without_it(bank: Bank) -> None:
    """The point of a run is the state just before it began."""
    for run in bank.state().runs:
        before = bank.replay(run).state
        assert run not in before.runs
        assert before.position == next(event.seq for event in bank.events(run=run)) - 1
        assert run in bank.state(before.position + 1).runs
