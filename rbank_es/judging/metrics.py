"""How well a judge judges: figures over pairs of what it said and what an expert said. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts against an expert's. Success is the positive; a figure that has nothing to be made of is None.

    `precision` is the share of the judge's successes that are the expert's, `recall` the share of the expert's that
    the judge found, `f1` their harmonic mean, `kappa` Cohen's: agreement beyond what both would have by chance.
    """

    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> Metrics:
        """The figures of pairs (what the judge said, what the expert said)."""
        counts = Counter(pairs)
        return cls(
            true_positive=counts[True, True],
            false_positive=counts[True, False],
            false_negative=counts[False, True],
            true_negative=counts[False, False],
        )

    @property
    def cases(self) -> int:
        """How many verdicts were compared."""
        return self.true_positive + self.false_positive + self.false_negative + self.true_negative

    @property
    def accuracy(self) -> float | None:
        """The share of verdicts that agree."""
        return _share(self.true_positive + self.true_negative, self.cases)

    @property
    def precision(self) -> float | None:
        """Of the judge's successes, the share that are right."""
        return _share(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float | None:
        """Of the expert's successes, the share that the judge found."""
        return _share(self.true_positive, self.true_positive + self.false_negative)

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN)."""
        return _share(2 * self.true_positive, 2 * self.true_positive + self.false_positive + self.false_negative)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, -1 to 1; None where both always say the same one thing."""
        total = self.cases
        judge, expert = self.true_positive + self.false_positive, self.true_positive + self.false_negative
        # In integers, times total squared, so that no rounding decides whether it exists.
        chance = judge * expert + (total - judge) * (total - expert)
        agreed = (self.true_positive + self.true_negative) * total
        return _share(agreed - chance, total * total - chance)

    def as_dict(self) -> dict[str, float | int | None]:
        """All figures by name."""
        names = ("cases", "accuracy", "precision", "recall", "f1", "kappa")
        return {name: getattr(self, name) for name in (*names, *self.__struct_fields__)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
