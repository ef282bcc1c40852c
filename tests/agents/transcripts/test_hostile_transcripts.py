"""Transcripts that are damaged, strange or hostile: what can be read comes in, what can't is told, nothing breaks."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from rbank_es import Bank, limits
from rbank_es.agents.transcripts.transcript_run import clipped
from rbank_es.errors import BadImport
from rbank_es.events.likely_secrets import redact_likely
from rbank_es.exchange import import_paths
from rbank_es.limits.transcript_limits import TRANSCRIPT_TEXT_CHARS
from tests.agents.transcripts.sessions import Fields, Turn, claude_lines, codex_lines, transcript_runs, write

LINES = claude_lines([Turn(0, (1, 0), False, False), Turn(1, (0,), False, False)])


def changed(**fields: object) -> list[Fields]:
    return [line | fields for line in LINES]


def joined(*parts: bytes | Fields) -> bytes:
    return b"".join(part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n" for part in parts)


def result_of(size: int) -> list[Fields]:
    lines = json.loads(json.dumps(LINES))
    lines[4]["message"]["content"][0]["content"] = "x" * size + "\n2 passed in 0.1s"
    return lines  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("data", "runs", "refused"),
    [
        pytest.param(joined(*LINES), 2, [], id="as it is"),
        pytest.param(joined(*LINES)[:-1], 2, [], id="without a last line feed"),
        pytest.param(joined(*LINES) + b'{"type":"user","mess', 2, [], id="cut in its last line"),
        pytest.param(joined(b"\0" * 999 + b"\n", *LINES), 2, [1], id="begins with NUL"),
        pytest.param(joined(*LINES[:2], b"\0" * 64, *LINES[2:]), 2, [], id="a line behind NUL"),
        pytest.param(b"\xef\xbb\xbf" + joined(*LINES), 2, [], id="byte order mark"),
        pytest.param(joined(*LINES).replace(b"\n", b"\r\n"), 2, [], id="CRLF"),
        pytest.param(joined(*LINES).replace(b"\n", b"\n\n"), 2, [], id="blank lines"),
        pytest.param(joined(*changed(timestamp="1970-01-01T00:00:00Z")), 2, [], id="a clock of 1970"),
        pytest.param(joined(*changed(timestamp="2999-01-01T00:00:00Z")), 2, [], id="a clock ahead"),
        pytest.param(joined(*changed(timestamp="yesterday")), 2, [], id="no time"),
        pytest.param(joined(*changed(timestamp=17)), 2, [], id="a time that is a number"),
        pytest.param(joined(LINES[0], LINES[2], LINES[1], *LINES[3:]), 2, [], id="a result before its call"),
        pytest.param(joined(*LINES, b'{"type":"later","sessionId":"s"}\n'), 2, [], id="an unknown type"),
        pytest.param(joined(*LINES, *codex_lines([Turn(0, (0,), False, False)])[1:3]), 2, [11, 12], id="two forms"),
        pytest.param(joined(*result_of(10_000_000)), 2, [], id="a result of 10 MB"),
        pytest.param(joined(*LINES).replace(b"Do 0-0.", b"\\ud800 half"), 2, [], id="half a character"),
        pytest.param(joined(*LINES).replace(b"Do 0-0.", b"\xff\xfe"), 2, [], id="no UTF-8"),
        pytest.param(joined(*LINES).replace(b'"message"', b'"massage"'), 0, None, id="a key that was renamed"),
        pytest.param(joined(*changed(message=None)), 0, None, id="no messages"),
        pytest.param(joined({"type": "summary", "leafUuid": "u", "summary": "s"}), 0, [], id="a summary alone"),
        pytest.param(joined(*[line | {"isMeta": True} for line in LINES[:1]]), 0, [], id="no turn"),
    ],
)
def test_a_session_that_is_damaged_gives_the_runs_that_can_be_read(
    data: bytes, runs: int, refused: list[int] | None, bank: Bank, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(data)
    if refused is None:
        with pytest.raises(BadImport, match="no turn of a user can be read"):
            import_paths(bank, [path])
        return
    (file,) = import_paths(bank, [path]).files
    assert (file.runs, [each.line for each in file.refusals]) == (runs, refused)
    assert all(each.reason for each in file.refusals) and file.lines_refused == len(refused)
    assert bool(file.runs) or file.notes
    assert import_paths(bank, [path]).appended == 0
    assert all((event.occurred_at or "2026") < "2027" for event in bank.log.read())


def test_unknown_types_are_counted_and_told(bank: Bank, tmp_path: Path) -> None:
    more = [{"type": "later", "sessionId": "s"}, {"type": "later", "uuid": "u"}, {"type": "other", "uuid": "u"}]
    (file,) = import_paths(bank, [write(tmp_path / "a.jsonl", [*LINES, *more])]).files
    assert file.unknown_types == {"later": 2, "other": 1} and "2 later, 1 other" in file.notes[0]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: os.mkfifo(path), id="a pipe"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), id="a link to a device"),
        pytest.param(lambda path: path.symlink_to(path.parent / "nowhere"), id="a link to nothing"),
        pytest.param(lambda path: path.write_bytes(b""), id="an empty file"),
    ],
)
def test_what_is_no_file_with_something_in_it_is_refused_by_name(
    make: Callable[[Path], object], bank: Bank, tmp_path: Path
) -> None:
    path = tmp_path / "session.jsonl"
    make(path)
    with pytest.raises(BadImport, match=r"session\.jsonl"):
        import_paths(bank, [path])


@pytest.mark.parametrize("form", ["chat", "gemini-cli", "atif"])
def test_a_file_that_is_too_large_to_be_held_is_refused_by_its_size_and_the_others_come_in(
    form: str, bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IMPORT_FILE_BYTES", 50)
    lines: dict[str, list[Fields]] = {
        "chat": [{"role": "user", "content": "Run the tests, and tell me of each that fails."}],
        "gemini-cli": gemini_lines(*ASKED),
        "atif": [{"schema_version": "ATIF-v1.7", "steps": [], "agent": {}, "session_id": "a session"}],
    }
    large = write(tmp_path / "large.jsonl", lines[form])
    large.write_text(f"[{large.read_text()}]" if form == "chat" else large.read_text())
    with pytest.raises(BadImport, match=r"large\.jsonl: [\d,]+ bytes are over the limit of 50; split it"):
        import_paths(bank, [large])
    assert import_paths(bank, [write(tmp_path / "a.jsonl", LINES)]).appended


def test_a_link_in_a_folder_is_passed_over(bank: Bank, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    write(folder / "a.jsonl", LINES)
    (folder / "b.jsonl").symlink_to(
        write(tmp_path / "secret.jsonl", claude_lines([Turn(0, (), False, False)], "x", 900))
    )
    assert [file.runs for file in import_paths(bank, [folder]).files] == [2]


@pytest.mark.slow
def test_a_turn_with_more_calls_than_one_append_holds_comes_in_whole_and_once(bank: Bank, tmp_path: Path) -> None:
    long = claude_lines([Turn(0, (0,) * 1500, False, False)])
    path = write(tmp_path / "a.jsonl", long[:2001])
    first = import_paths(bank, [path])
    rest = import_paths(bank, [write(path, long)])
    assert first.appended + rest.appended == 1 + 1500 * 2 + 1 + 1 + 1
    assert import_paths(bank, [path]).appended == 0


def test_chat_messages_in_three_layouts_are_the_same_runs(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "pytest -q"}'}}
    messages: list[Fields] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Run the tests."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1 failed in 0.1s"},
        {"role": "assistant", "content": "One fails."},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "assistant", "content": "Done."},
    ]
    layouts = [json.dumps(messages), "\n".join(map(json.dumps, messages)), json.dumps({"messages": messages}, indent=1)]
    seen = []
    for number, text in enumerate(layouts):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        runs, tally = transcript_runs(path)
        assert [(run.prompts, run.ending, run.answer) for run in runs] == [
            (["Run the tests."], "done", "One fails."),
            (["Fix it."], "done", "Done."),
        ]
        assert runs[0].contexts == ["Be brief."] and not tally.refused
        seen.append([run.key for run in runs])
    assert seen[0] == seen[1] == seen[2]


CHAT = [
    {"role": "user", "content": "Run the tests."},
    {"role": "assistant", "content": "They pass."},
    {"role": "user", "content": "Do more."},
    {"role": "assistant", "content": "Done."},
]


@pytest.mark.parametrize(
    ("data", "runs", "refused"),
    [
        pytest.param(joined(*CHAT), 2, [], id="as it is"),
        pytest.param(joined(*CHAT) + b'{"role": "user", "con', 2, [], id="cut in its last line"),
        pytest.param(joined(*CHAT).replace(b"pass.", b"pass \\ud83d."), 2, [], id="half a character"),
        pytest.param(joined(*CHAT).replace(b"Run", b"Run \\ud83d"), 2, [], id="half a character in the first line"),
        pytest.param(joined(*CHAT[:2], b"\0" * 99 + b"\n", *CHAT[2:]), 1, [3], id="a run of NUL"),
        pytest.param(joined(*CHAT[:3], b"{'role': 'assistant'}\n", *CHAT[3:]), 1, [4], id="a line that is no JSON"),
    ],
)
def test_chat_messages_that_are_damaged_give_the_turns_before_the_damage(
    data: bytes, runs: int, refused: list[int], bank: Bank, tmp_path: Path
) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes(data)
    (file,) = import_paths(bank, [path]).files
    assert (file.runs, [each.line for each in file.refusals]) == (runs, refused)
    path.write_bytes(joined(*CHAT))
    import_paths(bank, [path])
    assert len(bank.runs().rows) == 2 or b"ud83d" in data


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key sk-ant-EXAMPLE0000000000000000 end", "key [key] end"),
        ("ghp_EXAMPLE0000", "[key]"),
        ("AKIAEXAMPLE000000000", "[key]"),
        ("xoxb-123456789-EXAMPLE", "[key]"),
        ("AIzaEXAMPLE000000000000000000", "[key]"),
        ("Authorization: Bearer EXAMPLE.token-1", "Authorization: Bearer [key]"),
        ("authorization: Basic RVhBTVBMRQ==", "authorization: Basic [key]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.EXAMPLE", "[key]"),
        ("OPENAI_API_KEY=EXAMPLE pytest", "OPENAI_API_KEY=[key] pytest"),
        ("export DB_PASSWORD='EXAMPLE'", "export DB_PASSWORD='[key]'"),
        ('{"env":"API_TOKEN=\\"EXAMPLE\\""}', '{"env":"API_TOKEN=\\"[key]\\""}'),
        ('{"password": "EXAMPLE"}', '{"password": "[key]"}'),
        ("postgres://u:EXAMPLE@host/db", "postgres://[key]@host/db"),
        ("-----BEGIN RSA PRIVATE KEY-----\nEXAMPLE\n-----END RSA PRIVATE KEY-----", "[key]"),
        ("a header: Basic dXNlcjpFWEFNUExF", "a header: Basic [key]"),
        ("aws_secret_access_key = EXAMPLE", "aws_secret_access_key = [key]"),
        ('{"SecretAccessKey": "EXAMPLE"}', '{"SecretAccessKey": "[key]"}'),
        ("curl -H 'X-Api-Key: EXAMPLE'", "curl -H 'X-Api-Key: [key]'"),
        ("deploy --token EXAMPLE0 --password 'EXAMPLE'", "deploy --token [key] --password '[key]'"),
        # What only looks like one stays.
        ("Basic authentication, Basic JavaScript", "Basic authentication, Basic JavaScript"),
        ("deploy --token $TOKEN --secret --force", "deploy --token $TOKEN --secret --force"),
        ("API_KEY=$API_KEY", "API_KEY=$API_KEY"),
        ("2 passed, task-skeleton, https://host/a:b", "2 passed, task-skeleton, https://host/a:b"),
        ("the tokenizer: reads tokens", "the tokenizer: reads tokens"),
    ],
)
def test_likely_secrets_are_redacted_and_their_names_stay(text: str, kept: str) -> None:
    assert redact_likely(text) == kept


def test_a_long_text_is_clipped_between_words_and_one_without_blanks_takes_no_time() -> None:
    begun = TRANSCRIPT_TEXT_CHARS
    assert (
        clipped("word " * begun) == "word " * (begun // 5)
        and clipped("x" * (begun - 2) + " half a") == "x" * (begun - 2) + " "
    )
    began_s = process_time()
    assert all(len(clipped("z" * begun * 2)) == begun - 1_000 for _ in range(200))
    assert process_time() - began_s < 2


def rolled_back(turns: int) -> Fields:
    payload = {"type": "thread_rolled_back", "num_turns": turns}
    return {"timestamp": "2026-11-01T09:00:00Z", "type": "event_msg", "payload": payload}


def gemini_lines(*messages: Fields) -> list[Fields]:
    about = {"sessionId": "g", "projectHash": "p", "startTime": "2026-11-20T11:00:00Z"}
    return [about, *({"timestamp": "2026-11-20T11:00:00Z", **each} for each in messages)]


ASKED = [
    {"id": "g1", "type": "user", "content": "Run the tests."},
    {"id": "g2", "type": "gemini", "content": "They pass.", "model": "m"},
    {"id": "g3", "type": "user", "content": "Do more."},
    {"id": "g4", "type": "gemini", "content": "Done.", "model": "m"},
]
TAKEN_BACK = {
    "codex": (codex_lines([Turn(0, (0,), False, False), Turn(1, (0,), False, False)]), rolled_back(1)),
    "gemini-cli": (gemini_lines(*ASKED), {"$rewindTo": "g3"}),
}


@pytest.mark.parametrize("form", TAKEN_BACK)
def test_a_turn_that_is_taken_back_after_it_came_in_is_told_by_the_name_of_its_run(
    form: str, bank: Bank, tmp_path: Path
) -> None:
    lines, back = TAKEN_BACK[form]
    path = write(tmp_path / "session.jsonl", lines)
    import_paths(bank, [path])
    tasks = {row.run: row.task for row in bank.runs().rows}
    (file,) = import_paths(bank, [write(path, [*lines, back])]).files
    told = [note for note in file.notes if "after it came in" in note]
    assert len(tasks) == 2 and file.appended == 0 and len(told) == 1 and "overrule" in told[0]
    assert [task for run, task in tasks.items() if run in told[0]] == ["Do 1." if form == "codex" else "Do more."]
    with Bank.create("memory:") as fresh:
        (file,) = import_paths(fresh, [path]).files
        assert file.runs == 1 and not any("after it came in" in note for note in file.notes)


@pytest.mark.parametrize("first", ["passed", "failed"])
def test_of_two_transcripts_of_one_run_the_first_judges_and_the_other_result_is_told(
    first: str, bank: Bank, tmp_path: Path
) -> None:
    """The same call failed in one and passed in the other: both verdicts came in, and neither's evidence told which."""
    passed = write(tmp_path / "passed.jsonl", claude_lines([Turn(0, (0,), False, False)]))
    failed = write(tmp_path / "failed.jsonl", claude_lines([Turn(0, (1,), False, False)]))
    one, other = (passed, failed) if first == "passed" else (failed, passed)
    import_paths(bank, [one])
    for _ in range(2):
        (file,) = import_paths(bank, [other]).files
        assert file.appended == 0 and [each.differing for each in file.changes] == [("run_judged",)]
    [row] = bank.runs().rows
    assert row.verdict == ("success" if first == "passed" else "failure")
    assert len(list(bank.log.read(types=["run_judged"]))) == 1
