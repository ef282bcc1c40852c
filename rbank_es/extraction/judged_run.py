"""A judged run as an extractor sees it: the run, its steps, the judgment, and the steps as text within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import Reliance, StepTaken, ToolCalled
from rbank_es.events.run_events import Outcome, VerdictValue, has_source, source_of, verdict_value
from rbank_es.log.run_reader import RunEvents, read_run

if TYPE_CHECKING:
    from rbank_es.bank import Bank

_NOTE_CHARS = 60
"""Room for the note on omitted steps."""

_MARK_CHARS = 40
"""Room for the note on omitted characters of a text."""

_LEAST_CLIP_CHARS = 80
"""A text with less room than this is truncated at its end: a note would take half of it."""

_TEXTS = ("reasoning", "code", "output")

UNREAD = frozenset({"unreadable", "bad_response", "no_code"})
"""Error codes of steps in which nothing was done, because the reply could not be read or held nothing to do."""


class PastStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an agent: its reasoning, its code and the output. `index` counts from 1.

    `unread`: the model's reply could not be read, so that nothing was done. `failed`: what was done failed.
    """

    index: int
    reasoning: str = ""
    code: str = ""
    output: str = ""
    unread: bool = False
    failed: bool = False

    @classmethod
    def of(cls, given: Any, index: int) -> PastStep:
        """Return the step that a mapping's keys or an object's attributes describe; `index` if it has none."""
        own, fault = _get(given, "index"), _get(given, "fault")
        faulty = isinstance(fault, str) and fault != ""
        unread, failed = (
            _get(given, "unread") is True or (faulty and fault in UNREAD),
            faulty or _get(given, "failed") is True,
        )
        texts = {name: _text(_get(given, name)) for name in _TEXTS}
        return cls(index=own if isinstance(own, int) else index, unread=unread, failed=failed, **texts)


class PastRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a task with its steps. `domain` is that of the task, `source` the ontology or endpoint that it asked."""

    task: str
    run: str = ""
    answer: str = ""
    sparql: str = ""
    outcome: Outcome = "submitted"
    error: str = ""
    domain: str | None = None
    source: str | None = None
    steps: tuple[PastStep, ...] = ()

    @classmethod
    def of(cls, result: Any, task: str) -> PastRun:
        """Return the run that a mapping's keys or an object's attributes describe.

        They are `answer`, `sparql`, `steps` or `trajectory`, `outcome` or `converged`, `run`, `error`, `domain` and
        `source`. A `PastRun` is returned as it is, with this task.
        """
        if isinstance(result, PastRun):
            return msgspec.structs.replace(result, task=task)
        steps = _get(result, "steps") or _get(result, "trajectory") or ()
        converged = _get(result, "converged") is not False
        texts = {name: _get(result, name) for name in ("run", "answer", "sparql", "error", "domain", "source")}
        known = {name: text for name, text in texts.items() if isinstance(text, str) and text}
        return cls(
            task=task,
            outcome=_get(result, "outcome") or ("submitted" if converged else "forced_at_limit"),
            steps=tuple(PastStep.of(step, number) for number, step in enumerate(steps, 1)),
            **known,
        )

    @property
    def over_source(self) -> bool:
        """Whether it is about an ontology or an endpoint: see `has_source`."""
        return has_source(self.source, self.sparql)

    @property
    def empty(self) -> bool:
        """Whether the agent did nothing from which anything could be learned: it acted in no step that could be read.

        Without any step, an answer is an act; behind unread ones it is a guess. A run without an answer needs a step
        that succeeded: all else shows how tools are not called, which they said themselves.
        """
        if self.steps:
            without_answer = self.outcome == "failed"
            return all(step.unread or (without_answer and step.failed) for step in self.steps)
        return not (self.answer.strip() or self.sparql.strip())

    @property
    def ending(self) -> str:
        """How the run ended, in the words of the prompt."""
        if self.outcome == "failed":
            return f"it failed: {self.error or 'no reason was recorded'}"
        if self.outcome == "forced_at_limit":
            return "it used up its steps, and was made to answer"
        return "the agent submitted an answer"


class Judgment(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict for learning.

    `learnable` is False for a success whose query or answer names terms that the ontology doesn't have. `unsure` says
    why a model's verdict isn't confident enough to learn from; it is empty for others. `event` is the id of the event
    that records the verdict.
    """

    verdict: VerdictValue
    reason: str = ""
    learnable: bool = True
    unsure: str = ""
    event: str | None = None

    @classmethod
    def of(cls, given: Any, event: str | None = None) -> Judgment:
        """Return the verdict that a mapping's keys or an object's attributes describe.

        Either has a `verdict`, or `success` (True, False, or a word). Raises `BadInput` for anything else, and for the
        purpose scoring: nothing is ever learned from such a verdict.
        """
        if isinstance(given, Judgment):
            return given if event is None else msgspec.structs.replace(given, event=event)
        if _get(given, "purpose") == "scoring":
            raise BadInput("a scoring judgment only measures; give the judgment that was made for learning")
        told = verdict_value(_get(given, "verdict")) or verdict_value(_get(given, "success"))
        reason = _get(given, "reason")
        if told is None:
            raise BadInput("a judgment must say whether the run was a success: True, False or 'undecided'")
        return cls(
            verdict=told,
            reason=reason if isinstance(reason, str) else "",
            learnable=_get(given, "learnable") is not False,
            event=event,
        )

    def relied(self, run: str) -> Reliance:
        """Return the record that an extraction from that run relied on this verdict."""
        return Reliance(run=run, verdict=self.verdict, judgment=self.event)

    def bar(self, *, grounded: bool) -> tuple[str, str] | None:
        """Return why nothing may be learned from it, as a code and words; None if it may.

        `grounded` is the extraction policy's setting.
        """
        if self.verdict == "undecided":
            return "undecided", self.reason or "nobody decided whether the run succeeded"
        if self.unsure:
            return "unsure", self.unsure
        if grounded and self.verdict == "success" and not self.learnable:
            return "ungrounded", self.reason or "it names what the ontology doesn't have"
        return None


def _get(given: Any, name: str) -> Any:
    """Return a mapping's value, or another object's attribute; None if there is none."""
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    # Lone surrogates can't be encoded, so no request could hold them.
    return text.encode("utf-8", "replace").decode().replace("\r\n", "\n")


# ---------------------------------------------------------------- from a bank


def past_run(bank: Bank, run: str) -> PastRun:
    """Return a run from its events. An unfinished run counts as failed; erased texts are empty.

    The steps of a run of which none were recorded are its calls of tools. Those of a run without a source are both, in
    order. Raises `NotInBank` if no such run started.
    """
    events = read_run(bank.log, run, types={"run_started", "step_taken", "tool_called", "run_finished"})
    started, finished = events.started, events.end
    if started is None:
        raise NotInBank(run, bank.position)
    end: dict[str, Any] = {"outcome": "failed", "error": "the run did not finish"}
    if finished is not None:
        texts = {name: bank.text(getattr(finished, name)) or "" for name in ("answer", "sparql", "error")}
        end = {"outcome": finished.outcome, **texts}
    made = PastRun(
        task=bank.text(started.task) or "",
        run=run,
        domain=started.ontology,
        source=source_of(started.ontology, started.endpoint, started.executor, started.mode),
        **end,
    )
    return msgspec.structs.replace(made, steps=_acts(bank, events, over_source=made.over_source))


def _acts(bank: Bank, events: RunEvents, *, over_source: bool) -> tuple[PastStep, ...]:
    # Over a source, the output of a step shows its calls; other agents may record both, each with its own words.
    if events.steps and (over_source or not events.calls):
        return tuple(_recorded(bank, step) for step in events.steps)
    acts = (event for event in events.events if isinstance(event, StepTaken | ToolCalled))
    return tuple(_act(bank, act, index) for index, act in enumerate(acts, 1))


def _act(bank: Bank, act: StepTaken | ToolCalled, index: int) -> PastStep:
    if isinstance(act, ToolCalled):
        return _called(bank, act, index)
    return msgspec.structs.replace(_recorded(bank, act), index=index)


def _recorded(bank: Bank, event: StepTaken) -> PastStep:
    texts = {name: bank.text(getattr(event, name)) or "" for name in _TEXTS}
    fault = event.error_code
    said = {name: _previewed(event, name, text) for name, text in texts.items()}
    return PastStep(index=event.index, unread=fault in UNREAD, failed=fault is not None, **said)


def _called(bank: Bank, event: ToolCalled, index: int) -> PastStep:
    arguments = _previewed(event, "arguments", bank.text(event.arguments) or "")
    given = bank.text(event.error) if event.error_code else bank.text(event.result)
    return PastStep(index=index, code=f"{event.tool}({arguments})", output=_previewed(event, "result", given or ""))


def _previewed(event: StepTaken | ToolCalled, name: str, text: str) -> str:
    return f"{text}…" if name in event.previews and text else text


# ---------------------------------------------------------------- as text


def format_trajectory(steps: Iterable[Any], budget_chars: int = limits.EXTRACTION_TRAJECTORY_CHARS) -> str:
    """Return steps as a text of at most `budget_chars` characters: the first, and as many of the last as fit.

    A step is anything with `reasoning`, `code` and `output`, or a mapping with these keys. Steps that don't fit are
    truncated between lines or words, and omissions are counted in the text. No steps, or a budget below
    `limits.EXTRACTION_TRAJECTORY_LEAST_CHARS`, give an empty text. Raises `BadInput` for a budget below 0.
    """
    if budget_chars < 0:
        raise BadInput(f"a budget of {budget_chars} characters can't be kept; give 0 or more")
    given = [PastStep.of(step, number) for number, step in enumerate(steps, 1)]
    whole = "\n\n".join(map(_block, given))
    if len(whole) <= budget_chars:
        return whole
    if budget_chars < limits.EXTRACTION_TRAJECTORY_LEAST_CHARS:
        return ""
    if len(given) == 1:
        return _clipped(given[0], budget_chars)
    return _first_and_last(given, budget_chars)


def _first_and_last(steps: Sequence[PastStep], budget_chars: int) -> str:
    room = budget_chars - (_NOTE_CHARS + 2 if len(steps) > 2 else 0) - 2
    first, last = _block(steps[0]), _block(steps[-1])
    if len(first) + len(last) > room:
        # The last step gets two thirds, because the end of a run explains its verdict best.
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


def _note(skipped: Sequence[PastStep], total: int) -> list[str]:
    if not skipped:
        return []
    which = f"step {skipped[0].index}" if len(skipped) == 1 else f"steps {skipped[0].index} to {skipped[-1].index}"
    return [f"[{which} left out: {len(skipped)} of {total}]"[:_NOTE_CHARS]]


def _block(step: PastStep) -> str:
    return _laid_out(step.index, {name: getattr(step, name).strip("\n") for name in _TEXTS})


def _laid_out(index: int, parts: Mapping[str, str]) -> str:
    lines = [f"Step {index}"]
    for name, text in parts.items():
        if text:
            lines += [f"{name.capitalize()}:", text]
    return "\n".join(lines) if len(lines) > 1 else f"Step {index}\n(nothing was recorded)"


def _clipped(step: PastStep, room: int) -> str:
    """Return a step within the room, which its texts share equally; shorter texts leave their rest to longer ones."""
    texts = {name: text for name in _TEXTS if (text := getattr(step, name).strip("\n"))}
    # Measure the headings with one character for each text, and count these characters back.
    left = room - len(_laid_out(step.index, dict.fromkeys(texts, "x"))) + len(texts)
    parts = dict(texts)
    # Shortest first, so that their unused room is known before the longer ones get theirs.
    for number, name in enumerate(sorted(texts, key=lambda name: len(texts[name]))):
        parts[name] = clip(texts[name], left // (len(texts) - number))
        left -= len(parts[name])
    return _laid_out(step.index, {name: text for name, text in parts.items() if text})[:room]


def clip(text: str, room: int) -> str:
    """Return a text, truncated in its middle to `room` characters: between lines or words, with a note in between."""
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
