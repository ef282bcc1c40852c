"""Acts of people on verdicts: what they say of runs, and what is due after them.

Each act is one group: what the person did, what follows from it by the law of correction, and `correction_completed`.
An act that changes nothing appends nothing. With `dry_run` nothing is appended; what is returned is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.bank.bank_access import OpenBank
from rbank_es.bank.id_lookup import StateIds, exact_id
from rbank_es.errors import BadInput
from rbank_es.events import Event, JudgmentOverruled
from rbank_es.events.run_events import VerdictValue, verdict_value

# Imported where they are used, as in `Bank`: an append needs none of them.
if TYPE_CHECKING:
    from rbank_es.bank.correction_effect import Correction
    from rbank_es.bank.corrector import Corrector
    from rbank_es.law import State

SOMEBODY = "somebody"
"""The name of a person who gave none."""


class Ruling(Struct, frozen=True):
    """A person's verdict on a run, and the reason."""

    run: str
    verdict: VerdictValue
    reason: str
    by: str | None = None


class VerdictActs(OpenBank):
    """The part of `Bank` by which people correct verdicts."""

    @property
    def corrector(self) -> Corrector:
        """Corrections of this bank."""
        from rbank_es.bank.corrector import Corrector

        return Corrector(self.log, self.latest, self.name)

    def overrule(
        self,
        run: str,
        verdict: bool | VerdictValue,
        *,
        reason: str,
        by: str | None = None,
        influence: bool = False,
        dry_run: bool = False,
    ) -> Correction:
        """Give a person's verdict on a run, which no judge outranks, and correct what was learned from it.

        True and False are `success` and `failure`.
        With `influence`, extractions from runs that had been given items which left are set aside too, while this
        verdict stands. A verdict that a person gave already appends nothing.
        Raises `NotInBank` for the run, `BadInput` without a reason or for what is no verdict.
        """
        value = verdict_value(verdict)
        if value is None:
            raise BadInput(f"{verdict!r} is no verdict: give success, failure or undecided")
        return self._overrule([Ruling(run, value, reason, by)], influence, dry_run)

    def overrule_many(self, rulings: Iterable[Ruling], *, influence: bool = False, dry_run: bool = False) -> Correction:
        """Give many verdicts in one correction.

        With `influence`, each extraction that is set aside stays so while any verdict stands because of which it was.
        Raises as `overrule`, then nothing was appended; `BadInput` if two differ about a run.
        """
        return self._overrule(list(rulings), influence, dry_run)

    def _overrule(self, given: Sequence[Ruling], influence: bool, dry_run: bool) -> Correction:
        from rbank_es.bank.corrector import Influence

        rulings = self._resolved(given)

        def act(state: State) -> list[Event]:
            return [self._judgment(state, each) for each in rulings if not _given_already(state, each)]

        tainting = [Influence(each.run, each.verdict, each.by) for each in rulings] if influence else []
        runs = [each.run for each in rulings]
        made = self.corrector.correct(act, influence=tainting, runs=runs, dry_run=dry_run)
        return replace(made, verdicts={each.run: each.verdict for each in rulings})

    def _resolved(self, given: Sequence[Ruling]) -> list[Ruling]:
        """Return rulings about known runs, each run once."""
        found: dict[str, Ruling] = {}
        for each in given:
            ruling = replace(each, run=self._known("run", each.run), reason=given_words("a reason", each.reason))
            known = found.setdefault(ruling.run, ruling)
            if known.verdict != ruling.verdict:
                raise BadInput(f"two verdicts on run {ruling.run!r}: {known.verdict} and {ruling.verdict}; give one")
        return list(found.values())

    def _judgment(self, state: State, ruling: Ruling) -> JudgmentOverruled:
        standing = state.verdicts.get((ruling.run, "learning"))
        return JudgmentOverruled(
            run=ruling.run,
            purpose="learning",
            verdict=ruling.verdict,
            judge="human",
            judge_version="1",
            kind="human",
            by=ruling.by or SOMEBODY,
            judgment=None if standing is None else self.event_at(standing.seq).id,
            reason=ruling.reason,
        )

    def correct(self, *, decisions: bool = False, dry_run: bool = False) -> Correction:
        """Complete what is due: after verdicts and acts that came by `append`, by import or from judges.

        With `decisions`, make every decision of the bank again, as `verify` does: also where the log claims, wrongly,
        that nothing is due.
        """
        from rbank_es.bank.canonical_check import shows_nothing_due
        from rbank_es.bank.correction_effect import Correction

        if not decisions and shows_nothing_due(self):
            position = self.position
            return Correction(bank=self.name, since_seq=position, position=position)
        return self.corrector.correct(lambda state: [], every=decisions, dry_run=dry_run)

    def _known(self, kind: Literal["run", "item"], given: str) -> str:
        with self.latest.at(self.log.position()) as basis:
            return exact_id(StateIds(basis.state), kind, given)


def _given_already(state: State, ruling: Ruling) -> bool:
    """Return whether a person gave this verdict, and it stands."""
    standing = state.verdicts.get((ruling.run, "learning"))
    return standing is not None and standing.kind == "human" and standing.verdict == ruling.verdict


def given_words(what: str, given: str) -> str:
    """Return words that a person gave. Raises `BadInput` where `what` they are is missing."""
    if not given.strip():
        raise BadInput(f"{what} is missing; those who read the log later need it")
    return given
