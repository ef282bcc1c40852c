"""Loading: every form of RDF, several files as one dataset, the cache, and a second process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph
import pytest

from rbank_es import limits
from rbank_es.errors import BadInput
from rbank_es.ontology import loader as caching
from rbank_es.ontology.loader import GraphCache, Ontology, load_ontology
from rbank_es.ontology.schema_model import Schema
from rbank_es.system.files import cache_folder

ZOO = "http://example.org/zoo#"
TURTLE = f"""@prefix : <{ZOO}> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
:Cat a owl:Class . :tom a :Cat ; :home [ :street "Long Lane" ] .
"""
XML = f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="{ZOO}">
  <rdf:Description rdf:about="{ZOO}Cat"><rdf:type rdf:resource="http://www.w3.org/2002/07/owl#Class"/></rdf:Description>
  <Cat rdf:about="{ZOO}tom"><home><rdf:Description><street>Long Lane</street></rdf:Description></home></Cat>
</rdf:RDF>"""
JSON = f"""{{"@context": {{"@vocab": "{ZOO}", "owl": "http://www.w3.org/2002/07/owl#"}}, "@graph": [
  {{"@id": "{ZOO}Cat", "@type": "owl:Class"}},
  {{"@id": "{ZOO}tom", "@type": "Cat", "home": {{"street": "Long Lane"}}}}]}}"""
LINES = f"""<{ZOO}Cat> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/2002/07/owl#Class> .
<{ZOO}tom> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{ZOO}Cat> .
<{ZOO}tom> <{ZOO}home> _:home .
_:home <{ZOO}street> "Long Lane" .
"""
FORMS = {
    "zoo.ttl": TURTLE,
    "zoo.trig": f"@prefix g: <http://example.org/g> .\n{TURTLE.replace(':tom a', ':tim a :Cat . :tom a')}",
    "zoo.rdf": XML,
    "zoo.owl": "\ufeff" + XML,
    "zoo.jsonld": JSON,
    "zoo.nt": LINES,
    "zoo.nq": LINES.replace(" .\n", f" <{ZOO}graph> .\n"),
    "bom.ttl": "\ufeff" + TURTLE,
    "misnamed.nt": TURTLE,
    "misnamed.ttl": XML,
    "zoo": JSON,
    "zoo.txt": LINES,
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def write(folder: Path, **texts: str) -> list[Path]:
    paths = [folder / name.replace("_", ".") for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def quads(ontology: Ontology) -> set[str]:
    parsed = pyoxigraph.parse(path=ontology.quads, format=pyoxigraph.RdfFormat.N_QUADS)
    return {str(quad) for quad in parsed}


def without_prefixes(schema: Schema) -> dict[str, object]:
    return {name: getattr(schema, name) for name in schema.__struct_fields__ if name not in ("prefixes", "graphs")}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_loads_and_says_the_same(name: str, tmp_path: Path, place: Path) -> None:
    (tmp_path / name).write_text(FORMS[name], encoding="utf-8")
    (tmp_path / "plain.ttl").write_text(TURTLE)
    plain = load_ontology(tmp_path / "plain.ttl", cache=place)
    loaded = load_ontology(tmp_path / name, cache=place)
    assert {found.iri: found.declared for found in loaded.schema.classes} == {ZOO + "Cat": True}
    if not name.endswith("trig"):
        assert without_prefixes(loaded.schema) == without_prefixes(plain.schema)
    assert len(quads(loaded)) == loaded.schema.triples


def test_a_blank_node_keeps_its_identity_across_the_graphs_of_its_file(tmp_path: Path, place: Path) -> None:
    text = f"_:a <{ZOO}p> _:b . <{ZOO}g> {{ _:a <{ZOO}q> _:b }} _:a {{ _:b <{ZOO}r> << <{ZOO}x> <{ZOO}y> _:a >> }}"
    [path] = write(tmp_path, one_trig=text)
    lines = sorted(quads(load_ontology(path, cache=place)))
    assert len(lines) == 4
    assert len({word for line in lines for word in line.split() if word.startswith("_:")}) == 3


def test_an_id_can_be_given(tmp_path: Path, place: Path) -> None:
    [path] = write(tmp_path, zoo_ttl=TURTLE)
    assert load_ontology(path, id="my_zoo.1", cache=place).id == "my_zoo.1"
    for wrong in ("", "My zoo", "a/b", "x" * 300):
        with pytest.raises(BadInput, match="can't be an ontology's id"):
            load_ontology(path, id=wrong, cache=place)


def damages(entry: Path) -> Iterator[tuple[Path, bytes]]:
    for name in ("graph.nq", "schema"):
        whole = (entry / name).read_bytes()
        yield entry / name, whole[:-1]
        yield entry / name, b""
        yield entry / name, whole + b"\n"
        for at in (0, 4, len(whole) // 2):
            yield entry / name, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


def test_a_torn_or_damaged_entry_is_made_again(tmp_path: Path, place: Path) -> None:
    [path] = write(tmp_path, zoo_ttl=TURTLE)
    first = load_ontology(path, cache=place)
    graph = first.quads.read_bytes()
    for file, damaged in list(damages(first.quads.parent)):
        file.write_bytes(damaged)
        again = load_ontology(path, cache=place)
        assert (again.cached, again.schema, again.quads) == (False, first.schema, first.quads)
        assert len(again.quads.read_bytes()) == len(graph)
        assert load_ontology(path, cache=place).cached
    for name in ("graph.nq", "schema"):
        (first.quads.parent / name).unlink()
        assert not load_ontology(path, cache=place).cached


def test_entries_depend_on_the_limits_that_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label that was cut at another length is not taken from the cache."""
    before = caching.entry_form()
    (tmp_path / "limits.py").write_text("ONTOLOGY_LABEL_CHARS = 10")
    monkeypatch.setattr(limits, "__file__", str(tmp_path / "limits.py"))
    caching.entry_form.cache_clear()
    assert caching.entry_form() != before
    caching.entry_form.cache_clear()


def test_the_entry_used_least_recently_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRAPH_CACHE_ENTRIES", 2)
    texts = {name: TURTLE + f"# {name}" for name in ("a_ttl", "b_ttl", "c_ttl")}
    paths = write(tmp_path, **texts)
    for path in paths[:2]:
        load_ontology(path, cache=tmp_path)
    for number, path in enumerate(paths[:2]):
        entry = load_ontology(path, cache=tmp_path).quads.parent
        os.utime(entry, (1_000 + number, 1_000 + number))
    assert load_ontology(paths[0], cache=tmp_path).cached  # used: b is the older one now
    load_ontology(paths[2], cache=tmp_path)
    assert sorted(entry.name[0] != "." for entry in (tmp_path / "graphs").iterdir()) == [True, True]
    assert [load_ontology(path, cache=tmp_path).cached for path in (paths[0], paths[2], paths[1])] == [
        True,
        True,
        False,
    ]


def test_what_an_interrupted_process_left_behind_is_removed_in_time(tmp_path: Path, place: Path) -> None:
    [path] = write(tmp_path, zoo_ttl=TURTLE)
    for name, age in ((".new-old", 10_000), (".new-young", 0)):
        left = place / "graphs" / name
        left.mkdir(parents=True)
        (left / "graph.nq").touch()
        when = left.stat().st_mtime - age
        os.utime(left, (when, when))
    load_ontology(path, cache=place)
    assert {entry.name for entry in (place / "graphs").iterdir() if entry.name.startswith(".")} == {".new-young"}


def test_a_cache_that_is_made_while_another_makes_the_same(tmp_path: Path) -> None:
    """The first one stays; the second one finds it."""
    cache = GraphCache(tmp_path)

    def build(quads: Path) -> Schema:
        quads.write_text("")
        if depth:
            depth.pop()
            cache.make("digest", build)
        return Schema(title="inner" if not depth else "outer")

    depth = [1]
    cache.make("digest", build)
    found = cache.find("digest")
    assert found is not None
    assert [entry.name[0] != "." for entry in (tmp_path / "graphs").iterdir()] == [True]


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("RBANK_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "rbank-es"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "rbank-es"
