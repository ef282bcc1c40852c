"""Measure what a new bank is given by `bm25-3` beside `bm25-2`: right lessons, typos, languages, templates, and cost.

    python -m benchmarks.recall_sets        the tables that docs/retrieval.md shows

Every set in `benchmarks/recall_sets/` was written by a language model, lessons and questions alike: line by line `L` is
a lesson, `Q` a question that it helps, `N` a near miss (of the field, no lesson helps) and `U` a question of another
field. The two floors were chosen by one half of *warehouse* and *clinic* (by a hash of the question); all else is only
reported. Made by a machine are the typos, one edit in the longest word of a question, and the templated questions.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from benchmarks.measure import NONE, Goal, Row
from rbank_es.events.items import Item
from rbank_es.law import ItemState
from rbank_es.policies import Bm25V2, Bm25V3, Filters, RetrievalPolicy
from rbank_es.policies.words import any_of, words_of
from rbank_es.projections.in_memory_items import ActiveItems

HERE = Path(__file__).parent / "recall_sets"
POLICIES: Mapping[str, RetrievalPolicy] = {
    "bm25-2": Bm25V2(),
    "bm25-3": Bm25V3(),
    "bm25-3, cautious": Bm25V3(coverage="cautious"),
}
BANK_LESSONS = 10
"""Lessons of a new bank: each set is cut into banks of so many."""


class Case(NamedTuple):
    """A question of a kind (Q, N or U), with the lesson that helps; whether settings were chosen by it."""

    query: str
    kind: str
    lesson: str = ""

    @property
    def chosen(self) -> bool:
        """Whether it is in the half by which settings were chosen."""
        return sha256(self.query.encode()).digest()[0] % 2 == 0


class LessonSet(NamedTuple):
    """Lessons about one field, and questions."""

    name: str
    items: list[Item]
    cases: list[Case]


def read_sets(name: str) -> list[LessonSet]:
    """Return the sets of a file: one, or one for each language."""
    sets = [LessonSet(name, [], [])]
    for line in (HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition(" ")
        items, cases = sets[-1][1:]
        if kind == "==":
            sets.append(LessonSet(text, [], []))
        elif kind == "L":
            id, _, said = text.partition(": ")
            title, content = _first_sentence(said)
            items.append(Item.make(title, content, id=id))
        else:
            cases.append(Case(text, kind, items[-1].id if kind == "Q" else ""))
    return [each for each in sets if each.items]


def _first_sentence(text: str) -> tuple[str, str]:
    for mark in (". ", "。"):
        first, found, rest = text.partition(mark)
        if found and rest:
            return first + mark.strip(), rest
    return text, text


def misspelt(query: str, seed: int) -> str:
    """Return a question with one edit in its longest word, behind the first letter."""
    random, words = Random(f"{seed} {query}"), query.split(" ")
    place = max(range(len(words)), key=lambda at: sum(map(str.isalpha, words[at])))
    word = words[place]
    at = random.randrange(1, max(2, len(word.rstrip("?.,!")) - 1))
    other = random.choice("abcdefghijklmnopqrstuvwxyz")
    words[place] = random.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + other + word[at:],
            word[:at] + other + word[at + 1 :],
            word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :],
        )
    )
    return " ".join(words)


class Given(NamedTuple):
    """Counts of what questions are given: of those with a lesson the right one first; all given, right; disturbed."""

    related: int = 0
    right: int = 0
    given: int = 0
    unrelated: int = 0
    disturbed: int = 0
    near: int = 0
    missed: int = 0

    def plus(self, other: Given) -> Given:
        """Return the sums."""
        return Given(*(a + b for a, b in zip(self, other, strict=True)))

    def cells(self) -> str:
        """Return the figures as cells of a table."""
        precision = f"{self.right / self.given:.2f}" if self.given else ""
        return (
            f"{self.right / max(1, self.related):.2f} | {precision} | {self.disturbed} of {self.unrelated} | "
            f"{self.missed} of {self.near}"
        )


def indexed(items: Iterable[Item]) -> ActiveItems:
    """Return an index of items."""
    index = ActiveItems(lambda _: (0, 0))
    index.update((item.id, ItemState(item=item, born_seq=1, extraction="e", rank=(1, 0), domains=())) for item in items)
    return index


def measured(items: Sequence[Item], cases: Iterable[Case], policy: RetrievalPolicy, typo: int | None = None) -> Given:
    """Return the counts of a bank with these items, of which each question is given the best one."""
    index, total, known = indexed(items), Given(), {item.id for item in items}
    for case in cases:
        if case.kind == "Q" and case.lesson not in known:
            continue
        query = case.query if typo is None else misspelt(case.query, typo)
        hits = policy.choose(query, 1, Filters(), index).hits
        given = bool(hits)
        if case.kind == "Q":
            total = total.plus(Given(related=1, right=given and hits[0].id == case.lesson, given=given))
        elif case.kind == "U":
            total = total.plus(Given(unrelated=1, disturbed=given))
        else:
            total = total.plus(Given(near=1, missed=given))
    index.close()
    return total


def new_banks(held: LessonSet, policy: RetrievalPolicy, half: bool | None, typo: int | None = None) -> Given:
    """Return the counts over banks of ten lessons of a set; of half of the cases, or of all for None."""
    cases = [case for case in held.cases if half is None or case.chosen == half]
    total = Given()
    for start in range(0, len(held.items), BANK_LESSONS):
        total = total.plus(measured(held.items[start : start + BANK_LESSONS], cases, policy, typo))
    return total


# ---------------------------------------------------------------- templated questions


NOUNS = (
    *("river", "bridge", "author", "novel", "painter", "museum", "team", "player"),
    *("mountain", "country", "film", "actor", "song", "band", "school", "city"),
)
RELATIONS = (
    *("owner", "head", "mayor", "editor", "coach", "member", "builder", "sponsor", "founder", "capital", "award"),
    *("genre", "league", "station", "partner", "place of birth", "head of state", "production company"),
)

NAMES = (
    *("Aldra", "Bertin", "Corval", "Dunmor", "Estrel", "Farrow", "Gallin", "Hestor", "Ivaro", "Jolan", "Kestre"),
    *("Lomond", "Norvik", "Ostrava", "Port Aldra", "Lake of Bertin", "The Corval Boys", "Hestor and Sons"),
    *("Maria Dunmor", "House on the Hill", "University of Kestre", "Ivan Lomond Jr"),
)
QUESTIONS = 252
"""Questions of a set, about as many of each template."""


class TemplatedSet(NamedTuple):
    """Items of questions with their queries, and each question with its item and the others that are asked alike."""

    name: str
    items: list[Item]
    cases: list[tuple[str, str, frozenset[str]]]


def templated() -> Iterator[TemplatedSet]:
    """Yield the sets of `templates.txt`: each line is a question in one way, or in several that mean the same."""
    for text in (HERE / "templates.txt").read_text(encoding="utf-8").split("== ")[1:]:
        name, *lines = text.splitlines()
        random, items, families = Random(name), list[Item](), list[int]()
        for number in range(QUESTIONS):
            family, turn = number % len(lines), number // len(lines)
            ways = lines[family].split(" | ")
            noun, (one, two), (here, there) = random.choice(NOUNS), random.sample(RELATIONS, 2), random.sample(NAMES, 2)
            question = ways[turn % len(ways)].format(noun, one, here, two, there)
            items.append(Item.make(question, f"SELECT ?x {{ ?x ex:{one} ex:{here} }}", id=f"t{number}"))
            families.append(family)
        alike = {one: [item.id for item, of in zip(items, families, strict=True) if of == one] for one in families}
        cases = [(i.title, i.id, frozenset(alike[f]) - {i.id}) for i, f in zip(items, families, strict=True)]
        yield TemplatedSet(name, items, cases)


def first_right(held: TemplatedSet, policy: RetrievalPolicy) -> float:
    """Return the share of questions whose first hit is asked alike; a question's own item is left out."""
    index, plain = indexed(held.items), policy.without_floor()
    right = 0
    for query, own, others in held.cases:
        hits = plain.choose(query, 1, Filters(without=frozenset({own})), index).hits
        right += bool(hits) and hits[0].id in others
    index.close()
    return right / len(held.cases)


def first_right_fts5(held: TemplatedSet) -> float:
    """Return the same by SQLite's bm25 over whole words, without stems or stop words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE f USING fts5(id UNINDEXED, title, content, tokenize='unicode61')")
        connection.executemany("INSERT INTO f VALUES (?, ?, ?)", ((i.id, i.title, i.content) for i in held.items))
        right = 0
        for query, own, others in held.cases:
            words = any_of(dict.fromkeys(words_of(query)))
            sql = "SELECT id FROM f WHERE f MATCH ? AND id <> ? ORDER BY bm25(f), id LIMIT 1"
            right += connection.execute(sql, (words, own)).fetchone()[0] in others
    return right / len(held.cases)


# ---------------------------------------------------------------- the tables

CHOSEN_BY = ("warehouse", "clinic")
UNSEEN = ("observatory", "school")
LAST = "harbour"
"""The set that was written after the last change."""


def lesson_tables() -> Iterator[str]:
    """Yield the lines of the table of new banks, and of the one of languages."""
    yield "| set | policy | right lesson | precision | unrelated | near misses | right, one typo |"
    yield "|---|---|---|---|---|---|---|"
    halves: list[tuple[str, bool | None]] = [(name, half) for name in CHOSEN_BY for half in (True, False)]
    for name, half in [*halves, *((name, None) for name in (*UNSEEN, LAST))]:
        [held] = read_sets(name)
        part = {True: ", chosen by", False: ", other half", None: ""}[half]
        for label, policy in POLICIES.items():
            plain, typo = new_banks(held, policy, half), new_banks(held, policy, half, typo=1)
            yield f"| {name}{part} | {label} | {plain.cells()} | {typo.right / typo.related:.2f} |"
    for label, policy in POLICIES.items():
        plain, typo = unseen(policy), unseen(policy, typo=1)
        yield f"| all not chosen by | {label} | {plain.cells()} | {typo.right / typo.related:.2f} |"


def unseen(policy: RetrievalPolicy, typo: int | None = None) -> Given:
    """Return the counts over all sets and halves that nothing was chosen by."""
    total = Given()
    for name in (*CHOSEN_BY, *UNSEEN, LAST):
        total = total.plus(new_banks(read_sets(name)[0], policy, False if name in CHOSEN_BY else None, typo))
    return total


def language_table() -> Iterator[str]:
    """Yield the lines of the table of languages: the right lesson of eight, of sixteen questions in each."""
    yield "\n| language | bm25-2 | bm25-3 | bm25-3, one typo |"
    yield "|---|---|---|---|"
    for held in read_sets("languages"):
        found = [measured(held.items, held.cases, POLICIES[label]) for label in ("bm25-2", "bm25-3")]
        found.append(measured(held.items, held.cases, POLICIES["bm25-3"], typo=1))
        cells = " | ".join(f"{each.right / each.related:.2f}" for each in found)
        yield f"| {held.name} | {cells} |"


def template_table() -> Iterator[str]:
    """Yield the lines of the table of templated questions, which a machine made."""
    yield "\n| templated questions | bm25-2 | bm25-3 | FTS5 without stems |"
    yield "|---|---|---|---|"
    for held in templated():
        ours = " | ".join(f"{first_right(held, POLICIES[label]):.3f}" for label in ("bm25-2", "bm25-3"))
        yield f"| {held.name} | {ours} | {first_right_fts5(held):.3f} |"


def rows() -> Iterator[Row]:
    """Yield the goals of what a new bank of ten lessons is given, of languages, and of questions of one shape."""

    def row(what: str, sign: Literal["≥", "≤"], bound: float, value: float, peer: str = NONE) -> Row:
        goal = Goal(sign, bound, "of cases")
        return Row("retrieval", f"new banks, never chosen by: {what}", f"{value:.3f}", peer, goal=goal, value=value)

    before, ours, cautious = (unseen(POLICIES[label]) for label in ("bm25-2", "bm25-3", "bm25-3, cautious"))
    typo, asked = unseen(POLICIES["bm25-3"], typo=1), ours.related
    yield row("right lesson", "≥", 0.55, ours.right / asked, f"bm25-2 {before.right / asked:.3f}")
    yield row("precision", "≥", 0.85, ours.right / ours.given, f"bm25-2 {before.right / before.given:.3f}")
    yield row("unrelated questions given something", "≤", 0.03, ours.disturbed / ours.unrelated)
    yield row("near misses", "≤", 0.2, ours.missed / ours.near, f"bm25-2 {before.missed / before.near:.3f}")
    yield row("cautious: right lesson", "≥", 0.48, cautious.right / asked)
    yield row("cautious: unrelated questions given something", "≤", 0.01, cautious.disturbed / cautious.unrelated)
    yield row("cautious: near misses", "≤", 0.1, cautious.missed / cautious.near)
    yield row("right lesson with one typo, as a share of without", "≥", 0.8, typo.right / ours.right)
    share = {held.name: measured(held.items, held.cases, POLICIES["bm25-3"]).right for held in read_sets("languages")}
    for language, right in share.items():
        if language != "en":
            bound = 0.65 if language in ("ru", "ko") else 0.8
            yield row(f"right lesson in {language}, as a share of English", "≥", bound, right / share["en"])
    for held in templated():
        if held.name.endswith("written after"):
            found, fts5 = first_right(held, POLICIES["bm25-3"]), first_right_fts5(held)
            yield row(f"first hit of {held.name} less FTS5's", "≥", -0.01, found - fts5, f"FTS5 {fts5:.3f}")


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("\n".join([*lesson_tables(), *language_table(), *template_table()]))


if __name__ == "__main__":
    main()
