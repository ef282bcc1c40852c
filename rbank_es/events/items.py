"""The item: one reusable strategy, as extracted, imported or written by hand; and how texts are made fit for one.

An item never changes. Its state (active, superseded, merged, forgotten, retracted), uses and wins live in
projections.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal
from unicodedata import normalize

import msgspec

from rbank_es import limits
from rbank_es.events.text_checks import utf8
from rbank_es.system.text_cuts import cut

Source = Literal["success", "failure", "seed", "contrastive", "pattern", "principle", "episode"]
"""Where an item comes from. `principle` and `episode` serve the judge and are never returned to an agent."""

Polarity = Literal["success", "failure"]
"""Success: a strategy to follow; failure: a guardrail against a mistake. Retrieval, dedup and floors go by it."""

JUDGE_SOURCES: frozenset[str] = frozenset({"principle", "episode"})

Name = Annotated[str, msgspec.Meta(max_length=limits.NAME_CHARS)]
"""An identifier, never free text: it is a fact, and facts outlive erasure."""

_CONTROLS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
"""Characters that steer what shows a text, apart from line feed and tab."""


def one_line(text: str, chars: int) -> str:
    """Return a text on one line, of at most `chars` characters, without controls."""
    # Four times the limit leaves enough after white space is collapsed, and bounds the work.
    text = " ".join(without_controls(text[: 4 * chars]).split())
    return cut(text, chars)


def without_controls(text: str) -> str:
    """Return a text without characters that control a terminal or reverse the text that is shown.

    These are the C0 and C1 controls but line feed and tab, and the embeddings, overrides and isolates of bidirectional
    text. A carriage return becomes a line feed.
    """
    # The quick test first: nearly all texts are printable.
    return text if text.isprintable() else re.sub(_CONTROLS, "", text.replace("\r\n", "\n").replace("\r", "\n"))


def digest_of_words(title: str, content: str) -> str:
    """Return a digest that is the same for words that differ only in white space or the composition of letters.

    12 hex digits of SHA-256. Raises `BadEvent` as `utf8` does.
    """
    plain = [" ".join(normalize("NFC", text).split()) for text in (title, content)]
    return hashlib.sha256(utf8("\n".join(plain), "$")).hexdigest()[:12]


def polarity_of(src: str) -> Polarity:
    """Return the polarity that a source implies: failure for `failure`, else success."""
    return "failure" if src == "failure" else "success"


class ItemHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The facts of an item: they stay when its text is erased."""

    id: Annotated[Name, msgspec.Meta(min_length=1, description="Item id; an imported id is kept.")]
    src: Annotated[Source, msgspec.Meta(description="Where the item comes from.")]
    polarity: Annotated[Polarity, msgspec.Meta(description="A strategy (success) or a guardrail (failure).")]
    role: Annotated[Name | None, msgspec.Meta(description="The role that the item serves, if any.")] = None
    scope: Annotated[Literal["", "general", "exception"], msgspec.Meta(description="How far it holds.")] = ""
    domain: Annotated[Name | None, msgspec.Meta(description="Id of the ontology it is about, if any.")] = None


class ItemText(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="is",
    tag="item",
):
    """The words of an item: one unit of erasure."""

    title: Annotated[str, msgspec.Meta(description="About 10 words.")]
    desc: Annotated[str, msgspec.Meta(description="One sentence.")] = ""
    content: Annotated[str, msgspec.Meta(description="The steps, reasons and insights.")] = ""
    tags: Annotated[tuple[str, ...], msgspec.Meta(description="Free labels.")] = ()


NO_WORDS = ItemText(title="")
"""The words of a candidate that came without any: they were erased in the bank that it came from."""


class Exchange(msgspec.Struct, frozen=True):
    """Words that a text has in the place of others, for people; `before` or `after` is empty where nothing was."""

    before: str
    after: str


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reusable strategy: facts and words together, as people and tools see it."""

    id: Name
    title: str
    desc: str = ""
    content: str = ""
    src: Source = "seed"
    polarity: Polarity = "success"
    tags: tuple[str, ...] = ()
    role: Name | None = None
    scope: Literal["", "general", "exception"] = ""
    domain: Name | None = None

    @staticmethod
    def make_id(title: str, content: str) -> str:
        """Return the first 12 hex digits of SHA-256 over title, newline, content. Raises `BadEvent` as `utf8` does."""
        # From the words alone, because the same lesson drawn twice must be one item.
        return hashlib.sha256(utf8(title, "$.title") + b"\n" + utf8(content, "$.content")).hexdigest()[:12]

    @classmethod
    def make(
        cls,
        title: str,
        content: str,
        src: Source = "seed",
        *,
        desc: str = "",
        polarity: Polarity | None = None,
        tags: tuple[str, ...] = (),
        role: str | None = None,
        scope: Literal["", "general", "exception"] = "",
        domain: str | None = None,
        id: str | None = None,
    ) -> Item:
        """Return an item whose id (unless given) is `make_id`, and whose polarity (unless given) follows from `src`."""
        return cls(
            id=id or cls.make_id(title, content),
            title=title,
            desc=desc,
            content=content,
            src=src,
            polarity=polarity or polarity_of(src),
            tags=tags,
            role=role,
            scope=scope,
            domain=domain,
        )

    @classmethod
    def join(cls, head: ItemHead, text: ItemText | None) -> Item:
        """Return the item of a head and its text; an erased text (None) leaves title, desc, content and tags empty."""
        words = text or ItemText(title="")
        return cls(**msgspec.structs.asdict(head), **msgspec.structs.asdict(words))

    @property
    def head(self) -> ItemHead:
        """The item's facts."""
        return ItemHead(**{name: getattr(self, name) for name in ItemHead.__struct_fields__})

    @property
    def text(self) -> ItemText:
        """The item's words."""
        return ItemText(title=self.title, desc=self.desc, content=self.content, tags=self.tags)
