"""The model that is a function of the caller's own, from a prompt's text to a reply's text.

The prompt is the texts of all messages in order, a blank line between two: the instructions first; before an earlier
reply of the model's own stands the line `Your last reply:`. Tools that it may call stand behind the instructions,
a line of JSON each; its reply calls one as JSON, and so do its earlier replies in the prompt.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import json

from rbank_es import limits
from rbank_es.errors import LmFailed
from rbank_es.models.answer_bounds import run_within
from rbank_es.models.lm_request import LmMessage, LmRequest, LmResponse, canonical
from rbank_es.models.model_call import ModelAnswer, Question, Try, failed, said_by
from rbank_es.models.model_choice import FUNCTION, LmChoice

Complete = Callable[[str], str]
"""A function from a prompt's text to a reply's text."""

LAST_REPLY = "Your last reply:"
CALLING = """\
The tools, a line of JSON each. To call one, reply with nothing but {"name": "THE TOOL", "arguments": {…}}; to call
several, with a list of such objects."""


def choice_of(complete: Complete) -> LmChoice:
    """Return the choice under which the calls of a function are recorded: `function:NAME`, by its own name."""
    name = str(getattr(complete, "__name__", type(complete).__name__))
    return LmChoice(model=f"{FUNCTION}{name[: limits.NAME_CHARS - len(FUNCTION)]}")


class FunctionModel:
    """A model over a function. Each call runs in a thread, and is left after `timeout_s`."""

    def __init__(self, complete: Complete, timeout_s: float = limits.LM_TIME_S) -> None:
        self._complete, self._timeout_s = complete, timeout_s

    def prepare(self, question: Question) -> Try:
        """Return a try that calls the function once."""
        prompt = prompt_of(question.request)
        return lambda: self._once(prompt, question.request)

    def close(self) -> None:
        """Do nothing."""

    def _once(self, prompt: str, request: LmRequest) -> ModelAnswer:
        try:
            text: Any = run_within(self._timeout_s, lambda: self._complete(prompt))
        except LmFailed:
            raise
        except Exception as error:
            said = said_by(str(error))
            raise failed("bad_function", f"{request.model} raised {type(error).__name__}{said}") from error
        if not isinstance(text, str):
            if inspect.iscoroutine(text):
                text.close()  # else Python warns that nobody awaited it
            kind = "None" if text is None else f"a value of the type {type(text).__name__}"
            raise failed("bad_function", f"{request.model} returned {kind}, and no text")
        # Refused before it is copied: a record holds less.
        if len(text) > limits.LM_RESPONSE_CHARS:
            most = limits.LM_RESPONSE_CHARS
            raise failed("response_too_long", f"the answer has {len(text):,} characters; {most:,} are taken")
        # A text of a class of its own can't be encoded.
        message = LmMessage.of("assistant", str.__str__(text))
        return ModelAnswer(LmResponse(model=request.model, message=message, finish_reason="stop"))


def prompt_of(request: LmRequest) -> str:
    """Return the messages of a request as one text, with its tools."""
    said = [
        f"{LAST_REPLY}\n{text}" if message.role == "assistant" else text
        for message in request.messages
        for text in ["\n".join(_texts_of(message))]
    ]
    tools = "\n".join([CALLING, *map(canonical, request.tools)]) if request.tools else ""
    return "\n\n".join(filter(None, [str(request.system or ""), tools, *said]))


def _texts_of(message: LmMessage) -> Iterator[str]:
    for part in message.parts:
        if part.get("type") == "tool_call":
            yield json.encode({"name": part["name"], "arguments": part["input"]}).decode()
        elif part.get("type") == "tool_result":
            answer = "".join(str(each.get("text", "")) for each in part["content"])
            yield f"{part['name']} answered: {answer}"
        else:
            yield str(part.get("text", ""))
