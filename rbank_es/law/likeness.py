"""Likeness of two items: whether they state the same, are near, or neither. One rule for consolidation, rejections,
support and links.

    the same   nothing but what `statement_reader` drops is different, and the order of sentences unless it is a fact:
               the contents have the same facts, each sentence of one stands unbroken in the other, and each word that
               one title has more stands in the content and negates nothing. Without content, titles are contents. A
               text without facts states the same as its own characters only.
    near       the contents share 3/5 of the distinct facts of the shorter, or 2/5 under titles of the same facts. The
               words of a title count only where the content has no two facts.
    cleared    what is near to rejected words says what a corrected item says in their place, and denies no more

Synonyms, remarks and moved words make other statements: they are near at most.

Read models hold the facts of texts: whoever changes which facts a text has raises the version of
`rbank_es.projections.statement_tables.LIKENESS_RULE`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import chain, islice

from rbank_es.events.items import Exchange, Item
from rbank_es.law.statement_reader import (
    SILENT,
    UNSPACED,
    Fact,
    Sentence,
    Statement,
    kept,
    parse_statement,
    read_statement,
    stem,
)
from rbank_es.policies.words import WORD_SETS_KEPT

_NEGATIONS = "not no never none nothing neither nor without avoid except unless"
NEGATING = frozenset(map(stem, _NEGATIONS.split()))
"""Tokens of the words that turn a sentence into its opposite."""

_SET_APART = "instead rather than unlike but though although wrong false incorrect no longer"
_TURNING = NEGATING | frozenset(map(stem, _SET_APART.split()))
"""Tokens of the words that may deny or set aside what a sentence names: in ft, not in metres."""

LINK_MIN = (3, 5)
"""The least Jaccard similarity of the tokens of two contents at which items are linked. Those that state the same have
1."""

NEAR_MIN = (3, 5)
"""The least share of the distinct facts of the shorter content. By containment, because of the first 60 % of a text a
Jaccard similarity of 3/5 finds half. Of 7,021 pairs of different real lessons, 4 are near by it."""

TITLED_MIN = (2, 5)
"""The same share under titles of the same facts. Of 4,000 rewordings of 39 real lessons by synonyms, remarks and gaps,
7 have less than 3/5, and none has less than this."""

_FACTS_ALONE = 2
"""Facts of a content that tell what it is about: with fewer, those of the title are added."""

_STEPS = 4_000_000
"""Comparisons of tokens in search of sentences within others, some 0.5 s. Contents of 2,000 characters take a tenth."""

_SHOWN_TOKENS = 400
"""Tokens of a text that are compared to show a difference to people: difflib takes cubic time at worst."""

_UNSPACED = re.compile(f"[{UNSPACED}]")
_JOINED = re.compile(r"[_:./#?&=-]+(?=[^\W\d])")


def content_of(item: Item) -> str:
    """Return the text that is compared: the content, or the title where there is none."""
    return item.content or item.title


def parse_tokens(text: str) -> frozenset[str]:
    """Return the distinct tokens of a text, as `token_set`, and keep nothing of it: for texts that are read once."""
    return frozenset({fact.stem for sentence in parse_statement(text).sentences for fact in sentence})


token_set = kept(WORD_SETS_KEPT)(parse_tokens)
"""Returns the distinct tokens of a text: equal for texts that state the same."""


# ---------------------------------------------------------------- the same


def statement_hash(item: Item) -> int:
    """Return a number of 64 bits that is equal for items that state the same, and seldom for others.

    Unsalted, so it confirms a guess of the text: keep it only where the text itself is kept, and no longer.
    """
    text = content_of(item)
    tokens = sorted(token.stem for token in read_statement(text).tokens())
    # A text without tokens repeats its own characters only. No token has a line break.
    read = "\n".join(tokens) if tokens else f"\n{text}"
    return int.from_bytes(blake2b(read.encode(errors="surrogatepass"), digest_size=8).digest(), signed=True)


def is_same(new: Item, old: Item) -> bool:
    """Return whether two items state the same."""
    if not new.content or not old.content:
        return new.content == old.content and is_same_text(new.title, old.title)
    return is_same_text(new.content, old.content) and _titles_agree(new, old)


def _titles_agree(new: Item, old: Item) -> bool:
    if new.title == old.title:
        return True
    one, two = (Counter(token.stem for token in read_statement(item.title).tokens()) for item in (new, old))
    apart = {*(one - two), *(two - one)}
    return not apart & NEGATING and apart <= token_set(new.content)


def is_same_text(new: str, old: str) -> bool:
    """Return whether two texts state the same."""
    if new == old:
        return True
    one, two = read_statement(new), read_statement(old)
    # What has no tokens repeats its own characters only.
    if not one.sentences or not _equal_counts(one, two):
        return False
    # In a text of capitals, the case of names can't be told.
    first, second = (_compared(each, cased=not (one.capitals or two.capitals)) for each in (one, two))
    if one.ordered or two.ordered:
        return [*chain.from_iterable(first)] == [*chain.from_iterable(second)]
    if Counter(first) == Counter(second):
        return True
    return _stands_unbroken(first, second) or _stands_unbroken(second, first)


def _equal_counts(one: Statement, two: Statement) -> bool:
    return Counter(token.stem for token in one.tokens()) == Counter(token.stem for token in two.tokens())


def _compared(statement: Statement, *, cased: bool) -> list[Sentence]:
    if cased:
        return list(statement.sentences)
    return [tuple(Fact(token.stem) for token in sentence) for sentence in statement.sentences]


def _stands_unbroken(sentences: list[Sentence], others: list[Sentence]) -> bool:
    """Return whether each sentence stands unbroken in others, in any order, and nothing of them is left.

    False where to find out takes too long, which only a hostile text does.
    """
    rest: list[Fact | None] = [token for sentence in others for token in sentence]
    steps = 0
    # The longest first, because a short one may stand within a long one.
    for sentence in sorted(sentences, key=len, reverse=True):
        want, found = list(sentence), False
        steps += len(rest)
        for place, token in enumerate(rest):
            if token == want[0]:
                steps += len(want)
                if found := rest[place : place + len(want)] == want:
                    # Marked, not removed: what stood around it stays apart.
                    rest[place : place + len(want)] = [None] * len(want)
                    break
            if steps > _STEPS:
                return False
        if not found:
            return False
    return all(token is None for token in rest)


# ---------------------------------------------------------------- near


def facts_of(item: Item) -> frozenset[str]:
    """Return the distinct facts by which items are near: tokens, names by their parts, and of scripts without spaces
    pairs of letters."""
    facts = _facts(item.content)
    return facts if len(facts) >= _FACTS_ALONE else _facts(f"{item.title}\n{item.content}")


@kept(WORD_SETS_KEPT)
def _facts(text: str) -> frozenset[str]:
    return frozenset(chain.from_iterable(map(_facts_of_sentence, read_statement(text).sentences)))


def _facts_of_sentence(sentence: Sentence) -> Iterator[str]:
    letter = ""
    for fact in sentence:
        # Most facts: neither a letter of an unspaced script nor a name of parts.
        if fact.stem.isalnum() and fact.stem.isascii():
            letter = ""
            yield fact.stem
            continue
        if _UNSPACED.match(fact.stem):
            if letter:
                yield letter + fact.stem
            letter = fact.stem
            continue
        letter = ""
        # Names by their parts, because words may be joined to a name: tower_height.
        if _JOINED.search(fact.stem):
            yield from (stem(part) for part in _JOINED.split(fact.stem) if part and part not in SILENT)
        else:
            yield fact.stem


def title_facts(item: Item) -> frozenset[str]:
    """Return the distinct facts of a title that tell what an item is about; none of a title with fewer than two."""
    facts = token_set(item.title)
    return facts if len(facts) >= _FACTS_ALONE else frozenset()


def are_near(new: Item, old: Item) -> bool:
    """Return whether one of two contents has so many of the other's facts, whichever has fewer."""
    one, two, title = facts_of(new), facts_of(old), title_facts(new)
    return is_enough(len(one & two), len(one), len(two), titled=bool(title) and title == title_facts(old))


def is_enough(common: int, new: int, old: int, *, titled: bool) -> bool:
    """Return whether two sets of facts of these sizes are near, given how many they have in common."""
    least, of = TITLED_MIN if titled else NEAR_MIN
    return common > 0 and of * common >= least * min(new, old)


def clears(right: frozenset[str], candidate: frozenset[str], rejected: frozenset[str]) -> bool:
    """Return whether facts near to rejected ones say what corrected facts say in their place: one of the corrected
    that the rejected lack, none of the rejected that the corrected lack, and no word that denies more than these do."""
    said = candidate & (right - rejected) and not candidate & (rejected - right)
    return bool(said) and not (candidate - right) & _TURNING


# ---------------------------------------------------------------- differences


def negates(new: Item, old: Item) -> bool:
    """Return whether title or content of one of two items has a negating word that the other lacks."""
    return any(
        bool((one - two) & NEGATING) != bool((two - one) & NEGATING)
        for one, two in ((token_set(new.title), token_set(old.title)), (token_set(new.content), token_set(old.content)))
    )


def differences(before: Item, after: Item) -> tuple[Exchange, ...]:
    """Return what one item has in the place of what another has, in words: of the contents, else of the titles."""
    return _exchanges(content_of(before), content_of(after)) or _exchanges(before.title, after.title)


def in_words(exchanges: Sequence[Exchange]) -> str:
    """Return differences in words, the first three: `feet → metre; less: not`."""
    told = [
        f"{each.before} → {each.after}"
        if each.before and each.after
        else f"{'more' if each.after else 'less'}: {each.after or each.before}"
        for each in exchanges[:3]
    ]
    left = len(exchanges) - len(told)
    return "; ".join([*told, *([f"and {left:,} more"] if left > 0 else [])])


def _exchanges(before: str, after: str) -> tuple[Exchange, ...]:
    one, two = (list(islice(_written(text), _SHOWN_TOKENS)) for text in (before, after))
    codes = SequenceMatcher(None, [key for key, _ in one], [key for key, _ in two], autojunk=False).get_opcodes()
    return tuple(
        Exchange(*(" ".join(word for _, word in some) for some in (one[i:j], two[k:m])))
        for tag, i, j, k, m in codes
        if tag != "equal"
    )


def _written(text: str) -> Iterator[tuple[tuple[Fact, ...], str]]:
    """Yield the words of a text as they are written, each behind its tokens; of scripts without spaces, letters."""
    for chunk in text.split():
        tokens = tuple(read_statement(chunk).tokens())
        if any(_UNSPACED.match(token.stem) for token in tokens):
            yield from (((token,), token.stem) for token in tokens)
        elif tokens and chunk.lower() != "a":
            yield tokens, chunk.strip('.,;:!?()[]"`*')
