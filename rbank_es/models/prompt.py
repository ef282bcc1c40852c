"""The prompt: instructions and fields as data, and the messages in which a model reads them.

The messages have the form of dspy's chat adapter, character for character: sections `[[ ## name ## ]]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rbank_es import limits
from rbank_es.system.text_cuts import cut

_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_STRUCTURE = "All interactions will be structured in the following way, with the appropriate values filled in."
END_MARKER = "[[ ## completed ## ]]"
"""What a model writes behind its last field."""

Message = dict[str, str]
"""A message of a conversation: its `role` (system, user, assistant) and its `content`."""


class Output(msgspec.Struct, frozen=True):
    """An output field: its description, its type in Python's notation, and the JSON schema of any type but text.

    `bound_by` is the JSON schema that its value has to keep in a reply by schema; by default `schema`, else a text.
    """

    desc: str = ""
    type: str = "str"
    schema: str = ""
    bound_by: str = ""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt: its name, its instructions, its input fields with their descriptions, and its output fields."""

    name: str
    instructions: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, Output]

    def telling(self, more: str) -> Prompt:
        """Return the prompt with a further paragraph of instructions; itself for an empty one."""
        return msgspec.structs.replace(self, instructions=f"{self.instructions}\n\n{more}") if more else self

    def messages(self, given: Mapping[str, str]) -> list[Message]:
        """Return the system's message and the user's, with the given text of each input field.

        Field markers are taken out of every text, because an agent's answer must not begin another field of the prompt.
        """
        parts = [f"[[ ## {name} ## ]]\n{unmarked(given[name])}" for name in self.inputs]
        user = "\n\n".join([*parts, self._reminder()]).strip()
        return [{"role": "system", "content": self._system()}, {"role": "user", "content": user}]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of a reply that is one object of the output fields.

        Bounds of lengths are left out: grammars that servers make of them are too large.
        """
        found: dict[str, Any] = {
            name: _unbounded(msgspec.json.decode(field.bound_by or field.schema or '{"type": "string"}'))
            for name, field in self.outputs.items()
        }
        # References begin at the root.
        named = [each.pop("$defs", {}) for each in found.values()]
        defined = {name: each for definitions in named for name, each in definitions.items()}
        made = {"type": "object", "properties": found, "required": [*found], "additionalProperties": False}
        return {**made, "$defs": defined} if defined else made

    def _system(self) -> str:
        inputs = _listed({name: ("str", desc) for name, desc in self.inputs.items()})
        outputs = _listed({name: (field.type, field.desc) for name, field in self.outputs.items()})
        places = [*(_place(name) for name in self.inputs), *(_place(*each) for each in self.outputs.items())]
        structure = "\n\n".join([_STRUCTURE, *places, END_MARKER])
        objective = "".join(f"\n        {line}" for line in self.instructions.splitlines())
        return (
            f"Your input fields are:\n{inputs}\nYour output fields are:\n{outputs}\n{structure}\n"
            f"In adhering to this structure, your objective is: {objective}"
        )

    def _reminder(self) -> str:
        typed = {name: field.type for name, field in self.outputs.items() if field.type != "str"}
        notes = {name: f" (must be formatted as a valid Python {type_})" for name, type_ in typed.items()}
        fields = ", then ".join(f"`[[ ## {name} ## ]]`{notes.get(name, '')}" for name in self.outputs)
        return (
            f"Respond with the corresponding output fields, starting with the field {fields}, and then ending with "
            f"the marker for `{END_MARKER}`."
        )


def asked_again(messages: Sequence[Message], reply: str, wrong: str) -> list[Message]:
    """Return a conversation that goes on with the model's reply, and with what was wrong with it.

    All that was said stays as it was, so that a provider's cache of the beginning holds, and no request is made twice.
    """
    most = limits.SHOWN_AGAIN_CHARS
    told = f"{cut(wrong, most)} Answer again, in the same form."
    return [*messages, {"role": "assistant", "content": cut(reply, most)}, {"role": "user", "content": told}]


def _unbounded(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_unbounded(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _unbounded(each) for name, each in schema.items() if name not in ("minLength", "maxLength")}


def _listed(fields: Mapping[str, tuple[str, str]]) -> str:
    lines = (f"{at}. `{name}` ({type_}): {desc}" for at, (name, (type_, desc)) in enumerate(fields.items(), 1))
    return "\n".join(lines).strip()


def _place(name: str, field: Output | None = None) -> str:
    schema = field.schema if field is not None else ""
    note = f"        # note: the value you produce must adhere to the JSON schema: {schema}" if schema else ""
    return f"[[ ## {name} ## ]]\n{{{name}}}{note}"


def unmarked(text: str) -> str:
    """Return a text without field headers (`[[ ## name ## ]]`)."""
    return _HEADER.sub(r"[ [ ## \1 ## ] ]", text)
