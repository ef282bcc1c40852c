"""L3, the guide: the summary of a long text about an ontology, made without a model.

The summary is the guide's own: its section `Summary` (or `Overview`, `In short`, `TL;DR`) if it has one, then each
heading with the first sentences under it. Code, comments and front matter are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.context.layer_sections import ContextRequest, Section, pack_sections, read_text, sentences, whole_words
from rbank_es.context.layer_text import LayerText
from rbank_es.events import ArtifactMaterialised
from rbank_es.policies.packed_text import Packed, checked_budget, plain
from rbank_es.system.text_cuts import cut

if TYPE_CHECKING:
    from rbank_es.bank import Bank

GUIDE = "guide"
"""The `kind` of `artifact_materialised` that is a guide."""

_SUMMARY = re.compile(r"^(?:\W*\d[\d.]*\W*)?(?:summary|overview|in short|tl;?dr|at a glance)\W*$", re.IGNORECASE)
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=\s|$)(.*)$")
_CLOSING = re.compile(r"(?:^|\s)#+$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-+)\s*$")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(.*)$")
_TABLE_RULE = re.compile(r"^[\s|:\-]+$")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_EMPHASIS = re.compile(r"\*\*|__")


class StoredGuide(NamedTuple):
    """The text of a guide in a bank, and the id of the event that holds it."""

    id: str
    text: str


class _Part(msgspec.Struct):
    """A heading and the sentences under it."""

    level: int
    title: str
    sentences: list[str] = []


def layer(request: ContextRequest, budget_chars: int) -> LayerText:
    """Pack the guide that was given, else the bank's latest of the ontology: see `Packer`."""
    given, subject = request.guide, request.subject
    if given is not None:
        return LayerText(guide_summary(read_text(given) if isinstance(given, Path) else given, budget_chars))
    found = None
    if request.bank is not None and subject is not None and subject.id:
        found = latest_guide(request.bank, subject.id, request.position)
    packed = guide_summary(found.text if found is not None else "", budget_chars)
    if found is not None and packed.text:
        packed = msgspec.structs.replace(packed, artifacts=(found.id,))
    return LayerText(packed)


def guide_summary(markdown: str, budget_chars: int = limits.CONTEXT_L3_CHARS) -> Packed:
    """Return the summary of a guide in Markdown, on whole sentences. An empty guide gives an empty text.

    Raises `BadInput` for a budget below 0.
    """
    title, parts = _outline(markdown)
    # So that a sentence without a full stop leaves room for another part.
    longest = max(checked_budget(budget_chars) // 2, 1)
    sections = [_section(part, longest) for part in parts if part.sentences]
    heading = "# Guide" + (f": {whole_words(title, limits.CONTEXT_TITLE_CHARS)}" if title else "")
    packed = pack_sections("L3", heading, sections, budget_chars)
    if packed.truncated or not any(len(one) > longest for part in parts for one in part.sentences):
        return packed
    return msgspec.structs.replace(packed, truncated=True, cut="long sentences were cut")


def latest_guide(bank: Bank, ontology: str | None, point: str | int | None = None) -> StoredGuide | None:
    """Return the latest guide of an ontology up to a point, None if there is none. Raises `BadPoint`.

    Guides whose text was erased are skipped.
    """
    found = None
    for event in bank.rare_events("artifact_materialised", bank.resolve(point)):
        if isinstance(event, ArtifactMaterialised) and (event.kind, event.ontology) == (GUIDE, ontology):
            text = bank.text(event.text)
            found = StoredGuide(event.id, text) if text is not None else found
    return found


def _section(part: _Part, longest: int) -> Section:
    shown = [whole_words(one, longest) or cut(one, longest) for one in part.sentences]
    if _SUMMARY.match(part.title):
        return Section("- ", shown, " ", fewest=None, name="the summary")
    title = whole_words(part.title, limits.CONTEXT_TITLE_CHARS)
    return Section(f"- {title}: " if title else "- ", shown, " ", name=title or "the beginning")


def _outline(markdown: str) -> tuple[str, list[_Part]]:
    """Return the guide's title, and its parts in order, a summary first."""
    parts = _parts(markdown)
    title = ""
    if [part.level for part in parts].count(1) == 1:
        [top] = [part for part in parts if part.level == 1]
        title, top.title = top.title, ""
    return title, sorted(parts, key=lambda part: not _SUMMARY.match(part.title))


def _parts(markdown: str) -> list[_Part]:
    parts = [_Part(0, "")]
    for level, text in _blocks(markdown):
        if level:
            parts.append(_Part(level, _words(text)))
        else:
            parts[-1].sentences += sentences(_words(text))
    return parts


def _blocks(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield headings with their level, and paragraphs, list entries and table rows with level 0."""
    paragraph: list[str] = []
    # The empty line at the end closes the last paragraph.
    for line in [*_prose(markdown), ""]:
        heading, underline, bullet = _HEADING.match(line), _UNDERLINE.match(line), _BULLET.match(line)
        if underline and paragraph:
            yield (1 if "=" in underline[1] else 2), " ".join(paragraph)
            paragraph = []
        elif heading or bullet or not line.strip() or line.lstrip().startswith("|"):
            if paragraph:
                yield 0, " ".join(paragraph)
            paragraph = []
            if heading:
                yield len(heading[1]), _CLOSING.sub("", heading[2].strip())
            elif bullet:
                paragraph = [bullet[1]]
            elif line.strip() and not _TABLE_RULE.match(line):
                cells = (cell.strip() for cell in line.strip().strip("|").split("|"))
                yield 0, " · ".join(filter(None, cells))
        elif not _TABLE_RULE.match(line):
            paragraph.append(line.strip().lstrip("> "))


def _prose(markdown: str) -> Iterator[str]:
    """Yield the lines of a Markdown text without front matter, comments and code."""
    lines = _without_comments(markdown).splitlines()
    # Front matter ends with a second ---; a single one is a rule.
    if lines and lines[0].strip() == "---" and "---" in (line.strip() for line in lines[1:]):
        lines = lines[[line.strip() for line in lines].index("---", 1) + 1 :]
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
            # Text before and behind code is not one paragraph.
            yield ""
        else:
            yield line


def _without_comments(markdown: str) -> str:
    # Not by a regular expression, because many unclosed comments would take quadratic time.
    kept, rest = [], markdown
    while True:
        before, opened, after = rest.partition("<!--")
        kept.append(before)
        if not opened:
            return "".join(kept)
        _, closed, rest = after.partition("-->")
        if not closed:
            return "".join([*kept, opened, after])


def _words(text: str) -> str:
    return plain(_EMPHASIS.sub("", _LINK.sub(r"\1", text)))
