"""Finding files: which count, in which form each is, and which are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import BadOntology
from rbank_es.ontology.source_files import digest_of, find_files, recognise

TURTLE = "@prefix : <http://example.org/zoo#> .\n:tom a :Cat .\n"
TRIG = "@prefix : <http://example.org/zoo#> .\n:g { :tom a :Cat . }\n"
LINE = "<http://example.org/tom> <http://example.org/is> <http://example.org/Cat>"
XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:z="http://example.org/zoo#"/>'
JSON = '{"@context": {"z": "http://example.org/zoo#"}, "@id": "z:tom", "@type": "z:Cat"}'


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (TURTLE, "turtle"),
        ("# a comment\n\n   # another\nPREFIX : <http://example.org/zoo#>\n", "turtle"),
        ("<> a <http://example.org/Cat> .", "turtle"),
        ("<tom> a <Cat> .", "turtle"),
        ("[] a <http://example.org/Cat> .", "turtle"),
        ("[ a <http://example.org/Cat> ] .", "turtle"),
        (TRIG, "trig"),
        ("@prefix : <http://example.org/zoo#> .\nGRAPH <http://example.org/g> {\n :tom a :Cat }", "trig"),
        ("{ <http://example.org/tom> a <http://example.org/Cat> }", "trig"),
        (f"{LINE} .\n", "nt"),
        (f'<http://example.org/tom> <http://example.org/age> "3"^^<http://example.org/number> .\n{LINE} .', "nt"),
        (f"{LINE} <http://example.org/g> .\n", "nquads"),
        (f"{LINE} .\n{LINE} _:g .\n", "nquads"),
        (XML, "xml"),
        ("<?xml version='1.0'?>\n" + XML, "xml"),
        ("<!-- zoo -->" + XML, "xml"),
        (JSON, "json-ld"),
        ("[" + JSON + "]", "json-ld"),
        ("\ufeff" + TURTLE, "turtle"),
        ("\ufeff" + JSON, "json-ld"),
    ],
)
def test_the_form_is_recognised_by_content(content: str, form: str) -> None:
    assert recognise(content.encode()) == form


def test_a_name_decides_between_forms_that_contain_one_another() -> None:
    line = f"{LINE} .\n".encode()
    assert [recognise(line, form) for form in ("nt", "nquads", "trig", "turtle", "xml")] == [
        "nt",
        "nquads",
        "trig",
        "turtle",
        "nt",
    ]
    assert recognise(TURTLE.encode(), "trig") == "trig"


def test_a_name_that_lies_does_not_count() -> None:
    assert recognise(XML.encode(), "turtle") == "xml"
    assert recognise(TURTLE.encode(), "xml") == "turtle"
    assert recognise(JSON.encode(), "nt") == "json-ld"
    assert recognise(TURTLE.encode(), "nt") == "turtle"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"\x1f\x8b\x08 a gzip", "gzip"),
        (b"PK\x03\x04 a zip", "zip"),
        (bytes(range(256)), "binary"),
        (TURTLE.encode("utf-16"), "UTF-16"),
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "web page"),
        (b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='x'/>", "web page"),
        (b"<html lang='en'>", "web page"),
    ],
)
def test_what_is_no_rdf_is_told_by_what_it_is(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        recognise(content)


def test_recognising_takes_no_longer_than_reading() -> None:
    """Beginnings that make a careless pattern try for ever."""
    for start in ("\n", ". ", "_:<", "a.", "<a", "} ", '<a> <b> "\\"', "<!-- "):
        recognise((start * 70_000)[:65_536].encode() + b"a")


@pytest.mark.parametrize(
    ("behind", "form"), [("<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>", "xml"), ("<html>", None)]
)
def test_what_stands_behind_many_comments_is_recognised_at_once(behind: str, form: str | None) -> None:
    """The time doubled with each comment: 22 took a second, 40 would take days."""
    head = ("<!-- a comment -->\n" * 1_000 + behind).encode()
    if form is not None:
        assert recognise(head) == form
        return
    with pytest.raises(ValueError, match="is a web page"):
        recognise(head)


@pytest.mark.parametrize(("comment_bytes", "form"), [(50_000, "nquads"), (100_000, "turtle")])
def test_a_form_is_recognised_behind_comments_within_the_first_64_kib(
    tmp_path: Path, comment_bytes: int, form: str
) -> None:
    """Behind longer ones the name decides: a file of any size is recognised at once."""
    path = tmp_path / "zoo.ttl"
    path.write_text("# a long licence\n" * (comment_bytes // 17) + f"{LINE} <http://example.org/g> .\n")
    [found] = find_files([path])
    assert found.format == form


def test_a_directory_gives_its_rdf_files_by_name_with_those_below(tmp_path: Path) -> None:
    for name in ("b.ttl", "a.nt", "sub/c.trig", ".hidden.ttl", ".git/d.ttl", "README.md", "notes"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TURTLE + f"# {name}")
    (tmp_path / "package.json").write_text('{"name": "zoo"}')
    (tmp_path / "zoo.json").write_text(JSON)
    (tmp_path / "page.xml").write_text("<?xml version='1.0'?><page xmlns='http://example.org/page'/>")
    (tmp_path / "html.xml").write_text("<html></html>")
    (tmp_path / "zoo.xml").write_text(XML)
    found = [str(file.path.relative_to(tmp_path)) for file in find_files([tmp_path])]
    assert found == ["a.nt", "b.ttl", "zoo.json", "zoo.xml", "sub/c.trig"]


def test_files_are_given_in_the_order_asked_each_content_once(tmp_path: Path) -> None:
    (tmp_path / "b.ttl").write_text(TURTLE)
    (tmp_path / "copy.ttl").write_text(TURTLE)
    (tmp_path / "a.ttl").write_text(TURTLE + "# a")
    found = find_files([tmp_path / "b.ttl", tmp_path / "a.ttl", tmp_path / "copy.ttl", tmp_path])
    assert [file.path.name for file in found] == ["b.ttl", "a.ttl"]
    assert (found[0].size_bytes, found[0].format) == (len(TURTLE), "turtle")


def test_the_digest_knows_neither_names_nor_order(tmp_path: Path) -> None:
    for name, text in (("a.ttl", TURTLE), ("b.ttl", TRIG), ("c.trig", TRIG)):
        (tmp_path / name).write_text(text)
    one = find_files([tmp_path / "a.ttl", tmp_path / "b.ttl"])
    other = find_files([tmp_path / "c.trig", tmp_path / "a.ttl"])
    assert digest_of(one) == digest_of(other) != digest_of(one[:1])


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "zoo.ttl").write_text(TURTLE)
    (tmp_path / "link").symlink_to(tmp_path / "zoo.ttl")
    [file] = find_files([tmp_path / "link"])
    assert file.format == "turtle"


def refusal(*paths: Path) -> BadOntology:
    with pytest.raises(BadOntology) as caught:
        find_files(paths)
    return caught.value


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.ttl").reason == "no such file or directory"
    assert "no RDF file" in refusal(tmp_path).reason
    assert "no RDF file" in refusal().reason
    (tmp_path / "dangling.ttl").symlink_to(tmp_path / "none.ttl")
    assert refusal(tmp_path).reason == "is not a regular file, but a symbolic link"
    assert refusal(tmp_path / "dangling.ttl").reason == "no such file or directory"


def test_a_broken_file_in_a_directory_is_not_passed_by(tmp_path: Path) -> None:
    (tmp_path / "zoo.ttl").write_text(TURTLE)
    (tmp_path / "empty.ttl").touch()
    assert (Path(refusal(tmp_path).path).name, refusal(tmp_path).reason) == ("empty.ttl", "is empty")


def test_too_many_files_and_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / f"{number}.ttl").write_text(f"{TURTLE}# {number}")
    size = len(TURTLE) + 3
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 3 * size)
    assert len(find_files([tmp_path])) == 3
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 3 * size - 1)
    assert "MiB together" in refusal(tmp_path).reason
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 3 * size)
    monkeypatch.setattr(limits, "ONTOLOGY_FILES", 2)
    assert "more than 2 RDF files" in refusal(tmp_path).reason


def test_pipes_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ttl")
    assert refusal(tmp_path / "pipe.ttl").reason == "is not a regular file, but a named pipe"
    assert refusal(tmp_path).reason == "is not a regular file, but a named pipe"
    assert refusal(Path("/dev/zero")).reason == "is not a regular file, but a device"


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    assert "can't be read" in refusal(tmp_path / ("x" * 5_000)).reason
    assert "can't be read" in refusal(tmp_path / "a\0b").reason


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "zoo.ttl").write_text(TURTLE)
    monkeypatch.setattr(os, "open", refuse)
    error = refusal(tmp_path / "zoo.ttl")
    assert "Permission denied" in error.reason
    assert "permissions" in error.hint
