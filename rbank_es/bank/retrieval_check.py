"""The check of recorded retrievals: a repetition of each at the position searched, which must find the same items.

That is the one just before the record, or the one that the record names as `as_of`: a hook searches now, and its search
is recorded later. A repetition ranks by the same version of the policy as the record. If the query of a retrieval, or
the words of an item that it could find, were erased since, the retrieval counts as unverifiable. So does a retrieval by
a policy that was not in force, because its settings are not recorded. One that came in with another bank was made among
the items of that bank, so it is counted and not repeated.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from rbank_es.errors import BadPolicy, CheckFailed
from rbank_es.events import Erased, Event, MemoriesExtracted, MemoriesRetrieved, PolicyChoice, PolicySet, WordsEmbedded
from rbank_es.log import EventLog
from rbank_es.policies import POLICIES, RetrievalPolicy, retrieval_policy
from rbank_es.projections.read_models import ReadModels
from rbank_es.system.files import temporary
from rbank_es.system.progress import OnProgress

_TYPES = ("memories_extracted", "memories_retrieved", "policy_set", "words_embedded")
_TOLERANCE = 1e-9
"""The relative difference of scores that another build of SQLite or of the C library may make."""


class RetrievalDifference(msgspec.Struct, frozen=True):
    """A retrieval that gives or withholds other items now: item ids with scores, as recorded and as found."""

    seq: int
    recorded: tuple[str, ...]
    found: tuple[str, ...]


class RetrievalCheck(msgspec.Struct, frozen=True):
    """The result of repeating every recorded retrieval. `elsewhere` counts those that were made in other banks."""

    checked: int
    unverifiable: int
    different: tuple[RetrievalDifference, ...]
    elsewhere: int = 0

    def require_same(self) -> None:
        """Raise `CheckFailed` if a retrieval finds other items."""
        if self.different:
            first = self.different[0]
            raise CheckFailed(
                f"{len(self.different)} of {self.checked + len(self.different)} retrievals now find other "
                f"items than recorded; the first, at {first.seq:,}, found {', '.join(first.recorded) or 'nothing'} "
                f"and now finds {', '.join(first.found) or 'nothing'}"
            )


def check_retrievals(log: EventLog, progress: OnProgress | None = None) -> RetrievalCheck:
    """Repeat every recorded retrieval on the bank as it was when it was searched.

    Raises `BadPolicy` for one by a policy that this release doesn't know.
    """
    checked, unverifiable, elsewhere, different = 0, 0, 0, []
    choices: list[tuple[int, PolicyChoice | None]] = [(0, None)]
    erased, head = False, log.position()
    with _scratch() as models:
        for event in log.read(upto=head, types=_TYPES, resolve=_TYPES):
            if isinstance(event, PolicySet):
                choice = next((each for each in event.policies if each.kind == "retrieval"), None)
                choices.append((event.seq, choice))
            erased = erased or _holds_erased(event)
            if not isinstance(event, MemoriesRetrieved):
                continue
            if event.origin is not None:
                elsewhere += 1
                continue
            if progress is not None:
                progress(event.seq, head)
            found = _found_again(log, models, event, _policy_of(event, choices))
            if found is not None and _is_same(event, found):
                checked += 1
            elif found is None or erased:  # an erased item might have been found, so a difference proves nothing
                unverifiable += 1
            else:
                different.append(RetrievalDifference(event.seq, _shown(event), _shown(found)))
    return RetrievalCheck(checked, unverifiable, tuple(different), elsewhere)


@contextmanager
def _scratch() -> Iterator[ReadModels]:
    with temporary("check") as folder, ReadModels.open(folder / "scratch.sqlite") as it:
        yield it


def _searched(event: MemoriesRetrieved) -> int:
    """Return the position that a retrieval searched."""
    return event.seq - 1 if event.as_of is None else event.as_of


def _policy_of(event: MemoriesRetrieved, choices: list[tuple[int, PolicyChoice | None]]) -> RetrievalPolicy | None:
    """Return the policy that ranked a retrieval; None if it was not the one in force.

    `choices` are those of retrieval so far, each with its position.
    """
    if f"retrieval:{event.policy}" not in POLICIES:
        known = ", ".join(name.partition(":")[2] for name in POLICIES.names() if name.startswith("retrieval:"))
        raise BadPolicy(
            f"the retrieval at position {event.seq:,} was ranked by {event.policy}, which this release doesn't know; "
            f"it knows {known}. Install the release or the plugin that has it."
        )
    policy = retrieval_policy(choices[bisect_right(choices, _searched(event), key=lambda each: each[0]) - 1][1])
    return policy if policy.label == event.policy else None


def _holds_erased(event: Event) -> bool:
    match event:
        case MemoriesExtracted():
            return any(isinstance(text, Erased) for text in event.candidates)
        case WordsEmbedded():
            return any(isinstance(text, Erased) for text in event.vectors)
    return False


def _found_again(
    log: EventLog, models: ReadModels, event: MemoriesRetrieved, policy: RetrievalPolicy | None
) -> MemoriesRetrieved | None:
    """Return the record of the retrieval as it is made now; None if it can't be repeated."""
    if policy is None or not isinstance(event.query, str):
        return None
    if event.k < 1:
        return MemoriesRetrieved(k=event.k, policy=event.policy)
    if _searched(event) >= event.seq:
        return MemoriesRetrieved(k=event.k, policy=event.policy)  # nobody can have searched what came later
    models.catch_up(log, upto=event.seq - 1)  # retrievals come in order, so the scratch models only go forward
    with models.as_of(_searched(event)) as view:
        return view.repeat(event, policy).event


def _shown(event: MemoriesRetrieved) -> tuple[str, ...]:
    given = (f"{hit.id} ({hit.score!r})" for hit in event.hits)
    return (*given, *(f"{hit.id} ({hit.score!r}, withheld: {hit.why})" for hit in event.withheld))


def _is_same(recorded: MemoriesRetrieved, found: MemoriesRetrieved) -> bool:
    """Return whether two records give and withhold the same items by the same figures."""
    there, here = _figures(recorded), _figures(found)
    return len(there) == len(here) and all(map(_is_close, there, here))


def _figures(event: MemoriesRetrieved) -> list[object]:
    parts = (*event.hits, *event.withheld, *([] if event.floor is None else [event.floor]))
    # The kinds are among them, so that an item that was given differs from one that was withheld.
    return [event.fallback, *(value for part in parts for value in (type(part), *msgspec.structs.astuple(part)))]


def _is_close(there: object, here: object) -> bool:
    if isinstance(there, float) and isinstance(here, float):
        return math.isclose(there, here, rel_tol=_TOLERANCE)
    return there == here
