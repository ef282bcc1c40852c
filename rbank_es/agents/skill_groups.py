"""Lessons parted into skills, without a model: by domain, then by topic, then by size between lessons of like titles.

A topic is the role of an item, else its first tag. What is too large for one skill is cut before the item with the
highest digest, again and again: so one item more or less moves a cut beside it, and all other skills stay as they are.
Where the skills would be more than hosts list, topics, and then domains, are no longer parted, and a skill holds more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import NamedTuple
from unicodedata import normalize

from rbank_es.agents.skill_lines import SkillLesson
from rbank_es.limits import skill_limits

PREFIX = "rbank"
_PLAIN = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Skill(NamedTuple):
    """Lessons that stand in one file: its name, and the domain and topic that they share, empty where they differ."""

    name: str
    domain: str
    topic: str
    lessons: tuple[SkillLesson, ...]


class _Placed(NamedTuple):
    """A lesson with what it is ordered and parted by."""

    domain: str
    topic: str
    title: str
    lesson: SkillLesson


class _Rung(NamedTuple):
    """A way to part lessons: at topics and domains or not, and how many bodies' bytes go into one skill."""

    topics: bool
    domains: bool
    scale: int


_RUNGS = (
    _Rung(topics=True, domains=True, scale=1),
    *(_Rung(topics=False, domains=True, scale=scale) for scale in (1, 2, 4)),
    *(_Rung(topics=False, domains=False, scale=scale) for scale in (1, 4, 16)),
)


def grouped(lessons: Sequence[SkillLesson], label: str) -> list[Skill]:
    """Return lessons as skills, at most `SKILLS_MOST`. `label` names those of no one domain."""
    placed = sorted(_placed(lessons), key=lambda each: (*each[:3], each.lesson.item.id))
    for rung in _RUNGS:
        parts = list(_parts(placed, rung))
        if len(parts) <= skill_limits.SKILLS_MOST:
            break
    else:  # whatever the digests are: as many as fit into one, one after the other
        most = skill_limits.SKILL_LESSONS
        parts = [placed[start : start + most] for start in range(0, len(placed), most)]
    return list(_named(parts, label))


def _placed(lessons: Iterable[SkillLesson]) -> list[_Placed]:
    topics = [slug(each.item.role or next(iter(each.item.tags), "")) for each in lessons]
    domains = [each.item.domain or "" for each in lessons]
    sizes = Counter(zip(domains, topics, strict=True))
    return [
        # A topic of a few lessons is no skill: they stand with those of none.
        _Placed(
            domain,
            topic if sizes[domain, topic] >= skill_limits.SKILL_TOPIC_LESSONS else "",
            lesson.item.title.casefold(),
            lesson,
        )
        for domain, topic, lesson in zip(domains, topics, lessons, strict=True)
    ]


def _parts(placed: Sequence[_Placed], rung: _Rung) -> Iterator[Sequence[_Placed]]:
    depth = rung.domains + rung.topics
    for _, run in groupby(placed, key=lambda each: each[:depth]):
        yield from _cut(list(run), rung.scale * skill_limits.SKILL_BODY_BYTES)


def _cut(run: list[_Placed], most_bytes: int) -> Iterator[Sequence[_Placed]]:
    """Yield a run in parts that fit, in order."""
    sizes = [min(len(each.lesson.line.encode()) + 1, skill_limits.SKILL_LESSON_BYTES) for each in run]
    heights = [sha256(each.lesson.item.id.encode()).digest() for each in run]
    todo = [(0, len(run))]
    while todo:
        start, end = todo.pop()
        if end - start <= 1 or (end - start <= skill_limits.SKILL_LESSONS and sum(sizes[start:end]) <= most_bytes):
            yield run[start:end]
            continue
        cut = max(range(start + 1, end), key=heights.__getitem__)
        todo += [(cut, end), (start, cut)]


def _named(parts: Iterable[Sequence[_Placed]], label: str) -> Iterator[Skill]:
    taken, seen = set[str](), set[tuple[str, str]]()
    for part in parts:
        domain = part[0].domain if len({each.domain for each in part}) == 1 else ""
        topic = part[0].topic if len({each.topic for each in part}) == 1 else ""
        written = domain or label
        words = [slug(written), *([topic] if topic else [])]
        name = "-".join((PREFIX, *(word[: skill_limits.SKILL_LABEL_CHARS].strip("-") for word in words)))
        # The first part of a domain or topic has its plain name; others are named by the lesson that they begin with.
        begins = part[0].lesson.item.id if (domain, topic) in seen else ""
        seen.add((domain, topic))
        exact = slug(written) == written and all(len(word) <= skill_limits.SKILL_LABEL_CHARS for word in words)
        if begins or not exact or name in taken:
            name = f"{name}-{_mark(domain, topic, begins)}"
        taken.add(name)
        yield Skill(name, domain, topic, tuple(each.lesson for each in part))


def _mark(*words: str) -> str:
    return sha256("\n".join(words).encode()).hexdigest()[: skill_limits.SKILL_DIGEST_CHARS]


def slug(text: str) -> str:
    """Return a text in small letters, digits and single hyphens: accents dropped; where nothing is left, a digest."""
    bare = normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    made = "-".join(re.findall(r"[a-z0-9]+", bare))
    return made if made or not text else "x" + _mark(text)
