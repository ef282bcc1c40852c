"""The dspy adapter of every caller: it formats questions as text, and parses answers in bounded time.

dspy's own adapter repairs malformed JSON in more than quadratic time (66 s for 32,000 characters), and raises all
errors of the repair. It also turns marks in any text into blocks of the request (images, files to fetch). This adapter
bounds time and errors, and text stays text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.models.dspy_calls import load_dspy
from rbank_es.models.prompt import Prompt

if TYPE_CHECKING:
    from dspy.adapters.chat_adapter import ChatAdapter

_FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_OPENING = re.compile(r"[\[{]")


def adapter() -> ChatAdapter:
    """Return the adapter of all callers. It makes no second call when an answer can't be parsed.

    Its `parse` raises dspy's `AdapterParseError` and nothing else.
    """
    made: ChatAdapter = _bounded_adapter()(use_json_adapter_fallback=False)
    return made


@cache
def _bounded_adapter() -> type[Any]:
    # Defined on first use, because its base class loads dspy.
    dspy = load_dspy()

    class BoundedAdapter(dspy.ChatAdapter):  # type: ignore[name-defined,misc]
        """dspy's chat adapter, with text-only messages and bounded parsing."""

        def format_user_message_content(self, *arguments: Any, **named: Any) -> str:
            return untyped(super().format_user_message_content(*arguments, **named))

        def parse(self, signature: Any, completion: str) -> dict[str, Any]:
            typed = {name for name, field in signature.output_fields.items() if field.annotation is not str}
            try:
                read: dict[str, Any] = super().parse(signature, repairable(completion, typed))
            # Unchanged, because executors read from it which fields the answer had.
            except dspy.AdapterParseError:
                raise
            except Exception as error:  # the repair may raise anything
                reason = f"{type(error).__name__}: {error}"
                raise dspy.AdapterParseError("ChatAdapter", signature, _shown(completion), _shown(reason)) from None
            return read

    return BoundedAdapter


def _shown(text: str) -> str:
    most = limits.LM_ANSWER_SHOWN_CHARS
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters in all)"


# ---------------------------------------------------------------- questions


def signature_of(prompt: Prompt, types: Mapping[str, Any]) -> Any:
    """Return a prompt as dspy's signature, for programs that use it; `types` are those of outputs that are no texts.

    Loads dspy; raises `MissingExtra` without it.
    """
    dspy = load_dspy()
    fields: dict[str, Any] = {name: (str, dspy.InputField(desc=desc)) for name, desc in prompt.inputs.items()}
    for name, field in prompt.outputs.items():
        fields[name] = (types.get(name, str), dspy.OutputField(desc=field.desc))
    return dspy.make_signature(fields, prompt.instructions, prompt.name)


def untyped(content: str) -> str:
    """Return a message without dspy's marks of typed blocks, which would become parts of their own."""
    from dspy.adapters.types import base_type

    for mark in (base_type.CUSTOM_TYPE_START_IDENTIFIER, base_type.CUSTOM_TYPE_END_IDENTIFIER):
        content = content.replace(mark, mark.strip("<>"))
    return content


# ---------------------------------------------------------------- answers


def repairable(completion: str, typed: set[str]) -> str:
    """Return an answer that dspy parses in bounded time: `typed` fields are JSON, or `LM_REPAIRED_CHARS` at most.

    Longer fields in Python's notation, in a fence, or with words around them are rewritten as JSON. Raises ValueError
    for a long field that holds none.
    """
    if len(completion) <= limits.LM_REPAIRED_CHARS:
        return completion
    return "\n".join(_rewritten(completion, typed))


def _rewritten(completion: str, typed: set[str]) -> Iterator[str]:
    """Yield the sections of an answer, split at headers as dspy does."""
    name, lines = None, list[str]()
    # None stands for the end, which yields the last section as a header yields the one before it.
    for line in [*completion.splitlines(), None]:
        head = _HEADER.match(line.strip()) if line is not None else None
        if line is not None and head is None:
            lines.append(line)
            continue
        text = "\n".join(lines)
        yield _as_json(str(name), text) if name in typed and len(text) > limits.LM_REPAIRED_CHARS else text
        if line is None or head is None:
            return
        name, lines = head[1], [line[line.index(head[0]) + len(head[0]) :].strip()]
        yield head[0]


def _as_json(name: str, text: str) -> str:
    for parse in (_plain_json, _fenced_json, _embedded_json, ast.literal_eval):
        try:
            return json.dumps(parse(text.strip()), ensure_ascii=True)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    most = limits.LM_REPAIRED_CHARS
    raise ValueError(f"{name} is no JSON, and with {len(text):,} characters too long to be mended ({most:,} at most)")


def _plain_json(text: str) -> Any:
    return json.loads(text, strict=False)


def _fenced_json(text: str) -> Any:
    found = _FENCE.search(text)
    return _plain_json(found[1] if found else "")


def _embedded_json(text: str) -> Any:
    """Parse the JSON at the first bracket, and ignore the words around it."""
    found = _OPENING.search(text)
    decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).raw_decode
    return decode(text, found.start())[0] if found else _plain_json("")
