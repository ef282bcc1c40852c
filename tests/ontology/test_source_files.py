"""Finding files: which count, in which form each is, and which are refused."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.errors import BadOntology
from rbank_es.ontology.source_files import find_files, recognise
from rbank_es.ontology.unsupported_formats import NotRdf

TURTLE = "@prefix : <http://example.org/zoo#> .\n:tom a :Cat .\n"
TRIG = "@prefix : <http://example.org/zoo#> .\n:g { :tom a :Cat . }\n"
LINE = "<http://example.org/tom> <http://example.org/is> <http://example.org/Cat>"
XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:z="http://example.org/zoo#"/>'
JSON = '{"@context": {"z": "http://example.org/zoo#"}, "@id": "z:tom", "@type": "z:Cat"}'


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
OWL = "http://www.w3.org/2002/07/owl#"
OWL_XML = f'<Ontology xmlns="{OWL}" {{}}><Declaration><Class IRI="#Cat"/></Declaration></Ontology>'
FOREIGN = {
    "is empty": [b"", b" \n\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"],
    "gzip": [b"\x1f\x8b\x08 a gzip"],
    "zip": [b"PK\x03\x04 a zip"],
    "PDF": [b"%PDF-1.7 ..."],
    "office": [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"],
    "git lfs pull": [b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"],
    "binary": [bytes(range(256))],
    "UTF-16": [TURTLE.encode("utf-16")],
    "web page": [
        b"<!DOCTYPE html><html><body>Not found</body></html>",
        b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='x'/>",
        b"<html lang='en'>",
        b"<HTML><HEAD>",
    ],
    "OWL/XML": [
        OWL_XML.format('ontologyIRI="http://example.org/zoo"').encode(),
        OWL_XML.format("").encode(),
        ("<?xml version='1.0'?>\n<!-- " + "a long licence " * 9_000 + "-->\n" + OWL_XML.format("")).encode(),
        ("<?xml version='1.0' encoding='ISO-8859-1'?>\n" + OWL_XML.format('ontologyIRI="\xfc"')).encode("latin-1"),
        ("<?xml version='1.0'?>\n<!-- made by a tool -->\n" + OWL_XML.format(f'xmlns:rdf="{RDF}"')).encode(),
        b"\xef\xbb\xbf" + OWL_XML.format("").encode(),
        f'<o:Ontology xmlns:o="{OWL}" o:x="1"><o:Prefix name="" IRI="x"/></o:Ontology>'.encode(),
        f'<!DOCTYPE Ontology [<!ENTITY o "{OWL}">]><Ontology xmlns="&o;" ontologyIRI="x"/>'.encode(),
    ],
    "TriX": [b'<TriX xmlns="http://www.w3.org/2004/03/trix/trix-1/"><graph/></TriX>'],
    "SVG": [f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:rdf="{RDF}"><rdf:RDF/></svg>'.encode()],
    "the result of a query": [
        b'<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/></sparql>',
        b'{"head": {"vars": ["x"]}, "results": {"bindings": []}}',
    ],
    "XML of another kind": [
        b"<?xml version='1.0'?><project><name>zoo</name></project>",
        b"<zoo><cat>Tom</cat></zoo>",
        b'<zoo name="x"/>',
        b'<project xmlns="http://maven.apache.org/POM/4.0.0"><name>zoo</name></project>',
        f'<m:meta xmlns:m="adobe:ns:meta/" xmlns:rdf="{RDF}"><rdf:RDF/></m:meta>'.encode(),
        f'<z:zoo xmlns:z="http://example.org/zoo#" xmlns:rdf="{RDF}" name="x"><z:cat rdf:about="y"/></z:zoo>'.encode(),
    ],
    "functional": [
        b"Prefix(:=<http://example.org/>)\nOntology(<x>)",
        b"# a zoo\nOntology(<x>\nDeclaration(Class(:A)))",
    ],
    "Manchester": [b"Prefix: : <http://example.org/>\nOntology: <x>", b"Ontology: <x>\nClass: Cat", b"Class: Cat\n"],
    "OBO": [
        b"format-version: 1.2\n\n[Term]\nid: EX:1\n",
        b"! a zoo\nformat-version: 1.4\n",
        b"ontology: zoo\ndate: 1\n\n[Term]\nid: EX:1\n",
        b"[Term]\nid: EX:1\n",
    ],
    "Notation3": [
        b"@prefix : <http://example.org/#> .\n{ ?x a :Cat } => { ?x a :Pet } .",
        b"@prefix : <http://example.org/#> .\n@forAll :x .\n:x a :Cat .",
    ],
    "comma-separated": [
        b"http://example.org/tom,Tom\nhttp://example.org/a,B\n",
        b"id,name\n1,Tom\n",
        b"\xef\xbb\xbfid,name,type\n1,Tom,Cat\n",
    ],
    "semicolon-separated": [b"id;name\n1;Tom\n"],
    "tab-separated": [b"id\tname\n1\tTom\n"],
    "not JSON-LD": [b'{"name": "Tom"}', b'[{"name": "Tom"}, {"name": "Jerry"}]'],
    "OBO Graphs": [b'{"graphs": [{"nodes": [], "edges": []}]}'],
    "RDF/JSON": [b'{"http://e.org/a": {"http://e.org/b": [{"value": "http://e.org/c", "type": "uri"}]}}'],
    "SPARQL query": [b"SELECT ?x { ?x a <Cat> }", b"PREFIX : <x>\n# cats\nCONSTRUCT { ?x a :Cat } { ?x a :Cat }"],
    "begins with": [
        b"http://example.org/tom\nhttp://example.org/a\n",
        b"Dear zoo,",
        b"name:\n  - Tom\n",
        b"---\ntitle: zoo\n",
        b"id name\n1 Tom\n",
    ],
}


@pytest.mark.parametrize(("said", "content"), [(said, each) for said, group in FOREIGN.items() for each in group])
def test_what_is_no_rdf_is_told_by_what_it_is_and_what_to_do(said: str, content: bytes, tmp_path: Path) -> None:
    """Whatever it is called, and nothing is made of it."""
    for suffix in ("ttl", "owl", "rdf", "json", "nt", "xml"):
        path = tmp_path / f"zoo.{suffix}"
        path.write_bytes(content)
        with pytest.raises(BadOntology, match=re.escape(said)) as refused:
            find_files([path])
        assert "no valid" not in str(refused.value) and refused.value.hint


@pytest.mark.parametrize(
    "content",
    [
        '<rdf:Description xmlns:rdf="{RDF}" xmlns:z="http://e.org/" rdf:about="http://e.org/a"><z:p>1</z:p></rdf:Description>',
        '<z:Cat xmlns:rdf="{RDF}" xmlns:z="http://example.org/" rdf:about="http://example.org/a"/>',
        '<z:Cat xmlns:rdf="{RDF}" xmlns:z="http://example.org/"><z:owner rdf:resource="http://example.org/o"/></z:Cat>',
        '<owl:Ontology xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:rdf="{RDF}" rdf:about="http://example.org/o"/>',
        '<owl:Class xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:rdf="{RDF}" rdf:about="http://example.org/C"/>',
        '<!DOCTYPE rdf:RDF [<!ENTITY r "{RDF}">]><rdf:RDF xmlns:rdf="&r;"><rdf:Description rdf:about="a:b"/></rdf:RDF>',
        '<RDF xmlns="{RDF}"/>',
        '<x:RDF xmlns:x="{RDF}"><x:Description/></x:RDF>',
    ],
)
def test_rdf_xml_has_any_prefixes_and_a_single_node_may_be_its_root(content: str) -> None:
    assert recognise(content.replace("{RDF}", RDF).encode()) == "xml"


def test_recognising_takes_no_longer_than_reading() -> None:
    """Beginnings that make a careless pattern try for ever."""
    for start in (
        *("\n", ". ", "_:<", "a.", "<a", "} ", '<a> <b> "\\"', "<!-- ", "<a>", '"""', "[] a '", "a: b\n", "!\n", "a,"),
        *("PREFIX a: <b>\n", "@prefix <", "[Term] ", "<a><b>", '{"a": '),
    ):
        with suppress(NotRdf):
            recognise((start * 70_000)[:65_536].encode() + b"a")


def test_a_directory_gives_its_rdf_files_by_name_with_those_below(tmp_path: Path) -> None:
    for name in ("b.ttl", "a.nt", "sub/c.trig", ".hidden.ttl", ".git/d.ttl", "README.md", "notes"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TURTLE + f"# {name}")
    (tmp_path / "package.json").write_text('{"name": "zoo"}')
    (tmp_path / "zoo.json").write_text(JSON)
    (tmp_path / "page.xml").write_text("<?xml version='1.0'?><page xmlns='http://example.org/page'/>")
    (tmp_path / "html.xml").write_text("<html></html>")
    (tmp_path / "zoo.xml").write_text(XML)
    found = [str(file.path.relative_to(tmp_path)) for file in find_files([tmp_path]).files]
    assert found == ["a.nt", "b.ttl", "zoo.json", "zoo.xml", "sub/c.trig"]


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


def test_large_files_that_are_no_rdf_are_not_read_to_their_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a folder of them would cost as much as an ontology of that size, for each file."""
    with (tmp_path / "zoo.ttl").open("wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(4 * limits.ONTOLOGY_BYTES)
    read, taken = os.read, 0

    def count(handle: int, size: int) -> bytes:
        nonlocal taken
        taken += size
        return read(handle, size)

    monkeypatch.setattr(os, "read", count)
    assert refusal(tmp_path).reason == "is a zip archive, or an office document"
    assert taken <= limits.MIB


def test_too_many_files_and_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / f"{number}.ttl").write_text(f"{TURTLE}# {number}")
    size = len(TURTLE) + 3
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 3 * size)
    assert len(find_files([tmp_path]).files) == 3
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 3 * size - 1)
    assert "MiB together" in refusal(tmp_path).reason
    monkeypatch.setattr(limits, "ONTOLOGY_BYTES", 3 * size)
    monkeypatch.setattr(limits, "ONTOLOGY_FILES", 2)
    assert "more than 2 RDF files" in refusal(tmp_path).reason


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    assert "can't be read" in refusal(tmp_path / ("x" * 5_000)).reason
    assert "can't be read" in refusal(tmp_path / "a\0b").reason


def test_pipes_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ttl")
    assert refusal(tmp_path / "pipe.ttl").reason == "is not a regular file, but a named pipe"
    assert refusal(tmp_path).reason == "is not a regular file, but a named pipe"
    assert refusal(Path("/dev/zero")).reason == "is not a regular file, but a device"
