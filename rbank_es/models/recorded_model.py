"""The recorded model: a run's own `lm_called` events answer a rerun, with no network and no key."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, LmFailed
from rbank_es.events import Erased, Event, LmCalled, Ref
from rbank_es.events.event_envelope import Settings
from rbank_es.events.run_events import Role
from rbank_es.models.lm_request import LmResponse
from rbank_es.models.model_call import ModelAnswer, Question, RetryableFailure, Try, failed
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.parameters import BY_SCHEMA


class RecordedModel:
    """A model that answers from the calls of one run, by role and request, in their order. Safe for several threads.

    Failed tries fail again, one by one. Use: `Lms(…, recorded.choices, model_for=lambda role, choice: recorded)`.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        """Index the calls among the events of one run, which must have their texts resolved.

        Raises `BadInput` for a call whose texts were erased, or that was imported without them.
        """
        self._calls: dict[tuple[Role, str], deque[list[LmCalled]]] = defaultdict(deque)
        self._mutex = threading.Lock()
        self._recorded = [event for event in events if isinstance(event, LmCalled)]
        for event in self._recorded:
            _check(event)
            self._add(event)

    @property
    def choices(self) -> dict[Role, LmChoice]:
        """The models by role, with the parameters that all calls of the role have in common.

        A JSON schema counts for a role if one call had it, because callers say for which of their calls they have one.
        """
        found: dict[Role, LmChoice] = {}
        for event in self._recorded:
            before = found.get(event.role)
            # Callers give it anew, and no request holds it.
            given = {name: value for name, value in event.parameters.items() if name != "rollout_id"}
            common = given if before is None else _common(before.arguments, given)
            by_schema = {**given, **(before.arguments if before is not None else {})}
            common = {**common, **{name: by_schema[name] for name in BY_SCHEMA if name in by_schema}}
            found[event.role] = LmChoice(model=event.model, arguments=common)
        return found

    @property
    def unused(self) -> tuple[str, ...]:
        """Calls that were not requested again, as `role, step`."""
        with self._mutex:
            return tuple(_place(call[0]) for call in self.left())

    def prepare(self, question: Question) -> Try:
        """Return the recorded tries. Raises `LmFailed('replay_miss')` for a request that was not recorded."""
        with self._mutex:
            left = self._calls.get((question.role, question.key))
            if not left:
                raise self._miss(question)
            tries = left.popleft()
        return _Tries(tries)

    def close(self) -> None:
        """Do nothing."""

    def _add(self, event: LmCalled) -> None:
        """Add a try to its call: the first with this request whose last try failed."""
        calls = self._calls[event.role, str(event.request_key)]
        # Tries of parallel calls interleave in the log, so they are matched by number and request.
        before = (event.attempt or 1) - 1
        waiting = (call for call in calls if (call[-1].attempt or 1) == before and call[-1].error_code is not None)
        call = next(waiting, None) if before else None
        if call is None:
            calls.append([event])
        else:
            call.append(event)

    def left(self) -> list[list[LmCalled]]:
        """Return the recorded calls, each with its tries, that were not requested yet."""
        return [call for calls in self._calls.values() for call in calls]

    def _miss(self, question: Question) -> LmFailed:
        where = f"{question.role}, step {question.step}" if question.step is not None else question.role
        left = [call[0] for call in self.left() if call[0].role == question.role and call[0].request]
        if not left:
            return failed("replay_miss", f"{where}: the run made no further call in this role")

        def likeness(event: LmCalled) -> tuple[bool, int]:
            return event.step == question.step, _shared(str(event.request), question.json)

        # Compare with the likeliest request: of the same step, then with the longest common prefix.
        nearest = max(left, key=likeness)
        before, now = (msgspec.json.decode(text) for text in (str(nearest.request), question.json))
        difference = departure(before, now) or "nothing but its order"
        return failed("replay_miss", f"{where}: no such request was recorded; it differs in {difference}")


class Departure(NamedTuple):
    """The first difference of two values of plain data: its path, and both values there, truncated."""

    path: str
    recorded: str
    now: str

    def __str__(self) -> str:
        return f"{self.path}: recorded {self.recorded}, now {self.now}"


def departure(before: Any, now: Any, path: str = "") -> Departure | None:
    """Return the first difference of two values of plain data; None if they are equal.

    >>> str(departure({"a": ["one", "two"]}, {"a": ["one", "too"]}))
    "a[1], character 1: recorded 'two', now 'too'"
    """
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted(before.keys() | now.keys())
        pairs = ((before.get(name), now.get(name), f"{path}.{name}" if path else name) for name in names)
        return next(filter(None, (departure(*pair) for pair in pairs)), None)
    if isinstance(before, list) and isinstance(now, list):
        both = zip(before, now, strict=False)
        found = (departure(*pair, f"{path}[{at}]") for at, pair in enumerate(both))
        lengths = Departure(path, f"{len(before)} of them", str(len(now))) if len(before) != len(now) else None
        # The first entry that differs says more than the number of entries.
        return next(filter(None, found), lengths)
    if isinstance(before, str) and isinstance(now, str) and before != now:
        at = _shared(before, now)
        place = f"{path}, character {at}".removeprefix(", ")
        return Departure(place, repr(_around(before, at)), repr(_around(now, at)))
    # Compare types too: 1, 1.0 and true are equal in Python, but not in a request.
    same = before == now and type(before) is type(now)
    return None if same else Departure(path, _shown(before), _shown(now))


def _check(event: LmCalled) -> None:
    texts = (event.request_key, event.request, event.response, event.error)
    if any(isinstance(text, Erased) for text in texts):
        raise BadInput(f"the texts of the call at {event.seq:,} were erased; the run can't be re-executed without them")
    whole = event.request_key and (event.response is not None or event.error is not None)
    if not whole or any(isinstance(text, Ref) for text in texts):
        raise BadInput(f"the call at {event.seq:,} was recorded without its texts; the run can't be re-executed")


class _Tries:
    """The recorded tries of one call, one after the other."""

    def __init__(self, tries: list[LmCalled]) -> None:
        self._tries = tries

    @property
    def left(self) -> int:
        """The number of tries that are to come."""
        return len(self._tries)

    def __call__(self) -> ModelAnswer:
        event = self._tries.pop(0)
        if event.response is not None:
            response = LmResponse.of(msgspec.json.decode(str(event.response)))
            return ModelAnswer(response, event.cost_usd, cut=str(event.error) if event.error_code == "cut" else "")
        failure = failed(event.error_code or "unexpected", str(event.error or ""))
        # 0 s, because a rerun need not repeat the waits of the run.
        raise RetryableFailure(failure, 0.0) if self._tries else failure


def _common(one: Settings, other: Settings) -> Settings:
    return {name: value for name, value in one.items() if other.get(name) == value}


def _place(event: LmCalled) -> str:
    return f"{event.role}, step {event.step}" if event.step is not None else event.role


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix, by bisection."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _around(text: str, at: int) -> str:
    return text[max(0, at - limits.LM_DIFFERENCE_CHARS) : at + limits.LM_DIFFERENCE_CHARS]


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[: limits.REF_PREVIEW_CHARS] if value is not None else "nothing"
