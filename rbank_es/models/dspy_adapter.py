"""The dspy adapter of every caller: it formats questions as text, and parses answers in bounded time.

dspy's own adapter repairs malformed JSON in more than quadratic time (66 s for 32,000 characters), and raises all
errors of the repair. It also turns marks in any text into blocks of the request (images, files to fetch). This adapter
bounds time and errors, and text stays text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, get_origin

from rbank_es import limits
from rbank_es.models.agent_forms import THOUGHTS, fields_in, is_placeholder
from rbank_es.models.dspy_calls import load_dspy
from rbank_es.models.prompt import Prompt
from rbank_es.models.reply_syntax import COMPLETED, after_thinking, decoded_at, means_nothing, sections_of

if TYPE_CHECKING:
    from dspy.adapters.chat_adapter import ChatAdapter

_OPENING = re.compile(r"[\[{]")


def adapter() -> ChatAdapter:
    """Return the adapter of all callers. It makes no second call when an answer can't be parsed.

    Its `parse` reads the fields of an answer up to its end marker; those with a default may be missing, or say nothing.
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
            """Return the fields of an answer. Raises `AdapterParseError`, in words for the model, and nothing else."""
            from dspy.adapters.utils import apply_output_field_defaults

            types = {name: field.annotation for name, field in signature.output_fields.items()}
            optional = {name for name, field in signature.output_fields.items() if not field.is_required()}
            thoughts = {name for name in types if name in THOUGHTS}
            found, said = dict[str, Any](), answered_fields(completion, types)
            if said and not any(map(str.strip, said.values())):
                raise dspy.AdapterParseError("ChatAdapter", signature, _shown(completion), "each field is empty")
            for name, text in said.items():
                if name in optional and means_nothing(text):
                    continue
                try:
                    found[name] = text if types[name] is str else _typed(name, text, types[name])
                except ValueError as error:
                    if name not in optional:
                        raise dspy.AdapterParseError("ChatAdapter", signature, _shown(completion), str(error)) from None
                    found[name] = text
            read: dict[str, Any] = apply_output_field_defaults(signature, {**dict.fromkeys(thoughts, ""), **found})
            if read.keys() != types.keys():
                raise dspy.AdapterParseError("ChatAdapter", signature, _shown(completion), parsed_result=read)
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


def answered_fields(completion: str, outputs: Collection[str]) -> dict[str, str]:
    """Return the text of each output field that an answer has: the first of a name, up to the end marker.

    A name with a number is read without it, because models imitate the history of their steps. What a model thinks
    aloud before its answer is left out, and a placeholder is no text. An answer without headers may have another form.
    """
    text = after_thinking(completion)
    found = dict[str, str]()
    for section in sections_of(text, outputs):
        if section.name == COMPLETED and found:
            break
        if section.name in outputs:
            found.setdefault(section.name, section.value)
    said = {name: value for name, value in found.items() if not is_placeholder(value) or means_nothing(value)}
    return said if found else fields_in(text, outputs)


def _typed(name: str, text: str, annotation: Any) -> Any:
    """Return the value of a field that is no text. Raises ValueError in words for the model."""
    from dspy.adapters.utils import parse_value

    if get_origin(annotation) is dict and means_nothing(text):
        return {}
    repairable = text if len(text) <= limits.LM_REPAIRED_CHARS else _as_json(name, text)
    try:
        return parse_value(repairable, annotation)
    except Exception:  # the repair may raise anything
        wanted = "a JSON object" if get_origin(annotation) is dict else "of the form that was asked for"
        raise ValueError(f"`{name}` is not {wanted}") from None


def _as_json(name: str, text: str) -> str:
    """Return the value at the first bracket of a text, or that in Python's notation which all of it is, as JSON."""
    opening = _OPENING.search(text)
    found = decoded_at(text, opening.start()) if opening is not None else None
    # A name with two values is a `TypeError`.
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return json.dumps(found[0] if found is not None else ast.literal_eval(text.strip()))
    most = limits.LM_REPAIRED_CHARS
    raise ValueError(f"{name} is no JSON, and with {len(text):,} characters too long to be mended ({most:,} at most)")
