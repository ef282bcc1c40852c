"""The simulated world: families of tasks, each with the one move that is right for it, drawn from a seed.

Families come in clans. The tasks of a clan share words, so they look alike to a search, and each of its families needs
another move. So a lesson of the wrong family is found now and then, and misleads.

Every random number is a hash of a key: the world, the order of its tasks, a task, and a purpose. A key never holds the
condition, so the same task meets the same luck under all conditions, and a difference between two conditions is
theirs. All numbers in `Assumptions` are assumptions about a learner that doesn't exist: they say nothing about any
language model.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rbank_es.errors import BadInput
from rbank_es.limits import experiment_limits

MOVES = (
    "follow the inverse property",
    "walk down the subclass path",
    "add the missing type constraint",
    "go through the intermediate node",
    "count distinct after grouping",
    "filter on the language of the label",
)
"""What a task may need: six ways of solving a question about an ontology."""

OWN_WORDS, CLAN_WORDS, SHARED_WORDS = 6, 5, 30
"""Words from which tasks choose: those of a family, of a clan, and of the whole world."""

_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_DIGEST_BYTES = 8

Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0, le=experiment_limits.SIMULATED_WEIGHT)]
Number = Annotated[int, Meta(ge=1, le=experiment_limits.SIMULATED_TASKS)]


def draw(*key: object) -> float:
    """Return the uniform random number of a key, from 0 to below 1. The same key always gives the same number."""
    digest = hashlib.blake2b("|".join(map(str, key)).encode(), digest_size=_DIGEST_BYTES).digest()
    # The upper 53 bits, because a float holds no more: all 64 could be rounded up to 1.
    return (int.from_bytes(digest) >> 11) / 2**53


class Assumptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The world and its solver in numbers. Shares are from 0 to 1, effects of lessons in log odds.

    Size: `families` in clans of `clan`, `tasks` in all, then `unseen` siblings of each family, which are never learned
    from. Solver: without memory it makes the right move with a chance from `hardest` to `easiest`, evenly over the
    families; of the rest, the share `trap` goes to one tempting wrong move. `slip` of the right moves fail
    nonetheless. `follow` and `avoid` are the effects of a strategy and of a guardrail of the own family, `foreign` the
    share of them that a lesson of another family has; `same_task` is added to the effect of a lesson that was drawn
    from the very task, because it may hold the answer. Words: of a family's, its clan's and the world's words a
    question has so many; the share `loose` of lessons is in words of its own, and never a near duplicate.
    """

    families: Annotated[int, Meta(ge=2, le=experiment_limits.SIMULATED_FAMILIES)] = 12
    clan: Annotated[int, Meta(ge=1, le=len(MOVES))] = 3
    tasks: Number = 180
    unseen: Number = 5
    hardest: Share = 0.15
    easiest: Share = 0.65
    trap: Share = 0.5
    slip: Share = 0.10
    follow: Weight = 1.5
    avoid: Weight = 0.8
    foreign: Share = 0.5
    same_task: Weight = 0.0
    own_words: Annotated[int, Meta(ge=0, le=OWN_WORDS)] = 2
    clan_words: Annotated[int, Meta(ge=0, le=CLAN_WORDS)] = 2
    shared_words: Annotated[int, Meta(ge=0, le=SHARED_WORDS)] = 3
    loose: Share = 0.5


class Family(Struct, frozen=True, kw_only=True):
    """A kind of tasks. `right` is the index of the move that it needs, `trap` that of the tempting wrong one; `chance`
    is the chance of the right move without memory."""

    number: int
    right: int
    trap: int
    chance: float


class SimulatedTask(Struct, frozen=True, kw_only=True):
    """A task of the simulated world: its id, its family, its question, and the family's words in it."""

    id: str
    family: int
    question: str
    own: tuple[str, ...]


class World:
    """The families and tasks of one world. `tasks` are learned from, in their order, `unseen` never."""

    def __init__(self, assumptions: Assumptions, number: int = 0) -> None:
        """Draw the world of a number. Raises `BadInput` where an assumption is out of its range, or two contradict."""
        try:
            # Not before: a struct that Python makes is not checked.
            msgspec.convert(msgspec.to_builtins(assumptions), Assumptions)
        except msgspec.ValidationError as error:
            raise BadInput(f"the simulated world can't be: {error}") from None
        if assumptions.easiest < assumptions.hardest:
            raise BadInput("the easiest family is harder than the hardest; exchange `easiest` and `hardest`")
        self.assumptions, self.number = assumptions, number
        self.families = self._families()
        count = assumptions.families
        learned = [self._task(index % count, index // count) for index in range(assumptions.tasks)]
        self.tasks = tuple(sorted(learned, key=lambda task: draw("order", *self.key, task.id)))
        unseen = range(assumptions.unseen)
        self.unseen = tuple(self._task(family, index, "u") for family in range(count) for index in unseen)

    @cached_property
    def key(self) -> tuple[int, int]:
        """The beginning of the keys of random numbers: the world, and the order of its tasks, of which each has one."""
        return self.number, 0

    def own_word(self, family: int, index: int) -> str:
        """Return a word of a family."""
        return _word("own", f"{self.number}-{family}", index)

    def clan_word(self, family: int, index: int) -> str:
        """Return a word of the clan of a family."""
        return _word("clan", f"{self.number}-{family // self.assumptions.clan}", index)

    def free_word(self, task: str, index: int) -> str:
        """Return a word that only the lesson of one task has."""
        return _word("free", f"{self.number}-{task}", index)

    def _families(self) -> tuple[Family, ...]:
        given, count = self.assumptions, self.assumptions.families
        span = (given.easiest - given.hardest) / (count - 1)
        # By a draw of its own, so that neither clan nor number says how hard a family is.
        hard = sorted(range(count), key=lambda family: draw("hard", self.number, family))
        chances = {family: given.hardest + span * place for place, family in enumerate(hard)}
        right: list[int] = []
        for family in range(count):
            move = int(draw("right", self.number, family) * len(MOVES))
            # The families of its own clan so far: each of them needs another move.
            while move in right[family - family % given.clan :]:
                move = (move + 1) % len(MOVES)
            right.append(move)
        return tuple(self._family(family, right[family], chances[family]) for family in range(count))

    def _family(self, family: int, right: int, chance: float) -> Family:
        # Any move but the right one.
        trap = (right + 1 + int(draw("trap", self.number, family) * (len(MOVES) - 1))) % len(MOVES)
        return Family(number=family, right=right, trap=trap, chance=chance)

    def _task(self, family: int, index: int, kind: str = "t") -> SimulatedTask:
        given, id = self.assumptions, f"f{family:03d}-{kind}{index:05d}"
        own = tuple(self.own_word(family, word) for word in self._some("own", OWN_WORDS, given.own_words, id))
        clan = [self.clan_word(family, word) for word in self._some("clan", CLAN_WORDS, given.clan_words, id)]
        # Squared, because few of the words that all tasks share are common, as in any language.
        places = [int(SHARED_WORDS * draw("shared", self.number, id, n) ** 2) for n in range(given.shared_words)]
        shared = [_word("shared", str(self.number), place) for place in places]
        question = f"Which {' '.join(clan)} of the {' '.join(shared)} have {' '.join(own)}?"
        return SimulatedTask(id=id, family=family, question=question, own=own)

    def _some(self, kind: str, count: int, wanted: int, id: str) -> list[int]:
        return sorted(range(count), key=lambda word: draw(kind, self.number, id, word))[:wanted]


def _word(kind: str, owner: str, index: int) -> str:
    """Return an invented word, which no tokenizer shortens and no language has."""
    digest = hashlib.blake2b(f"{kind}|{owner}|{index}".encode(), digest_size=4).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest) + "x"
