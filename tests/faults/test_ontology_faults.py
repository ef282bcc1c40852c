"""Bad files and bad disks: refused with what is wrong, where, and what to do; nothing waits, nothing is fetched."""

from __future__ import annotations

import errno
import http.server
import logging
import multiprocessing
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyoxigraph
import pytest

from rbank_es import limits
from rbank_es.errors import BadFiles, BadOntology, CannotWrite, Notice
from rbank_es.ontology.loader import GraphCache, load_ontology
from rbank_es.ontology.schema_model import Schema
from rbank_es.ontology.void import load_void
from rbank_es.system.files import cache_or_temporary, process_folder
from tests.effort import one_in

ZOO = "http://example.org/zoo#"
HEAD = f"@prefix : <{ZOO}> .\n"
RDF_XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:z="http://example.org/zoo#">'
GIANT_BYTES = 200 * limits.MIB


def refusal(path: Path) -> BadOntology:
    """How a file is refused, by both who read files."""
    with pytest.raises(BadOntology) as caught:
        load_ontology(path, cache=path.parent / "cache")
    with pytest.raises(BadOntology) as again:
        load_void(path)
    assert str(again.value) == str(caught.value)
    assert not list((path.parent / "cache").rglob("*.nq"))
    return caught.value


def test_what_a_parser_says_of_a_file_is_shown_up_to_300_characters(tmp_path: Path) -> None:
    """It quotes the file, which may be hostile: a name of 200 characters is shown whole, one of 10,000 is not."""

    def reason(prefix: str) -> str:
        path = tmp_path / "undeclared.ttl"
        path.write_text(f"{prefix}:tom a {prefix}:Cat .")
        return refusal(path).reason

    assert "z" * 200 in reason("z" * 200)
    assert len(reason("z" * 10_000)) < 400


@pytest.mark.parametrize(
    ("name", "text", "said", "line"),
    [
        ("cut.ttl", HEAD + ":tom a :Cat ;\n :name ", "no valid Turtle", 3),
        ("cut.ttl", HEAD + ':tom :name "Tom', "no valid Turtle", 2),
        ("cut.ttl", HEAD + ":tom a :Cat", "no valid Turtle", 2),
        ("cut.nt", f"<{ZOO}tom> <{ZOO}is> <{ZOO}Cat> .\n<{ZOO}tom> <{ZOO}is> <{ZOO}C", "no valid N-Triples", 2),
        ("cut.nq", f"<{ZOO}a> <{ZOO}b> <{ZOO}c> <{ZOO}d> .\n<{ZOO}a> <{ZOO}b>", "no valid N-Quads", 2),
        ("cut.trig", HEAD + ":g {\n :tom a :Cat .\n", "no valid TriG", 4),
        ("cut.rdf", RDF_XML + '\n<z:Cat rdf:about="http://example.org/tom">\n', "no valid RDF/XML", 3),
        ("cut.jsonld", '{"@id": "http://example.org/tom",\n"@type": ["http://example.org/Cat"', "no valid JSON-LD", 2),
        ("undeclared.ttl", "\n\nzoo:tom a zoo:Cat .", "zoo: has not been declared", 3),
        ("bad.ttl", HEAD + "\n<http://example.org/a|b> a :Cat .", "IRI code point '|'", 3),
        ("bad.nt", f"<{ZOO}a b> <{ZOO}is> <{ZOO}Cat> .", "IRI code point ' '", 1),
        ("latin.ttl", HEAD.encode() + b':tom :name "Jos\xe9" .', "UTF-8", 2),
    ],
)
def test_broken_files_are_told_by_what_is_wrong_and_where(
    tmp_path: Path, name: str, text: str | bytes, said: str, line: int
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    error = refusal(tmp_path / name)
    assert said in error.reason
    assert error.line == line
    assert str(error).startswith(f"{tmp_path / name}, line {line}: ")
    assert str(error).endswith(f"; {error.hint}")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (HEAD + "<http://example.org/a|b> a :Cat .", "percent-encode"),
        (HEAD + ":tom a", "get it again if it was cut"),
        (HEAD.encode() + b':tom :name "Jos\xe9" .', "UTF-8"),
    ],
)
def test_the_hint_fits_the_fault(tmp_path: Path, text: str | bytes, hint: str) -> None:
    (tmp_path / "zoo.ttl").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert hint in refusal(tmp_path / "zoo.ttl").hint


@pytest.mark.parametrize(
    "text", ["# nothing but a comment\n", HEAD, "{}", "[]", '{"@id": "zoo"}', RDF_XML + "</rdf:RDF>"]
)
def test_files_without_a_triple(tmp_path: Path, text: str) -> None:
    (tmp_path / "zoo").write_text(text)
    assert refusal(tmp_path / "zoo").reason == "holds no triple"


def test_a_broken_file_among_good_ones_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.ttl", "b.ttl", "c.ttl"):
        (data / name).write_text(HEAD + f":{name[0]} a :Cat" + (" ." if name != "b.ttl" else ""))
    with pytest.raises(BadFiles) as caught:
        load_ontology(data, cache=tmp_path / "cache")
    assert "1 of 3 files" in str(caught.value) and f"{data / 'b.ttl'}, line 2" in str(caught.value)


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """A server on this machine, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/ld+json")
            self.end_headers()
            self.wfile.write(b'{"@context": {"name": "http://example.org/zoo#name"}}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize("context", ['"{url}/c"', '[{{"z": "http://z/"}}, "{url}/c"]', '{{"@import": "{url}/c"}}'])
def test_a_context_that_lies_elsewhere_is_not_fetched(
    tmp_path: Path, requests: tuple[str, list[str]], context: str
) -> None:
    url, asked = requests
    text = f'{{"@context": {context.format(url=url)}, "@id": "http://example.org/tom", "name": "Tom"}}'
    (tmp_path / "zoo.jsonld").write_text(text)
    error = refusal(tmp_path / "zoo.jsonld")
    assert asked == []
    assert "elsewhere" in error.reason or "no valid JSON-LD" in error.reason
    if "elsewhere" in error.reason:
        assert "put the context into the file" in error.hint


def test_entities_and_imports_that_lie_elsewhere_are_not_fetched(
    tmp_path: Path, requests: tuple[str, list[str]]
) -> None:
    url, asked = requests
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    for number, place in enumerate((f"{url}/entity", secret.as_uri())):
        entity = f"<!DOCTYPE rdf:RDF [ <!ENTITY e SYSTEM '{place}'> ]>"
        body = f'{RDF_XML}<z:Cat rdf:about="{url}/tom"><z:name>&e;</z:name></z:Cat></rdf:RDF>'
        (tmp_path / f"{number}.rdf").write_text(entity + body)
        try:
            quads = load_ontology(tmp_path / f"{number}.rdf", cache=tmp_path / "cache").quads.read_text()
        except BadOntology:
            continue
        assert "SECRET" not in quads
    (tmp_path / "secret.ttl").write_text('<http://s/> <http://s/p> "SECRET" .')
    imports = f"<{url}/other>, <{(tmp_path / 'secret.ttl').as_uri()}>"
    (tmp_path / "zoo.ttl").write_text(f"<{url}/onto> <http://www.w3.org/2002/07/owl#imports> {imports} .")
    assert "SECRET" not in load_ontology(tmp_path / "zoo.ttl", cache=tmp_path / "cache").quads.read_text()
    assert asked == []


EXPLODING = {
    "a thousand laughs": (5, 10, "x" * 100),
    "a billion laughs": (11, 10, "x" * 100),
    "many of one": (1, 1, "x" * 100_000),
    "deep": (30, 1, "x"),
}


@pytest.mark.parametrize("quote", ["'", pytest.param('"', marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", one_in(4, EXPLODING))
def test_entities_that_explode_end(tmp_path: Path, case: str, quote: str) -> None:
    depth, width, text = EXPLODING[case]
    entities = f"<!ENTITY e0 {quote}{text}{quote}>"
    for number in range(1, depth + 1):
        entities += f"<!ENTITY e{number} {quote}{f'&e{number - 1};' * width}{quote}>"
    uses = f"&e{depth};" * (10_000 if case == "many of one" else 1)
    body = f"{RDF_XML}<z:Cat><z:a>{uses}</z:a></z:Cat></rdf:RDF>"
    (tmp_path / "zoo.rdf").write_text(f"<!DOCTYPE rdf:RDF [ {entities} ]>{body}")
    assert "no valid RDF/XML" in refusal(tmp_path / "zoo.rdf").reason


@pytest.mark.slow
def test_a_text_of_very_many_entities_is_not_given_to_rdflib(tmp_path: Path) -> None:
    body = f"{RDF_XML}<z:Cat><z:a>{'&e;' * 1_000_000}</z:a></z:Cat></rdf:RDF>"
    (tmp_path / "zoo.rdf").write_text(f"<!DOCTYPE rdf:RDF [ <!ENTITY e 'x'> ]>{body}")
    assert "too many pieces" in refusal(tmp_path / "zoo.rdf").reason


def test_entities_that_circle_end(tmp_path: Path) -> None:
    entities = '<!ENTITY a "&b;"><!ENTITY b "&a;">'
    for name, use in (("used.rdf", "&a;"), ("unused.rdf", "&lt;")):
        body = f"<!DOCTYPE rdf:RDF [ {entities} ]>{RDF_XML}<z:Cat><z:a>{use}</z:a></z:Cat></rdf:RDF>"
        (tmp_path / name).write_text(body)
        assert "no valid RDF/XML" in refusal(tmp_path / name).reason


def nested(opening: str, middle: str, closing: str, depth: int) -> str:
    return opening * depth + middle + closing * depth


NESTED = {
    "objects.jsonld": ('{"http://e/p":', "1", "}", '{"@id": "http://e/s", "http://e/p": %s}'),
    "lists.jsonld": ('{"@list":[', "1", "]}", '{"@id": "http://e/s", "http://e/p": %s}'),
    "elements.rdf": ("<z:A><z:p>", "", "</z:p></z:A>", f"{RDF_XML}%s</rdf:RDF>"),
    "terms.ttl": ("<<( <http://e/s> <http://e/p> ", "1", " )>>", "<http://e/s> <http://e/p> %s ."),
    "terms.nt": ("<<( <http://e/s> <http://e/p> ", "<http://e/o>", " )>>", "<http://e/s> <http://e/p> %s ."),
}
"""Readers were seen to die of these, at depths between 1,000 and 100,000."""


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("depth", [limits.ONTOLOGY_DEPTH + 1, 100_000])
def test_what_is_nested_too_deep_is_refused(tmp_path: Path, name: str, depth: int) -> None:
    opening, middle, closing, whole = NESTED[name]
    (tmp_path / name).write_text("\n" * (name == "terms.ttl") + whole % nested(opening, middle, closing, depth))
    error = refusal(tmp_path / name)
    assert f"nested deeper than {limits.ONTOLOGY_DEPTH} levels" in error.reason
    assert error.line == (2 if name == "terms.ttl" else 1)


@pytest.mark.parametrize("name", NESTED)
def test_what_is_nested_less_deep_is_read(tmp_path: Path, name: str) -> None:
    opening, middle, closing, whole = NESTED[name]
    (tmp_path / name).write_text(whole % nested(opening, middle, closing, limits.ONTOLOGY_DEPTH // 2 - 2))
    assert load_ontology(tmp_path / name, cache=tmp_path / "cache").schema.triples >= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opening", "middle", "closing"),
    [("( ", "1", " )"), ("[ <http://e/p> ", "1", " ]"), ("<< <http://e/s> a ", "1", ">>")],
)
def test_turtle_may_be_nested_as_deep_as_it_likes(tmp_path: Path, opening: str, middle: str, closing: str) -> None:
    depth = 5_000
    text = f"<http://e/s> <http://e/p> {nested(opening, middle, closing, depth)} ."
    (tmp_path / "zoo.ttl").write_text(text)
    assert load_ontology(tmp_path / "zoo.ttl", cache=tmp_path / "cache").schema.triples >= depth


def test_brackets_in_texts_are_no_nesting(tmp_path: Path) -> None:
    (tmp_path / "zoo.jsonld").write_text('{"@id": "http://e/s", "http://e/p": "' + '\\"[{' * 1_000 + '"}')
    assert load_ontology(tmp_path / "zoo.jsonld", cache=tmp_path / "cache").schema.triples == 1


def test_reading_tolerantly_says_nothing_and_leaves_the_log_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("rdflib")
    level = logger.level
    text = HEAD + ':tom :born "no date"^^<http://www.w3.org/2001/XMLSchema#date> ; :home <a|b> .'
    (tmp_path / "zoo.ttl").write_text(text)
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        refusal(tmp_path / "zoo.ttl")
    assert (caught, caplog.records, logger.level) == ([], [], level)
    assert capfd.readouterr() == ("", "")


def test_a_large_file_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ONTOLOGY_TOLERANT_BYTES", 100)
    single = "<!DOCTYPE rdf:RDF [ <!ENTITY z 'http://example.org/zoo#'> ]>" + RDF_XML
    (tmp_path / "zoo.owl").write_text(single + '<z:Cat rdf:about="&z;tom"/></rdf:RDF>')
    assert "no valid RDF/XML" in refusal(tmp_path / "zoo.owl").reason


LITERALS = {
    "giant.ttl": (f'<{ZOO}tom> <{ZOO}name> "', '" .\n'),
    "giant.nt": (f'<{ZOO}tom> <{ZOO}name> "', '" .\n'),
    "giant.rdf": (f'{RDF_XML}<z:Cat rdf:about="{ZOO}tom"><z:name>', "</z:name></z:Cat></rdf:RDF>"),
    "giant.jsonld": (f'{{"@id": "{ZOO}tom", "{ZOO}name": "', '"}'),
}


MORE_LITERALS = [name for name in LITERALS if name != "giant.ttl"]


def spill(path: Path, size: int) -> None:
    """Write a file with one literal of that many bytes."""
    head, tail = LITERALS[path.name]
    with path.open("w") as file:
        file.write(head)
        for _ in range(size // limits.MIB):
            file.write("x" * limits.MIB)
        file.write(tail)


LOAD = """
import resource, sys
from pathlib import Path
from rbank_es.errors import BadOntology
from rbank_es.ontology.loader import load_ontology
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    load_ontology(sys.argv[1], cache=Path(sys.argv[2]))
except BadOntology as error:
    print(error.reason)
"""


@pytest.mark.parametrize("name", ["giant.ttl", *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_LITERALS)])
def test_a_literal_of_200_mb_is_refused_within_bounded_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    spill(path, GIANT_BYTES)
    command = [sys.executable, "-c", LOAD, str(path), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout == "one of its literals or IRIs is too long\n", done.stderr
    assert not list((tmp_path / "cache").rglob("*.nq"))


def test_the_longest_term_can_be_loaded_and_queried(tmp_path: Path) -> None:
    """Characters that need the longest escapes: the engine's parser reads 16 MiB at once."""
    longest = limits.ONTOLOGY_TERM_CHARS
    (tmp_path / "zoo.nt").write_text(f'<{ZOO}tom> <{ZOO}name> "' + "\x7f" * longest + '" .\n')
    (tmp_path / "over.nt").write_text(f'<{ZOO}tom> <{ZOO}name> "' + "x" * (longest + 1) + '" .\n')
    (tmp_path / "iri.nt").write_text(f"<{ZOO}{'x' * longest}> <{ZOO}name> <{ZOO}a> .\n")
    loaded = load_ontology(tmp_path / "zoo.nt", cache=tmp_path / "cache")
    store = pyoxigraph.Store()
    store.bulk_load(path=loaded.quads, format=pyoxigraph.RdfFormat.N_QUADS)
    assert len(store) == 1
    for name in ("over.nt", "iri.nt"):
        with pytest.raises(BadOntology, match="too long"):
            load_ontology(tmp_path / name, cache=tmp_path / "cache")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zoo.ttl"
    path.write_text(HEAD + ":tom a :Cat .")
    parse = pyoxigraph.parse

    def change(**given: object) -> object:
        path.write_text(HEAD + ":eve a :Cat .")
        return parse(**given)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(pyoxigraph, "parse", change)
    with pytest.raises(BadOntology, match="changed while it was read"):
        load_ontology(path, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.nq"))


def test_a_file_that_goes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "zoo.ttl"
    path.write_text(HEAD + ":tom a :Cat .")
    parse = pyoxigraph.parse

    def remove(**given: object) -> object:
        path.unlink()
        return parse(**given)  # type: ignore[arg-type, call-overload]

    monkeypatch.setattr(pyoxigraph, "parse", remove)
    with pytest.raises(BadOntology, match="can't be read"):
        load_ontology(path, cache=tmp_path / "cache")


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    (tmp_path / "zoo.ttl").write_text(HEAD + ":tom a :Cat .")
    return tmp_path / "zoo.ttl"


def test_a_cache_that_is_a_file_gives_way_to_a_directory_of_the_process(
    tmp_path: Path, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    loaded = load_ontology(zoo, cache=tmp_path / "taken")
    assert loaded.quads.is_relative_to(process_folder())
    assert loaded.quads.read_text()
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path / "taken" / "below"))
    with pytest.warns(Notice):
        assert cache_or_temporary() == process_folder()


def test_a_cache_without_write_permission_gives_way_too(
    tmp_path: Path, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RBANK_CACHE", str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.warns(Notice):
        assert cache_or_temporary() == process_folder()


def test_a_full_disk_gives_way_and_leaves_nothing_half(
    tmp_path: Path, zoo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize = pyoxigraph.serialize

    def fill(quads: object, output: Path, format: object) -> None:
        if output.is_relative_to(tmp_path):
            output.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")
        serialize(quads, output, format)  # type: ignore[call-overload]

    monkeypatch.setattr(pyoxigraph, "serialize", fill)
    assert load_ontology(zoo, cache=tmp_path / "cache").quads.is_relative_to(process_folder())
    assert list((tmp_path / "cache" / "graphs").iterdir()) == []
    with pytest.raises(CannotWrite):
        GraphCache(tmp_path / "cache").make("x", lambda quads: fill([], quads, None))  # type: ignore[arg-type, return-value]


def test_the_directory_of_the_process_goes_with_it(zoo: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    code = (
        "import sys; from pathlib import Path; from rbank_es.ontology.loader import load_ontology; "
        f"print(load_ontology({str(zoo)!r}, cache=Path({str(tmp_path / 'taken')!r})).quads)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not Path(done.stdout.strip()).parents[2].exists()


def load_often(zoo: str, cache: str, times: int, readable: bool) -> None:
    for _ in range(times):
        loaded = load_ontology(zoo, cache=Path(cache))
        assert loaded.schema.triples == 1
        assert not readable or loaded.quads.read_text().count("\n") == 1


def at_once(zoo: Path, cache: Path, *, readable: bool) -> list[BaseProcess]:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=load_often, args=(str(zoo), str(cache), 100, readable)) for _ in range(3)]
    for worker in workers:
        worker.start()
    return list(workers)


@pytest.mark.slow
def test_processes_that_load_at_once_share_one_entry(tmp_path: Path, zoo: Path) -> None:
    workers = at_once(zoo, tmp_path / "cache", readable=True)
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 1


@pytest.mark.parametrize("times", [3, 4])
def test_an_entry_is_put_in_place_again_three_times_where_others_put_damaged_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Once more, and it is said that the cache can't be written, instead of trying for ever."""
    rename, left = Path.rename, times

    def raced(made: Path, target: Path) -> Path:
        nonlocal left
        if made.name.startswith(".new-") and left:
            left -= 1
            target.mkdir(exist_ok=True)
            (target / "schema").write_bytes(b"damaged")
        return rename(made, target)

    def build(quads: Path) -> Schema:
        quads.write_text("")
        return Schema()

    monkeypatch.setattr(Path, "rename", raced)
    cache = GraphCache(tmp_path)
    if times == 3:
        cache.make("digest", build)
        assert cache.find("digest") is not None
    else:
        with pytest.raises(CannotWrite):
            cache.make("digest", build)
    assert left == 0


@pytest.mark.slow
def test_an_entry_may_be_damaged_again_and_again_while_processes_load_it(tmp_path: Path, zoo: Path) -> None:
    workers = at_once(zoo, tmp_path / "cache", readable=False)
    while alive := [worker for worker in workers if worker.is_alive()]:
        for file in (tmp_path / "cache").glob("graphs/[!.]*/schema"):
            file.unlink(missing_ok=True)
        # A pause, or it damages an entry as often as one is put in place, which nobody tries for ever.
        alive[0].join(0.02)
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert load_ontology(zoo, cache=tmp_path / "cache").schema.triples == 1
