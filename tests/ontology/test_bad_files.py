"""Folders with files that can't be read: all are named at once, and left out only where somebody says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rdflib

from rbank_es import limits
from rbank_es.errors import BadFiles, BadInput, BadOntology, Notice
from rbank_es.ontology.loader import Ontology, load_ontology
from rbank_es.ontology.void import load_void

GOOD = "@prefix : <http://example.org/zoo#> .\n:tom a :Cat .\n"
CUT = "@prefix : <http://example.org/zoo#> .\n:tom a :Cat ;"
IRI = "<http://example.org/a|b> a <http://example.org/Cat> .\n"
ODD = '@prefix : <http://example.org/zoo#> .\n:tom :born "1"^^<http://www.w3.org/2001/XMLSchema#date> . # '
SINGLE_QUOTES = """<!DOCTYPE rdf:RDF [ <!ENTITY z 'http://example.org/zoo#'> ]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:z="http://example.org/zoo#">
<z:Cat rdf:about="&z;eve"/></rdf:RDF>"""

Load = Callable[..., Ontology]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return lambda names, **options: load_ontology(names, cache=tmp_path / "cache", **options)


def folder(place: Path, **texts: str) -> Path:
    """Make a folder of Turtle files; `__` in a name is a folder below."""
    for name, text in texts.items():
        path = place / "data" / f"{name.replace('__', '/')}.ttl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place / "data"


def failed(error: BadFiles) -> list[str]:
    return [Path(str(each.path)).name for each in error.failures if isinstance(each, BadOntology)]


def test_the_other_files_are_loaded_where_somebody_says_so_and_it_is_never_silent(tmp_path: Path, load: Load) -> None:
    """They are the ontology of these files alone: the same digest, and known to the cache."""
    data = folder(tmp_path, a=GOOD, b=CUT, c="", d=GOOD + ":eve a :Cat .")
    with pytest.warns(Notice) as told:
        loaded = load(data, skip_unreadable=True)
    assert [Path(each.path).name for each in loaded.left_out] == ["b.ttl", "c.ttl"]
    head, *lines, end = str(told[0].message).split("\n")
    assert (head, end) == ("2 of 4 files can't be read:", "They are left out.")
    assert [line.strip() for line in lines] == [str(each) for each in loaded.left_out]
    alone = load([data / "a.ttl", data / "d.ttl"])
    assert (alone.digest, alone.schema, alone.cached, alone.left_out) == (loaded.digest, loaded.schema, True, ())
    with pytest.raises(BadFiles):
        load(data)
    with pytest.warns(Notice):
        assert load(data, skip_unreadable=True).cached


@pytest.mark.parametrize("skip", [False, True])
def test_where_nothing_can_be_read_it_is_an_error_either_way(tmp_path: Path, load: Load, skip: bool) -> None:
    data = folder(tmp_path, a=CUT, b="", c=IRI)
    with pytest.raises(BadFiles) as refused:
        load(data, skip_unreadable=skip)
    assert failed(refused.value) == ["a.ttl", "b.ttl", "c.ttl"]
    assert "--skip-unreadable" not in str(refused.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadOntology, match="no RDF file there"):
        load(tmp_path / "empty", skip_unreadable=skip)


def test_a_description_of_an_endpoint_names_all_its_bad_files_too(tmp_path: Path) -> None:
    data = folder(tmp_path, a=GOOD, b=CUT, c="")
    with pytest.raises(BadFiles) as refused:
        load_void(data)
    assert failed(refused.value) == ["b.ttl", "c.ttl"]
    (data / "c.ttl").unlink()
    (data / "b.ttl").write_text("")
    with pytest.raises(BadFiles) as refused:
        load_void(data)
    assert failed(refused.value) == ["b.ttl"]


def test_files_that_only_rdflib_reads_are_no_bad_files(tmp_path: Path, load: Load) -> None:
    data = folder(tmp_path, a=GOOD, b=CUT, **{f"odd{number}": ODD + str(number) for number in range(3)})
    (data / "single.owl").write_text(SINGLE_QUOTES)
    with pytest.raises(BadFiles) as refused:
        load(data)
    assert failed(refused.value) == ["b.ttl"]
    (data / "b.ttl").unlink()
    assert "http://example.org/zoo#eve" in load(data).quads.read_text()


def test_the_name_of_a_file_makes_no_line_of_its_own(tmp_path: Path, load: Load) -> None:
    data = folder(tmp_path, good=GOOD)
    (data / "x\n  y: is fine.ttl").touch()
    with pytest.raises(BadFiles) as refused:
        load(data)
    assert len(str(refused.value).split("\n")) == 3


def test_pipes_links_and_loops_of_links_are_named_and_nothing_waits(tmp_path: Path, load: Load) -> None:
    data = folder(tmp_path, good=GOOD)
    os.mkfifo(data / "pipe.ttl")
    (data / "loop.ttl").symlink_to(data / "loop.ttl")
    (data / "round").symlink_to(data)
    with pytest.raises(BadFiles) as refused:
        load(data)
    assert failed(refused.value) == ["loop.ttl", "pipe.ttl"]
    with pytest.warns(Notice):
        assert len(load(data, skip_unreadable=True).files) == 1


def test_rdflib_does_not_try_a_folder_of_broken_files_to_its_end(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a second for 2 MiB; all are named all the same."""
    parse, tries = rdflib.Graph.parse, 0

    def count(*given: object, **options: object) -> object:
        nonlocal tries
        tries += 1
        return parse(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(rdflib.Graph, "parse", count)
    monkeypatch.setattr(limits, "ONTOLOGY_TOLERANT_BYTES", 4 * len(CUT))
    data = folder(tmp_path, good=GOOD, **{f"bad{number}": CUT + "\n" * number for number in range(20)})
    with pytest.raises(BadFiles) as refused:
        load(data)
    assert len(refused.value.failures) == 20 and 1 <= tries <= 4


UNPRIVILEGED = """
import os, sys, warnings
from pathlib import Path
from rbank_es.errors import BadInput
from rbank_es.ontology.loader import load_ontology
import pyoxigraph, rbank_es.ontology.rdf_reader, rbank_es.ontology.description
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
warnings.simplefilter("ignore")
for skip in (False, True):
    try:
        print(len(load_ontology(sys.argv[1], cache=Path("/nonexistent"), skip_unreadable=skip).left_out))
    except BadInput as error:
        print(type(error).__name__, [Path(each.path).name + ": " + each.reason for each in error.failures])
"""


@pytest.mark.slow
def test_files_and_folders_without_permission_are_named(tmp_path: Path) -> None:
    """As somebody whom permissions hold back; root reads all."""
    data = folder(tmp_path, good=GOOD, bad="", secret=GOOD + "# s", closed__inner=GOOD + "# i")
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == Path.home().owner() and path != Path(path.anchor) and "pytest" in str(path):
            path.chmod(0o755)
    (data / "secret.ttl").chmod(0)
    (data / "closed").chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, str(data)], capture_output=True, text=True, timeout=60
        )
    finally:
        (data / "closed").chmod(0o755)
    refused, left_out = done.stdout.splitlines()
    assert "BadFiles" in refused and "bad.ttl: is empty" in refused
    assert "closed: can't be read (Permission denied)" in refused
    assert "secret.ttl: can't be read (Permission denied)" in refused
    assert left_out == "3", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("names", ["", 7, ["a.ttl", ""], [7], b"a.ttl"])
def test_what_is_no_name_is_refused(names: object) -> None:
    with pytest.raises(BadInput, match="name"):
        load_ontology(names)  # type: ignore[arg-type]
