"""A supposition: what is taken to be otherwise than the log says, from a position on.

Policies are in force in the place of the recorded ones, kind by kind. A verdict is a person's, given when the run was
first judged, so no judge outranks it. Without an item: its candidates count as never extracted, whatever their words
did to others. Without a run: nothing of it is in the log, and what was drawn from it counts as never extracted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from rbank_es.bank.id_lookup import StateIds, not_in_bank, whole_id
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import Event, JudgmentOverruled, PolicyChoice
from rbank_es.events.run_events import VerdictValue
from rbank_es.law import State
from rbank_es.policies.policy_registry import changed

WHAT_IF = "what-if"
"""Who gives a supposed verdict."""

Without = Iterable[str]


class Supposition(Struct, frozen=True, kw_only=True):
    """A supposition: tables of policies by kind, a verdict by run, and the items and runs that there are not."""

    policies: Mapping[str, Any] = {}
    verdicts: Mapping[str, VerdictValue] = {}
    items: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()

    def choices(self, recorded: Sequence[PolicyChoice]) -> tuple[PolicyChoice, ...]:
        """Return the policies in force where these are recorded. Raises `BadPolicy`."""
        return changed(recorded, self.policies) if self.policies else tuple(recorded)

    def is_without(self, event: Event) -> bool:
        """Return whether an event is one of a run that there is not."""
        return getattr(event, "run", None) in self.runs

    def judgment(self, run: str) -> JudgmentOverruled:
        """Return the event of a supposed verdict."""
        return JudgmentOverruled(
            run=run,
            purpose="learning",
            verdict=self.verdicts[run],
            judge="human",
            judge_version="1",
            kind="human",
            by=WHAT_IF,
        )


def supposition_of(
    state: State, policies: Mapping[str, Any], verdicts: Mapping[str, VerdictValue], without: Without
) -> Supposition:
    """Return a supposition about a bank with whole ids, as of a state of it.

    Ids may be any beginning that no other one has, written `item:ID` or `run:ID` where it could be either.
    Raises `NotInBank`, `AmbiguousId`, `BadInput` for a verdict on a run without one, `BadPolicy`.
    """
    found: dict[str, set[str]] = {"item": set(), "run": set()}
    for given in without:
        kind, id = _item_or_run(state, given)
        found[kind].add(id)
    given_verdicts: dict[str, VerdictValue] = {}
    for run, verdict in verdicts.items():
        id = _judged_run(state, run)
        if id in found["run"]:
            raise BadInput(f"run {id!r} can't be left out and have another verdict; suppose one of the two")
        if given_verdicts.setdefault(id, verdict) != verdict:
            raise BadInput(f"two verdicts on run {id!r}: {given_verdicts[id]} and {verdict}; give one")
    made = Supposition(
        policies=policies, verdicts=given_verdicts, items=frozenset(found["item"]), runs=frozenset(found["run"])
    )
    made.choices(tuple(state.policies.values()))
    return made


def _judged_run(state: State, given: str) -> str:
    run = whole_id(StateIds(state), "run", given)
    if (run, "learning") not in state.verdicts:
        raise BadInput(
            f"run {run!r} has no verdict up to position {state.position:,}, so none can be otherwise; to suppose that "
            "nothing was learned from it, leave the run out (--without)"
        )
    return run


def _item_or_run(state: State, given: str) -> tuple[str, str]:
    ids, errors = StateIds(state), list[NotInBank]()
    prefix, _, rest = given.partition(":")
    kinds = (prefix,) if prefix in ("item", "run") and rest else ("item", "run")
    name, found = rest if len(kinds) == 1 else given, list[tuple[str, str]]()
    for kind in kinds:
        try:
            found.append((kind, whole_id(ids, kind, name)))
        except NotInBank as error:
            # It may still be of the other kind.
            errors.append(error)
    # A whole id wins over the beginning of another one.
    exact = [pair for pair in found if pair[1] == name]
    chosen = exact or found
    if not chosen:
        raise not_in_bank(ids, name, kinds)
    if len(chosen) > 1:
        raise BadInput(f"{name!r} is an item and a run; write item:{name} or run:{name}")
    return chosen[0]
