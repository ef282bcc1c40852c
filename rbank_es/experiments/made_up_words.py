"""Made-up words: pronounceable, from a random source, and in no vocabulary that a model has seen."""

from __future__ import annotations

from random import Random

_ONSETS = (
    "bl", "br", "d", "dr", "f", "fl", "g", "gl", "gr", "h", "j", "k", "kl", "kr", "l", "m", "n", "p", "pl", "pr", "r",
    "sk", "sl", "sm", "sn", "sp", "st", "t", "tr", "v", "vl", "w", "z", "zw",
)  # fmt: skip
_VOWELS = ("a", "e", "i", "o", "u")
_CODAS = (
    "b", "d", "f", "g", "k", "l", "lb", "ld", "lk", "lm", "lp", "lt", "m", "mp", "n", "nd", "nk", "nt", "p", "r", "rb",
    "rd", "rg", "rk", "rm", "rn", "rp", "rt", "v",
)  # fmt: skip
"""Neither `s` nor a letter like it, so that `s` makes the plural of every word and of none a third word."""


class MadeUpWords:
    """Words of which none comes twice; the same ones for the same random source."""

    def __init__(self, random: Random) -> None:
        self._random, self._taken = random, set[str]()

    def word(self, syllables: int = 2) -> str:
        """Return a new word, in lower case."""
        while True:
            made = "".join(
                self._random.choice(_ONSETS) + self._random.choice(_VOWELS) + self._random.choice(_CODAS)
                for _ in range(syllables)
            )
            if made not in self._taken:
                self._taken.add(made)
                return made

    def name(self) -> str:
        """Return a new word of three syllables that begins with a capital: what a thing is called."""
        return self.word(3).capitalize()
