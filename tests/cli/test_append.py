"""`append --create`: a bank is made with its first events, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es import limits
from tests.cli_runner import fails, run

NOTE = '{"type":"note_logged","note":{"n":1}}'
KNOWN = '{"type":"note_logged","id":"00000000-0000-8000-8000-000000000001","note":%d}'


def too_long() -> str:
    """More facts than a line of the log may have: only the log itself can tell."""
    return json.dumps({"type": "memories_forgotten", "ids": ["x" * 120] * 10_000, "policy": "p"})


@pytest.mark.parametrize(
    ("given", "options", "code", "said"),
    [
        (f"{NOTE}\n{too_long()}", (), 2, "event 2 of 2 (memories_forgotten), its line in bytes: 1,2"),
        (f"{NOTE}\n{too_long()}", ("--batch", "1"), 2, "over the limit"),
    ],
    # Because the test's name is in the environment of each process, and a system limits the size of that.
    ids=["too-long", "too-long-in-two-groups"],
)
def test_what_is_refused_leaves_nothing_behind(
    tmp_path: Path, given: str, options: tuple[str, ...], code: int, said: str
) -> None:
    """Neither the new bank nor the folder that it would have been the first in."""
    assert said in fails("append", "new", "--create", *options, cwd=tmp_path, stdin=given, code=code)
    assert list(tmp_path.iterdir()) == []


def test_where_there_are_remains_of_a_bank_one_is_made(tmp_path: Path) -> None:
    """A lock that somebody left, who got no further."""
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "lock").touch()
    assert run("append", "./new", "--create", "--json", cwd=tmp_path, stdin=NOTE).json["created"] is True
    (tmp_path / "file").touch()
    assert "it is a file" in fails("append", "./file", "--create", cwd=tmp_path, stdin=NOTE)


def test_the_limit_that_is_told_is_that_of_a_line() -> None:
    """So that the tests above go on testing what they say."""
    assert limits.INLINE_TEXT_BYTES < limits.LINE_BYTES < len(too_long()) < limits.TEXT_LINE_BYTES
