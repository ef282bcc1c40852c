"""Every file that a user gives is read the same with a byte order mark, in UTF-16, with CRLF, without a last newline.

The parameters that name a file are found in the commands themselves, so that a new one can't be forgotten.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from rbank_es.cli.shared.command_registry import COMMANDS, OURS
from rbank_es.data import lights
from rbank_es.errors import BadInput
from rbank_es.events.items import Item
from rbank_es.system.input_file import without_mark
from tests.cli.kilns import ITEM
from tests.cli_runner import fails, run
from tests.effort import one_in

_FILE = re.compile("FILE|PATH|MODEL|DIR|URL|SPARQL")

SCRIPT = b"""
[[task]]
id = "*"
[[task.agent]]
fields = { next_thought = "Two.", next_tool_name = "SUBMIT", next_tool_args = { answer = "2", evidence = "" } }
[[task.judge]]
fields = { success = true, reason = "fine" }
[[task.extractor]]
fields = { memory_items = [ { title = "Count boats", content = "Write COUNT." } ] }
"""
EXPERIMENT = b"""
name = "heights"
title = "Does one lesson help?"
suite = "lights"
orders = 2
baseline = "without"
contrasts = [["with", "without"]]
[shared]
executor = "react"
judge = "checks"
[[condition]]
name = "without"
layers = ["L0"]
[[condition]]
name = "with"
layers = ["L0", "L2"]
seeds = ["lights"]
"""
POLICY = b'[retrieval]\nname = "bm25"\nk_success = 2\n'
CASES = b"""{"id": "a", "query": "Lit?", "agent_sparql": "SELECT ?l {}", "agent_answer": "x", "expert_verdict": false}
"""
KILNS = Item.make_id(ITEM["title"], ITEM["content"])
RELEVANT = b"".join(
    b'{"id": "k%d", "query": "kilns", "relevant": ["%b"]}\n{"id": "o%d", "query": "x", "relevant": []}\n'
    % (number, KILNS.encode(), number)
    for number in range(20)
)
TASK = b'[{"id": "a", "question": "Which kilns are there?", "gold_sparql": "SELECT ?l { ?l a lt:Lighthouse }"}]\n'
VOID = b"""@prefix void: <http://rdfs.org/ns/void#> .
<#d> a void:Dataset ; void:triples 12 ; void:classPartition [ void:class <http://example.org/Boat> ; void:entities 3 ] .
"""
PROFILE = b'name = "mine"\nurl = "http://127.0.0.1:9/sparql"\n'
EVENTS = b'{"type":"note_logged","note":"a"}\n{"type":"note_logged","note":"b"}\n'
RULINGS = b'{"run":"r1","verdict":"failure","reason":"no"}\n'
QALD = json.dumps(
    {
        "questions": [
            {
                "id": "1",
                "question": [{"language": "en", "string": "Which lighthouses are there?"}],
                "query": {"sparql": "SELECT ?l { ?l a <http://example.org/L> }"},
                "answers": [],
            }
        ]
    }
).encode()
ONTOLOGY, TASKS = lights().ontology.read_bytes(), Path(lights().ontology.with_name("lights_tasks.json")).read_bytes()
GUIDE, LINES = lights().guide.read_bytes(), lights().ontology.with_name("lights_constraints.toml").read_bytes()
SEED = lights().seed.read_bytes()
RUN = ["run", "./bank", "--ont", "lights", "--executor", "react", "--judge", "none", "--task", "How many boats?"]


class Reads(NamedTuple):
    """A command line with FILE in the place of the file, the file's content, and its name."""

    line: list[str]
    content: bytes
    name: str = "given.txt"
    wide: bool = True
    """Whether UTF-16 is read, too. Where it is not, the refusal names it."""


READ = {
    "init --policy": Reads(["init", "./new", "--policy", "FILE"], POLICY),
    "append file": Reads(["append", "./bank", "FILE"], EVENTS),
    "policy --set": Reads(["policy", "./bank", "--set", "FILE"], POLICY),
    "import paths": Reads(["import", "./bank", "FILE"], SEED),
    "erase --text": Reads(
        ["erase", "./bank", "--text", "FILE", "--dry-run"], "three kilns, the Älteste first".encode()
    ),
    "overrule --from": Reads(["overrule", "./bank", "--from", "FILE", "--by", "ann"], RULINGS, "given.jsonl"),
    "learn --ont": Reads(["context", "./bank", "--ont", "FILE", "--task", "boats"], ONTOLOGY, "o.ttl", wide=False),
    "learn --endpoint": Reads(["context", "./bank", "--endpoint", "FILE", "--task", "x"], PROFILE, "p.toml"),
    "learn --void": Reads(
        ["context", "./bank", "--endpoint", "http://127.0.0.1:9/", "--void", "FILE", "--task", "x"],
        VOID,
        "void.ttl",
        wide=False,
    ),
    "query sql": Reads(["query", "./bank", "@FILE", "--json"], b"SELECT run FROM runs\n"),
    "query --sparql": Reads(["query", "./bank", "--sparql", "@FILE"], b"SELECT ?r { ?r a prov:Activity }\n"),
    "drift --ont": Reads(["drift", "./bank", "--ont", "FILE"], ONTOLOGY, "o.ttl", wide=False),
    "drift --old": Reads(["drift", "./bank", "--ont", "lights", "--old", "FILE"], ONTOLOGY, "o.ttl", wide=False),
    "whatif --policy": Reads(["whatif", "./bank", "--policy", "FILE"], POLICY),
    "run --tasks": Reads([*RUN[:-2], "--lm", "script:script.toml", "--tasks", "FILE"], TASK),
    "run --lm": Reads([*RUN, "--lm", "script:FILE"], SCRIPT),
    "run --guide": Reads([*RUN, "--lm", "script:script.toml", "--l3", "--guide", "FILE"], GUIDE),
    "run --constraints": Reads([*RUN, "--lm", "script:script.toml", "--l1", "--constraints", "FILE"], LINES),
    "run --load-mem": Reads([*RUN, "--lm", "script:script.toml", "--load-mem", "FILE"], SEED),
    "ontology paths": Reads(["ontology", "FILE"], ONTOLOGY, "o.ttl", wide=False),
    "judge calibrate --cases": Reads(["judge", "calibrate", "--cases", "FILE", "--ont", "lights"], CASES),
    "judge calibrate --lm": Reads(
        ["judge", "calibrate", "--cases", "cases.jsonl", "--ont", "lights", "--judge", "lm", "--lm", "script:FILE"],
        SCRIPT,
    ),
    "judge run --tasks": Reads(
        ["judge", "run", "./bank", "r1", "--ont", "lights", "--tasks", "FILE", "--purpose", "scoring"], TASK
    ),
    "experiment run name": Reads(["experiment", "show", "FILE"], EXPERIMENT, "heights.toml"),
    "suite check file": Reads(["suite", "check", "FILE", "--ont", "lights"], TASKS),
    "suite import file": Reads(["suite", "import", "FILE", "--into", "made.json", "--ont", "lights"], QALD),
    "suite script file": Reads(["suite", "script", "FILE", "--into", "made.toml"], TASKS),
    "retrieval calibrate --cases": Reads(["retrieval", "calibrate", "./bank", "--cases", "FILE"], RELEVANT),
    "retrieval compare --cases": Reads(
        ["retrieval", "compare", "./bank", "--cases", "FILE", "--policy", "bm25-1", "--policy", "bm25-2"], RELEVANT
    ),
    "verify --head": Reads(["verify", "./bank", "--head", "FILE"], b"HEAD OF THE BANK\n"),
}
"""What is read, by the first command with the parameter of this name and help."""
ALIKE = {
    "run --sub-lm": "run --lm",
    "run --judge-lm": "run --lm",
    "run --extractor-lm": "run --lm",
    "learn --lm": "run --lm",
    "experiment rate --lm": "run --lm",
    "run --endpoint": "learn --endpoint",
    "context --endpoint": "learn --endpoint",
    "tools --endpoint": "learn --endpoint",
    "judge calibrate --endpoint": "learn --endpoint",
    "suite import --endpoint": "learn --endpoint",
    "run --void": "learn --void",
    "context --void": "learn --void",
    "tools --ont": "learn --ont",
    "experiment check --ont": "learn --ont",
    "rerun --ont": "learn --ont",
    "suite check --ont": "learn --ont",
    "experiment show name": "experiment run name",
    "experiment run --tasks": "suite check file",
    "experiment run --constraints": "run --constraints",
    "rerun --tasks": "run --tasks",
    "retrieval embed --cases": "retrieval compare --cases",
}
"""Parameters that are read by the function of another one."""
WRITTEN = {
    *("whatif --into", "dashboard -o", "demo -o", "run --save-mem", "run --heads", "suite generate --into"),
    *("experiment run --into", "suite import --into"),
    *("suite script --into", "replay --into", "project --into", "rerun --into", "export -o", "skills --into"),
    "query --parquet",
}
"""Files and folders that are written."""
NO_FILES = {
    *("learn --api-base", "run --api-base", "run --embeddings-url", "retrieval embed --base-url", "judge run --gold"),
    *("experiment check folder", "experiment compare folder", "experiment compare other", "experiment rate folder"),
    *(
        "experiment report folder",
        "experiment status folder",
        "suite check --files",
        "doctor --lm",
        "doctor --api-base",
    ),
}
"""Addresses, queries, and folders whose files the program itself wrote."""


def parameters(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Each parameter that may name a file, with what tells it from others of its name: its help, or its command."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from parameters(command.get_command(context, name) or command, f"{path} {name}")
        return
    for each in command.params:
        named = each.metavar or ("" if isinstance(each, click.Option) else each.human_readable_name.upper())
        if _FILE.search(named) or isinstance(each.type, click.Path | click.File):
            yield f"{path} {each.opts[0]}", f"{each.opts[0]} {getattr(each, 'help', None) or path}"


def test_every_parameter_that_may_name_a_file_is_tried_here() -> None:
    first = dict[str, str]()
    for name in OURS:
        for parameter, meaning in parameters(COMMANDS.get(name), name):
            first.setdefault(meaning, parameter)
    assert {*first.values()} == READ.keys() | ALIKE.keys() | WRITTEN | NO_FILES
    assert {*ALIKE.values()} <= READ.keys()


FORMS = {
    "a mark": lambda content: codecs.BOM_UTF8 + content,
    "UTF-16, little": lambda content: codecs.BOM_UTF16_LE + content.decode().encode("utf-16-le"),
    "UTF-16, big": lambda content: codecs.BOM_UTF16_BE + content.decode().encode("utf-16-be"),
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "a mark and CRLF": lambda content: codecs.BOM_UTF8 + content.replace(b"\n", b"\r\n"),
    "no last newline": lambda content: content.rstrip(b"\n"),
}


def outcome(reads: Reads, content: bytes, made: Path, folder: Path) -> tuple[int, str]:
    """What a command prints about a file, without ids, numbers and times, in a new folder with a bank."""
    folder.mkdir()
    for source in (made / "logs" / "notes").iterdir():
        (folder / "bank").mkdir(exist_ok=True)
        (folder / "bank" / source.name).write_bytes(source.read_bytes())
    (folder / "script.toml").write_bytes(SCRIPT)
    (folder / "cases.jsonl").write_bytes(CASES)
    (folder / reads.name).write_bytes(content)
    done = run(*(word.replace("FILE", reads.name) for word in reads.line), cwd=folder, code=None)
    shown = re.sub(r"\b[0-9a-f-]{6,}\b|\d+(?:[.,]\d+)*|#\w+", "#", done.out + done.err)
    return done.code, re.sub(r"\s+", " ", shown)


@pytest.mark.slow
@pytest.mark.parametrize("parameter", one_in(4, READ), ids=READ.keys())
def test_a_file_is_read_in_every_form_that_editors_write(parameter: str, made: Path, tmp_path: Path) -> None:
    reads = READ[parameter]
    content = reads.content
    if parameter == "verify --head":
        content = run("head", "notes", cwd=made).out.encode()
    plain = outcome(reads, content, made, tmp_path / "plain")
    assert plain[0] in (0, 1), plain
    for number, (form, change) in enumerate(FORMS.items()):
        code, shown = outcome(reads, change(content), made, tmp_path / f"form{number}")
        if form.startswith("UTF-16") and not reads.wide:
            assert code and "UTF-16" in shown.replace("UTF-#", "UTF-16"), (form, shown)
        else:
            assert (code, shown) == plain, form


def test_noted_heads_behind_a_mark_are_compared(made: Path, tmp_path: Path) -> None:
    """A mark made the first line one about another bank, so that nothing was compared and the check passed."""
    bank = run("head", "notes", "--json", cwd=made).json["id"]
    forged = tmp_path / "heads.txt"
    forged.write_bytes(codecs.BOM_UTF8 + f"{bank} 3:{'0' * 64} 2026-01-01T00:00:00.000000Z notes\r\n".encode())
    assert run("verify", "notes", "--head", forged, cwd=made, code=None).code == 1


def test_a_mark_that_is_wrong_is_named(tmp_path: Path) -> None:
    run("init", "./b", cwd=tmp_path)
    message = fails("append", "./b", "-", cwd=tmp_path, stdin=codecs.BOM_UTF16_LE + b"odd")
    assert "UTF-16" in message and "save it as UTF-8" in message
    for mark, encoding in ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")):
        assert without_mark(mark + "ä".encode(encoding)) == "ä".encode()
        with pytest.raises(BadInput, match="UTF-32"):
            without_mark(mark + b"xyz")
