"""How dspy puts questions into words and reads answers, within bounds: the adapter of every caller.

dspy's own adapter mends malformed JSON, which takes time that grows with the square of its length and more (66 s for
32,000 characters, seen), raises whatever mending raises, and makes blocks of the request (pictures, files to be
fetched) out of marks in any text that it is given. Here neither time nor errors are without bounds, and a text is a
text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from rbank_es import limits
from rbank_es.models.model import load_dspy

if TYPE_CHECKING:
    from dspy.adapters.chat_adapter import ChatAdapter

SHOWN_CHARS = 2_000
"""What an error shows of an answer that can't be read."""

_FENCE = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_OPENING = re.compile(r"[\[{]")


def adapter() -> ChatAdapter:
    """The adapter that every caller uses: one that makes no second call when an answer can't be parsed.

    Its `parse` raises dspy's `AdapterParseError` and nothing else.
    """
    made: ChatAdapter = _bounded()(use_json_adapter_fallback=False)
    return made


@cache
def _bounded() -> type[Any]:
    """The class of the adapter, made when it is asked for: it needs dspy."""
    dspy = load_dspy()

    class BoundedAdapter(dspy.ChatAdapter):  # type: ignore[name-defined,misc]
        """dspy's chat adapter: what goes in is text, what comes out is read within bounds."""

        def format_user_message_content(self, *arguments: Any, **named: Any) -> str:
            return untyped(super().format_user_message_content(*arguments, **named))

        def parse(self, signature: Any, completion: str) -> dict[str, Any]:
            typed = {name for name, field in signature.output_fields.items() if field.annotation is not str}
            try:
                read: dict[str, Any] = super().parse(signature, mendable(completion, typed))
            except dspy.AdapterParseError:
                raise
            except Exception as error:  # whatever mending raises, the answer can't be read
                told = f"{type(error).__name__}: {error}"
                raise dspy.AdapterParseError("ChatAdapter", signature, _shown(completion), _shown(told)) from None
            return read

    return BoundedAdapter


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters in all)"


# ---------------------------------------------------------------- what goes in


def unmarked(text: str) -> str:
    """A text in which nothing can be taken for the head of a field: `[[ ## name ## ]]`.

    For what others wrote: an agent's answer must not go on as the next field of the question about it.
    """
    return _HEADER.sub(r"[ [ ## \1 ## ] ]", text)


def untyped(content: str) -> str:
    """A message in which nothing can be taken for one of dspy's own types, which would become a part of its own."""
    from dspy.adapters.types import base_type

    for mark in (base_type.CUSTOM_TYPE_START_IDENTIFIER, base_type.CUSTOM_TYPE_END_IDENTIFIER):
        content = content.replace(mark, mark.strip("<>"))
    return content


# ---------------------------------------------------------------- what comes out


def mendable(completion: str, typed: set[str]) -> str:
    """An answer whose fields in `typed` can be read in bounded time: each is JSON, or at most `LM_MENDED_CHARS` long.

    Python's own notation, JSON in a fence, and JSON with words around it are written as JSON where a field is longer.
    Raises ValueError where a long field holds none.
    """
    if len(completion) <= limits.LM_MENDED_CHARS:
        return completion
    return "\n".join(_rewritten(completion, typed))


def _rewritten(completion: str, typed: set[str]) -> Iterator[str]:
    """The sections of an answer as dspy parts them, line by line."""
    name, lines = None, list[str]()
    for line in [*completion.splitlines(), None]:
        head = _HEADER.match(line.strip()) if line is not None else None
        if line is not None and head is None:
            lines.append(line)
            continue
        text = "\n".join(lines)
        yield _as_json(str(name), text) if name in typed and len(text) > limits.LM_MENDED_CHARS else text
        if line is None or head is None:
            return
        name, lines = head[1], [line[line.index(head[0]) + len(head[0]) :].strip()]
        yield head[0]


def _as_json(name: str, text: str) -> str:
    for read in (_strict, _fenced, _begun, ast.literal_eval):
        try:
            return json.dumps(read(text.strip()), ensure_ascii=True)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    most = limits.LM_MENDED_CHARS
    raise ValueError(f"{name} is no JSON, and with {len(text):,} characters too long to be mended ({most:,} at most)")


def _strict(text: str) -> Any:
    return json.loads(text, strict=False)


def _fenced(text: str) -> Any:
    found = _FENCE.search(text)
    return _strict(found[1] if found else "")


def _begun(text: str) -> Any:
    """The JSON that begins at the first bracket, whatever stands before and after it."""
    found = _OPENING.search(text)
    decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).raw_decode
    return decode(text, found.start())[0] if found else _strict("")
