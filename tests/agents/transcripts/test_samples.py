"""What a good reader says of each sample of a transcript, on the value and in a bank."""

from pathlib import Path

import pytest

from rbank_es import Bank
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


def test_what_a_hook_gave_is_proved_by_the_transcript() -> None:
    assert transcript_runs(MAIN)[0][0].contexts == ["rbank: 1 item: round half up, not banker's rounding"]
    assert transcript_runs(LEGACY)[0][0].contexts == ["rbank: 1 item: round half up"]


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


def test_no_secret_of_a_sample_reaches_the_log(bank: Bank) -> None:
    import_paths(bank, [SAMPLES])
    text = "".join(map(str, bank.log.read(resolve=event_types())))
    assert "EXAMPLE" not in text and "API_TOKEN=[key] python -m pytest" in text and "OPENAI_API_KEY=[key]" in text
