"""What a good reader says of each sample of a transcript, on the value and in a bank."""

from pathlib import Path

import pytest

from rbank_es import Bank
from rbank_es.agents.transcripts.outcome_evidence import evidence_of
from rbank_es.events import RunFinished
from rbank_es.events.codec import event_types
from rbank_es.exchange import import_paths
from tests.agents.transcripts.sessions import transcript_runs
from tests.cli_runner import run

SAMPLES = Path(__file__).parent / "samples"
CLAUDE = SAMPLES / "claude-code/projects/-srv-shop"
MAIN, FORK, COPY = (CLAUDE / f"11111111-0000-4000-8000-00000000000{number}.jsonl" for number in (1, 2, 5))
DAY = SAMPLES / "codex/sessions/2026/11/20"
LEGACY, PAGINATED, FORKED, RESUMED = (
    next(path for path in DAY.iterdir() if path.stem.endswith(end))
    for end in ("000000000001", "-000000000002", "000000000003", "0000000000aa")
)


def verdict(run: object) -> str | None:
    found = evidence_of(run)  # type: ignore[arg-type]
    return found.verdict if found else None


def test_what_a_hook_gave_is_proved_by_the_transcript() -> None:
    assert transcript_runs(MAIN)[0][0].contexts == ["rbank: 1 item: round half up, not banker's rounding"]
    assert transcript_runs(LEGACY)[0][0].contexts == ["rbank: 1 item: round half up"]


def test_tokens_count_once_a_message_however_many_lines_and_files_have_it(bank: Bank) -> None:
    import_paths(bank, [MAIN, FORK, COPY])
    assert sum(event.tokens_out for event in bank.log.read(types=["lm_called"])) == 180  # type: ignore[attr-defined]


def test_a_fork_and_a_copy_have_one_new_turn_each(bank: Bank) -> None:
    keys = [{run.key for run in transcript_runs(path)[0]} for path in (MAIN, FORK, COPY)]
    assert [len(own - keys[0]) for own in keys] == [0, 1, 1]
    report = import_paths(bank, [MAIN, FORK, COPY])
    # The prompt that nobody answered yet stays out.
    assert [file.runs for file in report.files] == [2, 1, 0] and "without an answer" in report.files[2].notes[0]
    reverted = next(event for event in bank.log.read(types=["run_finished"]) if "529" in str(event.error))  # type: ignore[attr-defined]
    assert isinstance(reverted, RunFinished) and reverted.extra == '{"commits":["4f2c1aa"]}'


def test_an_error_of_the_provider_is_no_verdict() -> None:
    run = transcript_runs(FORK)[0][1]
    assert (run.ending, run.commits, verdict(run)) == ("failed", ["4f2c1aa"], None)


def test_the_lines_of_a_broken_session_are_refused_by_number_and_the_rest_is_read() -> None:
    runs, tally = transcript_runs(next((SAMPLES / "claude-code/malformed").iterdir()))
    assert [run.prompts[0][:16] for run in runs] == ["Fix the discount"]
    assert sorted(each.line for each in tally.refusals) == [2, 4, 6, 7, 8, 9] and tally.refused == 6


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-code/unknown-version", ("line 1", "of no known form", "schema")),
        ("codex/unknown-version", ("line 1", "history_mode 'segmented'", "legacy and paginated")),
        ("codex/malformed", ("line 2: not JSON", "line 3: 24 NUL bytes", "line 4", "line 5", "line 6", "line 7")),
        ("gemini-cli/malformed.jsonl", ("line 1", "not JSON")),
        ("atif/unknown-version.json", ("'ATIF-v2.0'", "ATIF-v1.0 to ATIF-v1.8")),
        ("atif/malformed.json", ("surprise", "steps[1].step_id is 3, expected 2", "'nowhere' is no call of its step")),
    ],
)
def test_what_nobody_can_read_is_refused_by_name_line_and_reason_with_exit_code_2(
    name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    path = SAMPLES / name
    file = next(path.iterdir()) if path.is_dir() else path
    done = run("import", str(tmp_path / "bank"), str(file), "--create", cwd=tmp_path, code=2)
    assert all(word in done.err for word in words), done.err
    assert not (tmp_path / "bank").exists()


def test_good_files_beside_broken_ones_come_in_with_exit_code_2(tmp_path: Path) -> None:
    done = run("import", "./bank", str(SAMPLES / "codex"), "--create", "--json", cwd=tmp_path, code=2)
    report = done.json
    assert sum(file["runs"] for file in report["files"]) == 5
    assert [(Path(each["path"]).parent.name, each["line"]) for each in report["refused"]] == [
        ("malformed", 2),
        ("unknown-version", 1),
    ]


def test_a_paginated_rollout_and_the_file_that_resumes_it_are_one_thread() -> None:
    (first,), (second,) = transcript_runs(PAGINATED)[0], transcript_runs(RESUMED)[0]
    assert (first.key, second.key) == ((first.session, "turn-1"), (first.session, "turn-2"))
    assert [(call.name, call.exit_code) for call in first.calls] == [("exec_command", 1), ("apply_patch", None)]
    assert (second.prompts, second.commits, second.answer) == (["Undo it."], ["4f2c1aa"], "Undone.")


def test_a_sub_agent_has_its_own_turn_and_not_those_of_its_parent() -> None:
    (own,), tally = transcript_runs(FORKED)
    assert (own.extra["turn"], own.prompts, tally.copied) == ("turn-9", ["Where do invoices round?"], 19)
    assert own.parent == transcript_runs(LEGACY)[0][0].session


def test_a_trajectory_without_a_trial_has_no_verdict() -> None:
    (run,), _ = transcript_runs(SAMPLES / "atif/old-1.4.json")
    assert (len(run.prompts), run.calls[0].result, verdict(run)) == (1, "Exit code 1\n1 failed, 1 passed", None)


def test_no_secret_of_a_sample_reaches_the_log(bank: Bank) -> None:
    import_paths(bank, [SAMPLES])
    text = "".join(map(str, bank.log.read(resolve=event_types())))
    assert "EXAMPLE" not in text and "API_TOKEN=[key] python -m pytest" in text and "OPENAI_API_KEY=[key]" in text
