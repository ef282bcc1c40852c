"""A law: lines that are no objects take no run away, and each is refused by its number."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from rbank_es.agents.transcripts.transcript_run import TranscriptRun
from tests.agents.transcripts.sessions import Fields, Turn, claude_lines, codex_lines, transcript_runs, turns
from tests.effort import examples

damage = st.one_of(
    st.sampled_from([b"\0" * 99, b"[" * 99_999, b"{" * 9_999 + b"}" * 9_999, b'{"type":"user","mess', b"9" * 9_999]),
    st.sampled_from([b"\xff\xfe{", b'{"a":\x80}x', b'"a"', b"[1]", b"null", b"{'type': 'user'}", b"x" * 2_000_000]),
    st.binary(min_size=1, max_size=30).filter(lambda data: not data.strip(b"\0 \t\r\n").startswith(b"{")),
).filter(lambda data: b"\n" not in data and bool(data.strip()))
links = st.sampled_from([None, "nowhere", "itself", "the last", 7])


def linked(lines: list[Fields], link: object) -> list[Fields]:
    """The lines with parents that are missing, themselves, in a circle or no text."""
    named = {"itself": lambda line: line.get("uuid"), "the last": lambda line: lines[-1].get("uuid")}
    return [line | {"parentUuid": named.get(str(link), lambda line: link)(line)} for line in lines]


def told(run: TranscriptRun) -> tuple[object, ...]:
    return (
        run.key,
        run.prompts,
        run.ending,
        [(call.id, call.result, call.exit_code) for call in run.calls],
        run.answer,
    )


@given(of=turns, codex=st.booleans(), link=links, some=st.lists(damage, max_size=6), data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_lines_that_are_damaged_take_no_run_away(
    of: list[Turn], codex: bool, link: object, some: list[bytes], data: st.DataObject
) -> None:
    lines = codex_lines(of) if codex else linked(claude_lines(of), link)
    raw = [json.dumps(line).encode() for line in lines]
    whole = [*raw]
    # Never as the first line, by which the form is told: those are tried in another test.
    for each in some:
        raw.insert(data.draw(st.integers(1, len(raw))), each)
    with TemporaryDirectory() as folder:
        found = []
        for name, content in {"whole": whole, "damaged": raw}.items():
            path = Path(folder) / f"{name}.jsonl"
            path.write_bytes(b"".join(line + b"\n" for line in content))
            found.append(transcript_runs(path))
    (expected, _), (runs, tally) = found
    assert [*map(told, runs)] == [*map(told, expected)]
    refused = [number for number, line in enumerate(raw, 1) if line not in whole]
    assert tally.refused == len(refused) and [each.line for each in tally.refusals] == refused[: len(tally.refusals)]
