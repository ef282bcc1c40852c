"""Hostile files and all who read one: each pair ends in time, with one sentence, and changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from tests.attacks.hostile_text import steering
from tests.cli_runner import run
from tests.effort import one_in

FILES: dict[str, bytes | Callable[[Path], object]] = {
    "empty": b"",
    "blank lines": b"\n \n\n",
    "zeros": bytes(5_000),
    "no UTF-8": b'{"task": "\xff\xfe"}',
    "UTF-16": '{"task": "x"}\n'.encode("utf-16"),
    "lists without end": b"[" * 100_000,
    "lists too deep": b"[" * 100_000 + b"]" * 100_000,
    "objects without end": b'{"a":' * 100_000,
    "half an object": b'{"task": "x',
    "a number of 5,000 digits": b"number = " + b"9" * 5_000,
    "JSON with a number of 5,000 digits": b'{"number": ' + b"9" * 5_000 + b"}",
    "no number": b'{"number": NaN}',
    "half a character": b'{"task": "\\ud800"}',
    "a sequence for a terminal": b"\x1b]0;owned\x07 [[\x1b[2J",
    "null": b"null",
    "a list of lists": b"[[[]]]",
    "another program's": b"\x7fELF\x02\x01\x01" + bytes(64),
    "one line of 3 MB": b"x" * 3_000_000,
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("gone"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "zeros without end": lambda path: path.symlink_to("/dev/zero"),
}
TASK = ("--ont", "lights", "--task", "t")
READERS: dict[str, tuple[str, ...]] = {
    "import": ("import", "./bank", "given.jsonl"),
    "append": ("append", "./bank", "given.jsonl"),
    "verdicts as JSON Lines": ("overrule", "./bank", "--from", "given.jsonl", "--by", "ann"),
    "verdicts as CSV": ("overrule", "./bank", "--from", "given.csv", "--by", "ann"),
    "verdicts as TOML": ("overrule", "./bank", "--from", "given.toml", "--by", "ann"),
    "heads": ("verify", "./bank", "--head", "given.txt"),
    "policies": ("policy", "./bank", "--set", "given.toml"),
    "words to erase": ("erase", "./bank", "--text", "given.txt", "--dry-run"),
    "an ontology": ("ontology", "given.ttl"),
    "an endpoint": ("tools", "--endpoint", "given.toml"),
    "a guide": ("context", *TASK, "--guide", "given.txt"),
    "constraints": ("context", *TASK, "--constraints", "given.toml"),
    "a script": ("run", "./bank", *TASK, "--lm", "script:given.toml"),
    "tasks": ("run", "./bank", "--ont", "lights", "--tasks", "given.json", "--lm", "openai/any", "--dry-run"),
    "cases of a calibration": ("retrieval", "calibrate", "./bank", "--cases", "given.jsonl"),
    "an experiment": ("experiment", "show", "given.toml"),
    "a suite": ("suite", "check", "given.json"),
    "a suite to import": ("suite", "import", "given.json", "--into", "out.json"),
}
FINE = {
    **dict.fromkeys(("policies", "constraints"), {"empty", "blank lines"}),
    # A script without turns is one: a run of it fails, and is recorded.
    "a script": {"empty", "blank lines"},
    **dict.fromkeys(("words to erase", "a guide"), {kind for kind, held in FILES.items() if isinstance(held, bytes)}),
}
"""What is, or may be, a right file for a reader: no settings, any text."""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted((folder / "bank").iterdir())}


@pytest.mark.parametrize("reader", one_in(len(READERS), READERS))
def test_a_hostile_file_is_refused_in_one_sentence_and_nothing_is_changed(reader: str, tmp_path: Path) -> None:
    """By whoever reads it, at once: nobody waits for what never ends."""
    Bank.create(tmp_path / "bank").close()
    line = READERS[reader]
    [name] = [word.removeprefix("script:") for word in line if "given." in word]
    # A command that loads dspy takes a second for each.
    for kind, held in [*FILES.items()][:: 5 if reader == "a script" else 1]:
        path = tmp_path / name
        if isinstance(held, bytes):
            path.write_bytes(held)
        else:
            held(path)
        before, is_fine = contents(tmp_path), kind in FINE.get(reader, ())
        done = run(*line, cwd=tmp_path, code=None)
        assert "Traceback" not in done.err and "defect" not in done.err, (kind, done.err)
        assert not steering(done.out + done.err) and len(done.err) < 3_000, (kind, done.err)
        assert done.code == 2 or is_fine, (kind, done)
        assert done.code == 0 or done.err.startswith("rbank-es: "), (kind, done.err)
        assert contents(tmp_path) == before or (is_fine and reader == "a script"), kind
        path.rmdir() if path.is_dir() else path.unlink()
    assert json.loads(run("verify", "./bank", "--json", cwd=tmp_path).out)["ok"]
