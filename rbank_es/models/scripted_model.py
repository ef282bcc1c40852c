"""The scripted model: turns that people wrote answer in place of a model. A script is TOML:

name = "demo"                      # optional; the script's subject

[[task]]
id = "names"                       # of the task, as in the file of tasks; "*" is any

[[task.agent]]                     # turns of one role, in order: agent, sub, judge, extractor
step = 1                           # optional: the step of the request
rollout = 0                        # optional: only in this rollout, from 0
expects = ["Which lights"]         # optional: words that the request must contain
reasoning = "Look at the classes first."
code = '''
classes = g_classes()
print(classes["classes"])
'''

[[task.agent]]                     # calls of tools, for the executor `tools`; beside `fields`, for it alone
reasoning = "Now the query."
calls = [{ tool = "sparql_query", args = { query = "SELECT ..." } }]

[[task.judge]]                     # any output fields; all but texts are written as JSON
fields = { success = true, reason = "The names are right." }

[[task.extractor]]
text = "a raw answer, without fields"

[[task.agent]]                     # a try that fails, with the code of `LmFailed`
error = "rate_limited"

A turn is one try. Turns are taken in order, except by sub-calls: these run side by side, and take the first turn left
that fits. A request that differs from the script is refused, with the difference.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rbank_es import limits
from rbank_es.errors import BadInput, LmFailed
from rbank_es.events.run_events import Role
from rbank_es.models.lm_request import LmMessage, LmResponse, canonical
from rbank_es.models.model_call import ModelAnswer, Question, RetryableFailure, Try, failed
from rbank_es.system.error_hints import MODEL_HINTS
from rbank_es.system.input_file import read_given
from rbank_es.system.toml_input import parse_toml
from rbank_es.system.validation_messages import reason_of

ANY_TASK = "*"

CHARS_A_TOKEN = 4
"""Tokens of a script are estimated by this rule of thumb, because reports should show a size."""

_LINE_ENDS = re.compile("[\x7f-\x9f\u2028\u2029]")
_TEMPORARY = ("rate_limited", "server_error", "unreachable", "bad_response")

Words = Annotated[str, Meta(min_length=1)]


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call of a tool, by the chat protocol."""

    tool: Words
    args: dict[str, Any] = {}


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One try: what its request must be like, and its answer."""

    step: Annotated[int, Meta(ge=1)] | None = None
    rollout: Annotated[int, Meta(ge=0)] | None = None
    expects: tuple[Words, ...] = ()
    reasoning: str | None = None
    code: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    fields: dict[str, Any] | None = None
    text: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        kinds = {
            "reasoning and code": self.reasoning is not None or self.code is not None,
            "fields": self.fields is not None,
            "text": self.text is not None,
            "error": self.error is not None,
        }
        if sum(kinds.values()) != 1 and (not self.calls or any(kinds.values())):
            raise ValueError(f"a turn has exactly one of {', '.join(kinds)}")
        if self.calls and (self.code is not None or kinds["text"] or kinds["error"]):
            raise ValueError("calls stand alone, or beside reasoning or fields")
        if self.error is not None and self.error not in MODEL_HINTS:
            raise ValueError(f"unknown error {self.error!r}; it may be {', '.join(MODEL_HINTS)}")

    @property
    def answer(self) -> str:
        """The answer in the form that dspy's chat adapter parses."""
        if self.text is not None:
            return self.text
        if self.fields is not None:
            return rendered(self.fields)
        return rendered({"reasoning": self.reasoning or "", "code": f"```python\n{(self.code or '').strip()}\n```"})

    def parts(self, offered: bool) -> list[dict[str, Any]]:
        """Return the parts of the response; `offered`: the request had tools, so the calls are made."""
        if not self.calls or (self.fields is not None and not offered):
            return [{"type": "text", "text": self.answer}]
        said = [{"type": "text", "text": self.reasoning}] if self.reasoning else []
        calls = [
            {"type": "tool_call", "id": f"call_{number}", "name": each.tool, "input": each.args}
            for number, each in enumerate(self.calls, 1)
        ]
        return [*said, *calls]


class ScriptedTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The turns of one task, by role."""

    id: Words
    agent: tuple[Turn, ...] = ()
    sub: tuple[Turn, ...] = ()
    judge: tuple[Turn, ...] = ()
    extractor: tuple[Turn, ...] = ()


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of scripted turns."""

    name: str = ""
    task: tuple[ScriptedTask, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Script:
        """Parse a file. Raises `BadInput` that says where it differs from the form above."""
        try:
            text = read_given(path, limits.LM_SCRIPT_BYTES).decode()
        except OSError as error:
            raise BadInput(f"{path}: the script can't be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadInput(f"{path}: the script is not UTF-8") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "script") -> Script:
        """Parse a text; `name` is its name in errors. Raises as `load`."""
        return _parsed(text, name)

    def turns(self, task: str, role: Role, rollout: int) -> list[Turn]:
        """Return the turns of a task in a role and rollout, in order: its own, else those of any task."""
        found = {each.id: each for each in self.task}
        chosen = found.get(task) or found.get(ANY_TASK)
        turns: tuple[Turn, ...] = getattr(chosen, role) if chosen else ()
        return [turn for turn in turns if turn.rollout in (None, rollout)]


# A run loads its script up to three times, and to parse that of 60 tasks takes 20 ms each time.
@lru_cache(maxsize=2)
def _parsed(text: str, name: str) -> Script:
    try:
        script = msgspec.convert(parse_toml(text), Script)
    except msgspec.ValidationError as error:
        raise BadInput(f"{name}: {reason_of(error, Script)}") from None
    except ValueError as error:
        raise BadInput(f"{name}: it is not TOML: {error}") from None
    # Two tables of one task would hide each other's turns.
    ids = [task.id for task in script.task]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        raise BadInput(f"{name}: the task {twice!r} is there twice")
    return script


def rendered(fields: dict[str, Any]) -> str:
    """Return output fields in the form that dspy's chat adapter parses."""
    parts = [
        f"[[ ## {name} ## ]]\n{value if isinstance(value, str) else _json(value)}" for name, value in fields.items()
    ]
    return "\n\n".join([*parts, "[[ ## completed ## ]]\n"])


def _json(value: Any) -> str:
    # Escape more than JSON does, because dspy's adapter splits lines at these characters too.
    return _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(value).decode())


class ScriptedModel:
    """A model that answers from a script, for one run of one task. Safe for several threads."""

    def __init__(self, script: Script, task: str, rollout: int = 0) -> None:
        self._script, self._task, self._rollout = script, task, rollout
        self._left: dict[Role, list[tuple[int, Turn]]] = {}
        self._mutex = threading.Lock()

    def prepare(self, question: Question) -> Try:
        """Return a try that takes a turn, and raises `LmFailed('script_mismatch')` where the request differs."""
        words = question.request.words
        return lambda: self._answered(self._taken(question, words), question, words)

    def close(self) -> None:
        """Do nothing."""

    @property
    def unused(self) -> tuple[str, ...]:
        """Turns that were not taken in roles that were asked, as `task, role, turn`."""
        with self._mutex:
            return tuple(f"{self._task}, {role}, turn {at}" for role, left in self._left.items() for at, _ in left)

    def _taken(self, question: Question, words: str) -> Turn:
        with self._mutex:
            if question.role not in self._left:
                turns = self._script.turns(self._task, question.role, self._rollout)
                self._left[question.role] = list(enumerate(turns, 1))
            left = self._left[question.role]
            if not left:
                raise self._mismatch(question, words, "no turn is left for it")
            fits = (at for at, (_, turn) in enumerate(left) if _difference(turn, question, words) is None)
            # Sub-calls run side by side, so only their set is known, not their order.
            at = next(fits, 0) if question.role == "sub" else 0
            number, turn = left[at]
            difference = _difference(turn, question, words)
            if difference is not None:
                raise self._mismatch(question, words, f"turn {number} {difference}")
            del left[at]
            return turn

    def _answered(self, turn: Turn, question: Question, words: str) -> ModelAnswer:
        if turn.error is not None:
            failure = failed(turn.error, "the script says so")
            # A retry takes the next turn, so a script can show that a call succeeds at last.
            raise RetryableFailure(failure) if turn.error in _TEMPORARY else failure
        message = LmMessage(role="assistant", parts=turn.parts(offered=bool(question.request.tools)))
        response = LmResponse(model=question.request.model, message=message, finish_reason="stop")
        said = response.text or canonical(message.parts)
        tokens = {"input_tokens": _tokens(words), "output_tokens": _tokens(said)}
        usage = {**tokens, "total_tokens": sum(tokens.values())}
        finish = "tool_call" if response.calls_tools else "stop"
        return ModelAnswer(msgspec.structs.replace(response, usage=usage, finish_reason=finish))

    def _mismatch(self, question: Question, words: str, difference: str) -> LmFailed:
        step = f", step {question.step}" if question.step is not None else ""
        shown = " ".join(words[-limits.LM_REQUEST_SHOWN_CHARS :].split()).rstrip(".")
        where = f"task {self._task!r}, {question.role}{step}"
        return failed("script_mismatch", f"{where}: {difference}; the request ends: …{shown}")


def _difference(turn: Turn, question: Question, words: str) -> str | None:
    """Return how a question differs from what a turn expects; None if it doesn't."""
    if turn.step is not None and turn.step != question.step:
        return f"is for step {turn.step}"
    absent = next((each for each in turn.expects if each not in words), None)
    return None if absent is None else f"expects {absent!r}, which the request doesn't hold"


def _tokens(text: str) -> int:
    return -(-len(text) // CHARS_A_TOKEN)
