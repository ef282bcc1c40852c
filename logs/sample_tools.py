"""What the agent of the sample calls: small tools over a small graph, answering with handles as real ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from rdflib import RDF, Graph, URIRef

NAMESPACES = {
    "lt": "https://lights.example/ns#",
    "l": "https://lights.example/light/",
    "k": "https://lights.example/keeper/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
PREFIXES = "".join(
    f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in NAMESPACES.items() if prefix in ("lt", "rdfs", "xsd")
)
USAGE = "Call sparql_slice(this, offset, limit) for rows."
PREVIEW_CHARS = 48


class Answer(NamedTuple):
    """What a tool gave back: the text that the agent saw, and what stands behind it."""

    shown: str
    payload: str | None = None
    dtype: str | None = None
    alias: str | None = None
    error_code: str | None = None
    error: str | None = None
    truncated: bool = False


class Lights:
    """The graph of one run, with the handles that the run has made so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.handles: list[list[dict[str, str]]] = []

    @classmethod
    def load(cls, path: Path) -> Graph:
        """The graph of a Turtle file."""
        return Graph().parse(path)

    def classes(self) -> Answer:
        """The classes that the schema names, with the number of instances of each."""
        names = sorted(
            self._short(found) for found in self._graph.subjects(RDF.type, URIRef(NAMESPACES["owl"] + "Class"))
        )
        counts = [{"uri": name, "count": self._instances(name)} for name in names]
        return Answer(_json({"class_count": len(counts), "top_classes": counts}))

    def _instances(self, name: str) -> int:
        return sum(1 for _ in self._graph.subjects(RDF.type, self._long(name)))

    def props(self, cls: str) -> Answer:
        """The properties that instances of a class have, with the comments of the schema."""
        instances = set(self._graph.subjects(RDF.type, self._long(cls)))
        used = {found for instance in instances for found in self._graph.predicates(instance)}
        comment = URIRef(NAMESPACES["rdfs"] + "comment")
        rows = {self._short(found): str(self._graph.value(found, comment) or "") for found in used}
        return Answer(_json({"class": cls, "properties": dict(sorted(rows.items()))}))

    def describe(self, thing: str) -> Answer:
        """Everything that is said about one thing."""
        rows = sorted((self._short(p), self._short(o)) for p, o in self._graph.predicate_objects(self._long(thing)))
        return Answer(_json({"uri": thing, "triples": rows}))

    def query(self, text: str) -> Answer:
        """Run a query; the rows stay behind a handle."""
        try:
            result = self._graph.query(PREFIXES + text)
            names = result.vars or []
            rows = [{str(name): self._short(found[name]) for name in names} for found in result.bindings]
        except Exception:
            message = "the query names a prefix that is not declared"
            shown = _json({"ok": False, "error": {"code": "bad_query", "message": message, "hint": "use lt: or rdfs:"}})
            return Answer(shown, error_code="bad_query", error=message)
        self.handles.append(rows)
        alias, payload = f"results_{len(self.handles) - 1}", _json(rows)
        handle = {"key": alias, "dtype": "results", "size": len(payload), "rows": len(rows)}
        return Answer(_json(handle | {"preview": payload[:PREVIEW_CHARS], "usage": USAGE}), payload, "results", alias)

    def slice(self, offset: int, limit: int) -> Answer:
        """Rows of the handle made last."""
        rows = self.handles[-1]
        some = rows[offset : offset + limit]
        more = offset + len(some) < len(rows)
        shown = {"rows": some, "returned": len(some), "total": len(rows), "has_more": more}
        return Answer(_json(shown), truncated=more)

    def _long(self, name: str) -> URIRef:
        prefix, _, rest = name.partition(":")
        return URIRef(NAMESPACES[prefix] + rest)

    def _short(self, node: Any) -> str:
        text = str(node)
        if isinstance(node, URIRef):
            for prefix, iri in NAMESPACES.items():
                if text.startswith(iri):
                    return f"{prefix}:{text.removeprefix(iri)}"
        return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
