"""Terms as people and agents write them in prose or a query: IRIs, prefixed names, and bare names.

A bare name has neither prefix nor IRI, as in "the property hasColour". Most words of a text are no names, so a name
counts only where its form or its place says so: a compound (`hasColour`, `has_colour`) anywhere as a whole word; a
plain word or a label in quotes, or beside a word such as "property" or "class". Variables, calls and keys of a program
are no names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from unicodedata import category

from rbank_es.ontology.prefixes import local_name
from rbank_es.ontology.schema_model import ClassInfo, PropertyInfo, Schema
from rbank_es.text.spelled_words import plain_name

_START = r"(?:https?://|urn:[A-Za-z0-9][A-Za-z0-9-]+:)"
# A comma or semicolon may be part of an IRI; it ends one only if another IRI follows at once.
_IRI = re.compile(rf"{_START}(?:(?![,;]{_START})[^\s<>\"{{}}|\\^`\[\]])+")
_IN_PROSE = re.compile(r"(?<![\w:/.#@-])([A-Za-z][\w-]*):(\w[\w.-]*)")
# In a path of SPARQL, names stand behind `/` and `^`.
_IN_QUERY = re.compile(r"(?<![\w:.#@-])([A-Za-z][\w-]*):(\w[\w.-]*)")
_PREFIX = re.compile(r"\bPREFIX\s+([A-Za-z][\w.-]*):\s*<([^<>\s]+)>", re.IGNORECASE)
_ENDS = frozenset({"Po", "Pe", "Pf", "Pi", "Ps"})
"""Unicode categories that end an IRI in a sentence, beyond ASCII. Of dashes, only the em dash does."""


def written_terms(text: str, prefixes: Mapping[str, str], *, with_queries: bool = False) -> dict[str, str]:
    """Return the IRIs in a text, written in full or with one of the prefixes, each with the text that names it.

    A namespace of a prefix doesn't count as a term. `with_queries`: the text may hold SPARQL, whose own declarations
    of prefixes count before the given ones.
    """
    known = {**prefixes, **dict(_PREFIX.findall(text))} if with_queries else prefixes
    namespaces = {namespace.rstrip("#/") for namespace in known.values()}
    found = {iri: iri for iri in map(_trimmed, _IRI.findall(text)) if iri.rstrip("#/") not in namespaces}
    for match in (_IN_QUERY if with_queries else _IN_PROSE).finditer(_IRI.sub(" ", text)):
        prefix, local = match.groups()
        if prefix in known:
            written = f"{prefix}:{local.rstrip('.-')}"
            found.setdefault(known[prefix] + local.rstrip(".-"), written)
    return found


def without_terms(text: str) -> str:
    """Return a text with a blank in the place of each IRI and each name with a prefix, known or not."""
    return _IN_QUERY.sub(" ", _IRI.sub(" ", text))


def _trimmed(iri: str) -> str:
    """Return an IRI without the punctuation of the sentence around it."""
    ends = (at for at, char in enumerate(iri) if char == "\u2014" or (not char.isascii() and category(char) in _ENDS))
    bare = iri[: next(ends, None)].rstrip(".,;:!?'*_")
    return bare.rstrip(")") if bare.count(")") > bare.count("(") else bare


_NAME = r"[^\W\d]\w*(?:-\w+)*"
_WORD = re.compile(_NAME)
_COMPOUND = re.compile(r"[a-z0-9][A-Z]|_|\d")
# Not a variable, a key, an attribute or part of a path before it, nor a call behind it.
_ALONE = re.compile(rf"(?<![\w:/#@.?$\\-]){_NAME}(?![\w(]|[-.]\w)")
_OPENING, _CLOSING = "`'\"\u201c\u2018\u00ab", "`'\"\u201d\u2019\u00bb"
_QUOTED = re.compile(rf"(?<![\w\[(])[{_OPENING}]([^{_OPENING}{_CLOSING}\n]+)[{_CLOSING}](?!\w)")
_FORM = re.compile(r"\b(?:SELECT|ASK|CONSTRUCT|DESCRIBE)\b")
_KINDS = {"class": (True, False), "classes": (True, True)}
_KINDS |= {kind: (False, False) for kind in ("attribute", "predicate", "property", "relation")}
_KINDS |= {kind: (False, True) for kind in ("attributes", "predicates", "properties", "relations")}
"""Words for a kind of term: whether that is a class, and whether the word is a plural."""
_PHRASE_WORDS = 6
"""Words of the longest name that is looked for beside a word for its kind."""
_COMMON = frozenset(
    ["any", "as", "by", "class", "count", "definition", "description", "domain", "for", "from", "has", "hierarchy"]
    + ["id", "in", "iri", "label", "name", "names", "of", "on", "only", "or", "path", "property", "range", "relation"]
    + ["set", "that", "the", "to", "type", "uri", "value", "values", "where", "which", "with"]
)
"""Words beside "property" or "class" in any text ("property path", "class name"): names only where they are quoted."""
_FOLLOWING = frozenset(["and", "as", "by", "for", "from", "has", "holds", "in", "is", "not", "of", "or", "to", "with"])
"""Words that follow a name, and no verb: "the property covers of a light"."""


class BareNames:
    """The names by which a text may mean a term without its prefix, each with the IRI of that term."""

    def __init__(self, names: Mapping[str, str], labels: Mapping[str, str], classes: Collection[str]) -> None:
        """Take IRIs by local name, IRIs by the words of a label in lower case, joined by blanks, and the classes."""
        self._names, self._labels, self._classes = names, labels, classes

    @classmethod
    def of_changes(cls, old: Schema, new: Schema) -> BareNames:
        """Return the names of the terms of an old schema that name nothing else in it, and no other term in the new.

        A term that only moved to another namespace is still right by its bare name.
        """
        before, after = _terms(old), _terms(new)
        names = _alone(*([(local_name(term.iri), term.iri) for term in terms] for terms in (before, after)))
        labels = _alone(*([(plain_name(term.label), term.iri) for term in terms] for terms in (before, after)))
        return cls(names, labels, {term.iri for term in old.classes})

    def in_text(self, text: str) -> dict[str, str]:
        """Return the IRIs of the terms that a text names so, each as it is written there."""
        prose = without_terms(_without_query(text))
        found: dict[str, str] = {}
        for written in _ALONE.findall(prose):
            if _COMPOUND.search(written) and written in self._names:
                found.setdefault(self._names[written], written)
        for written in map(str.strip, _QUOTED.findall(prose)):
            if iri := self._meant(written):
                found.setdefault(iri, written)
        for is_class, phrases in _beside_kinds(prose):
            meant = ((self._meant(each), each) for each in phrases)
            fitting = ((iri, each) for iri, each in meant if iri and (iri in self._classes) is is_class)
            found = dict(islice(fitting, 1)) | found
        return found

    def _meant(self, written: str) -> str | None:
        return self._names.get(written) or self._labels.get(plain_name(written))


def _terms(schema: Schema) -> tuple[ClassInfo | PropertyInfo, ...]:
    return (*schema.classes, *schema.properties)


def _without_query(text: str) -> str:
    """Return a text without its queries, and what stands between two: there, a word is a variable or a literal."""
    form, end = _FORM.search(text), text.rfind("}")
    return text if form is None or end < form.start() else f"{text[: form.start()]} {text[end + 1 :]}"


def _alone(before: Iterable[tuple[str, str]], after: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the IRIs by name, of names that one IRI has before, and after it no other one."""
    olds, news = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for found, pairs in ((olds, before), (news, after)):
        for name, iri in pairs:
            found[name].add(iri)
    return {name: next(iter(iris)) for name, iris in olds.items() if name and len(iris) == 1 and news[name] <= iris}


def _beside_kinds(prose: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield for each word for a kind of term whether it is that of a class, and the phrases beside it that may be a
    name: of "the class Light Vessel" first the longest, because Light may be a class too.

    A plain word may be a verb: "the property covers all", "properties cover all", "it lists properties".
    """
    for words in _sentences(prose):
        for at, word in enumerate(words):
            kind = word.lower()
            if kind not in _KINDS:
                continue
            is_class, plural = _KINDS[kind]
            before, behind = words[max(0, at - _PHRASE_WORDS) : at], words[at + 1 : at + 2 + _PHRASE_WORDS]
            behind = behind[1:] if behind and behind[0] in ("called", "named") else behind
            phrases = [" ".join(behind[:length]) for length in range(len(behind), 1, -1)]
            if behind and (_is_capital(behind[0]) or not (plural or behind[0][-1] == "s") or _ends(behind)):
                phrases.append(behind[0])
            phrases += [" ".join(before[start:]) for start in range(len(before) - 1)]
            if before and (_is_capital(before[-1]) or not plural):
                phrases.append(before[-1])
            yield is_class, [each for each in phrases if each not in _COMMON]


def _ends(words: list[str]) -> bool:
    return len(words) == 1 or words[1] in _FOLLOWING


def _is_capital(word: str) -> bool:
    return word != word.lower()


def _sentences(prose: str) -> Iterator[list[str]]:
    """Yield the words of a text, in lists of those between which there is nothing but space."""
    words, end = list[str](), 0
    for match in _WORD.finditer(prose):
        if words and not prose[end : match.start()].isspace():
            yield words
            words = []
        words.append(match[0])
        end = match.end()
    yield words
