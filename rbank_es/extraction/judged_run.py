"""Attempts: runs as an extractor sees them, and what a judge said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import Event, RunFinished, RunStarted, StepTaken, ToolCalled
from rbank_es.events.run import Outcome

if TYPE_CHECKING:
    from rbank_es.bank import Bank


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task. `domain` is the id of the ontology that it was about."""

    task: str
    run: str = ""
    answer: str = ""
    sparql: str = ""
    outcome: Outcome = "submitted"
    error: str = ""
    domain: str | None = None
    steps: tuple[RunStep, ...] = ()

    @classmethod
    def of(cls, result: Any, task: str) -> PastRun:
        """What can be told of a result by its attributes or keys: `answer`, `sparql`, `steps` or `trajectory`,
        `outcome` or `converged`, `run`, `error`, `domain`. What it is itself, if it is an `PastRun`.
        """
        if isinstance(result, PastRun):
            return msgspec.structs.replace(result, task=task)
        steps = told(result, "steps") or told(result, "trajectory") or ()
        converged = told(result, "converged") is not False
        return cls(
            task=task,
            run=_said_text(result, "run"),
            answer=_said_text(result, "answer"),
            sparql=_said_text(result, "sparql"),
            outcome=told(result, "outcome") or ("submitted" if converged else "forced_at_limit"),
            error=_said_text(result, "error"),
            domain=_said_text(result, "domain") or None,
            steps=tuple(RunStep.of(step, number) for number, step in enumerate(steps, 1)),
        )

    @property
    def empty(self) -> bool:
        """Whether the agent did nothing that could be learnt from."""
        return not (self.steps or self.answer.strip() or self.sparql.strip())

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.outcome == "failed":
            return f"it failed: {self.error or 'no reason was recorded'}"
        if self.outcome == "forced_at_limit":
            return "it used up its steps, and was made to answer"
        return "the agent submitted an answer"


def past_run(bank: Bank, run: str) -> PastRun:
    """A run as its events tell it; one that didn't finish counts as failed. Texts that were erased are empty.

    Raises `NotInBank` if no such run began.
    """
    events = list(bank.events(types={"run_started", "run_finished"}, run=run))
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    finished = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    if started is None:
        raise NotInBank(run, bank.position)
    return PastRun(
        task=bank.text(started.task) or "",
        run=run,
        answer=_said(bank, finished, "answer"),
        sparql=_said(bank, finished, "sparql"),
        outcome=finished.outcome if finished else "failed",
        error=_said(bank, finished, "error") if finished else "the run did not finish",
        domain=started.ontology,
        steps=trajectory_of(bank, run),
    )


def _said(bank: Bank, finished: RunFinished | None, name: str) -> str:
    return (bank.text(getattr(finished, name)) or "") if finished else ""


def _said_text(result: Any, name: str) -> str:
    value = told(result, name)
    return value if isinstance(value, str) else ""


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict for learning. `learnable` is False where the run is no ground to learn from, though it succeeded: its
    query or answer names what the ontology doesn't have. `event` is the id of the event that records the verdict.
    """

    success: bool
    reason: str = ""
    learnable: bool = True
    event: str | None = None

    @classmethod
    def of(cls, given: Any, event: str | None = None) -> Judgment:
        """What can be told of a verdict by its attributes, or by its keys if it is a mapping.

        Raises `BadInput` without a `success` that is true or false, and for a verdict whose `purpose` is scoring:
        nothing is ever learnt from that.
        """
        if isinstance(given, Judgment):
            return given if event is None else msgspec.structs.replace(given, event=event)
        if told(given, "purpose") == "scoring":
            raise BadInput("a scoring judgment only measures; give the judgment that was made for learning")
        success, reason = told(given, "success"), told(given, "reason")
        if not isinstance(success, bool):
            raise BadInput("a judgment must say whether the run was a success: True or False")
        return cls(
            success=success,
            reason=reason if isinstance(reason, str) else "",
            learnable=told(given, "learnable") is not False,
            event=event,
        )


LEAST_CHARS = 200
"""What two clipped steps and the word on what is left out need; a smaller budget gives an empty text."""

_NOTE_CHARS = 60
"""Room for the word on which steps are left out."""

_MARK_CHARS = 40
"""Room for the word on how much of a text is left out."""

_LEAST_CLIP_CHARS = 80
"""A text that gets less room than this is shown by its beginning alone."""


class RunStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an agent: what it said, the code it wrote, what that gave. `index` counts from 1."""

    index: int
    reasoning: str = ""
    code: str = ""
    output: str = ""

    @classmethod
    def of(cls, given: Any, index: int) -> RunStep:
        """What can be told of a step by its attributes, or its keys if it is a mapping; `index` where it has none."""
        own = told(given, "index")
        return cls(
            index=own if isinstance(own, int) else index,
            reasoning=_text(told(given, "reasoning")),
            code=_text(told(given, "code")),
            output=_text(told(given, "output")),
        )


def told(given: Any, name: str) -> Any:
    """What a mapping holds under a key, or any other object as an attribute; None where it has none."""
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _text(value: object) -> str:
    """A value as text that can be sent anywhere: what is no character is replaced."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n")


def trajectory_of(bank: Bank, run: str) -> tuple[RunStep, ...]:
    """The steps of a run as its events tell them; of a run without recorded steps, its calls of tools.

    Texts that were erased are empty. A run that the bank doesn't know has none.
    """
    events = list(bank.events(types={"step_taken", "tool_called"}, run=run))
    steps = tuple(_recorded(bank, event) for event in events if isinstance(event, StepTaken))
    return steps or tuple(_called(bank, event, index) for index, event in enumerate(_calls(events), 1))


def _calls(events: Iterable[Event]) -> Iterable[ToolCalled]:
    return (event for event in events if isinstance(event, ToolCalled))


def _recorded(bank: Bank, event: StepTaken) -> RunStep:
    texts = {name: bank.text(getattr(event, name)) or "" for name in ("reasoning", "code", "output")}
    return RunStep(index=event.index, **{name: _previewed(event, name, text) for name, text in texts.items()})


def _called(bank: Bank, event: ToolCalled, index: int) -> RunStep:
    arguments = _previewed(event, "arguments", bank.text(event.arguments) or "")
    given = bank.text(event.error) if event.error_code else bank.text(event.result)
    return RunStep(index=index, code=f"{event.tool}({arguments})", output=_previewed(event, "result", given or ""))


def _previewed(event: StepTaken | ToolCalled, name: str, text: str) -> str:
    return f"{text}…" if name in event.previews and text else text


def format_trajectory(steps: Iterable[Any], budget_chars: int = limits.EXTRACTION_TRAJECTORY_CHARS) -> str:
    """The steps as a text of at most `budget_chars` characters: the first, and as many of the last as fit.

    A step is anything with `reasoning`, `code` and `output`, or a mapping with these keys. No steps give an empty text,
    and so does a budget below `LEAST_CHARS`. Raises `BadInput` for a budget below 0.
    """
    if budget_chars < 0:
        raise BadInput(f"a budget of {budget_chars} characters can't be kept; give 0 or more")
    given = [RunStep.of(step, number) for number, step in enumerate(steps, 1)]
    whole = "\n\n".join(map(_block, given))
    if len(whole) <= budget_chars:
        return whole
    if budget_chars < LEAST_CHARS:
        return ""
    if len(given) == 1:
        return _clipped(given[0], budget_chars)
    return _first_and_last(given, budget_chars)


def _first_and_last(steps: Sequence[RunStep], budget_chars: int) -> str:
    room = budget_chars - (_NOTE_CHARS + 2 if len(steps) > 2 else 0) - 2
    first, last = _block(steps[0]), _block(steps[-1])
    if len(first) + len(last) > room:
        # How it ended says more than how it began.
        first_room = max(room // 3, room - len(last))
        first = _clipped(steps[0], first_room)
        last = _clipped(steps[-1], room - len(first))
    shown = [last]
    left = room - len(first) - len(last)
    for step in reversed(steps[1:-1]):
        block = _block(step)
        if len(block) + 2 > left:
            break
        left -= len(block) + 2
        shown.insert(0, block)
    skipped = steps[1 : len(steps) - len(shown)]
    return "\n\n".join([first, *_note(skipped, len(steps)), *shown])


def _note(skipped: Sequence[RunStep], total: int) -> list[str]:
    if not skipped:
        return []
    which = f"step {skipped[0].index}" if len(skipped) == 1 else f"steps {skipped[0].index} to {skipped[-1].index}"
    return [f"[{which} left out: {len(skipped)} of {total}]"[:_NOTE_CHARS]]


def _block(step: RunStep) -> str:
    return _laid_out(step.index, {name: getattr(step, name).strip("\n") for name in ("reasoning", "code", "output")})


def _laid_out(index: int, parts: Mapping[str, str]) -> str:
    lines = [f"Step {index}"]
    for name, text in parts.items():
        if text:
            lines += [f"{name.capitalize()}:", text]
    return "\n".join(lines) if len(lines) > 1 else f"Step {index}\n(nothing was recorded)"


def _clipped(step: RunStep, room: int) -> str:
    """The step within the room, its texts clipped alike; what one doesn't need goes to the others."""
    texts = {name: getattr(step, name).strip("\n") for name in ("reasoning", "code", "output")}
    texts = {name: text for name, text in texts.items() if text}
    left = room - len(_laid_out(step.index, dict.fromkeys(texts, "x"))) + len(texts)
    parts = dict(texts)
    for number, name in enumerate(sorted(texts, key=lambda name: len(texts[name]))):
        share = left // (len(texts) - number)
        parts[name] = clip(texts[name], share)
        left -= len(parts[name])
    return _laid_out(step.index, {name: text for name, text in parts.items() if text})[: max(room, 0)]


def clip(text: str, room: int) -> str:
    """The text, or its beginning and its end within `room` characters, cut between lines or words, and how much of it
    is left out between them.
    """
    if len(text) <= room:
        return text
    if room < _LEAST_CLIP_CHARS:
        return text[: max(room - 1, 0)] + "…"[: max(room, 0)]
    kept = room - _MARK_CHARS
    head = _beginning(text, kept * 3 // 5)
    tail = _end(text[len(head) :], kept - len(head))
    left_out = len(text) - len(head) - len(tail)
    return f"{head.rstrip()}\n[… {left_out:,} characters left out …]\n{tail.lstrip()}"


def _beginning(text: str, room: int) -> str:
    kept = text[:room]
    for mark in ("\n", " "):
        end = kept.rfind(mark)
        if end >= room // 2:
            return kept[: end + 1]
    return kept


def _end(text: str, room: int) -> str:
    kept = text[len(text) - room :]
    for mark in ("\n", " "):
        start = kept.find(mark)
        if 0 <= start < room // 2:
            return kept[start + 1 :]
    return kept
