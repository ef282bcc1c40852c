"""What every executor tells its agent: the task's fields, and the tools. Importing this module loads dspy."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.signatures.signature import make_signature

from rbank_es.tools.runtime.toolbox import Toolbox


class Task(dspy.Signature):
    """Answer the question from the data that the tools reach. `context` says how to work and what is known."""

    context: str = dspy.InputField(desc="How to work, and what is known so far")
    question: str = dspy.InputField(desc="What is to be answered")
    answer: str = dspy.OutputField(desc="The answer, in words")
    sparql: str = dspy.OutputField(desc="The SPARQL query that the answer rests on; empty if there is none")
    evidence: dict[str, Any] = dspy.OutputField(desc="Keys of handles, and IRIs, that the answer rests on")


def manual_of(tools: Toolbox) -> str:
    """Every tool as the agent is told about it, a line each, in the order of the toolbox."""
    lines = (f"- `{each.usage}` - {' '.join(each.doc.split())}" for each in tools.manual())
    return "\n".join(lines)


def shortened(output: str, most_chars: int) -> str:
    """An output as a prompt shows it: whole, or its head and tail with what is left out named."""
    if len(output) <= most_chars:
        return output
    head = most_chars // 2
    tail = most_chars - head
    left_out = f"\n... ({len(output) - most_chars:,} characters left out) ...\n"
    return output[:head] + left_out + (output[-tail:] if tail else "")


def signature_of(told: str) -> Any:
    """A signature with the task's inputs and these instructions, to which fields are appended."""
    fields: Any = Task.input_fields
    return make_signature(fields, told)


def extract_signature(history: str, desc: str) -> Any:
    """The signature of the last call of a run without a submission: the inputs and the `history`, then the answer."""
    told = f"{Task.instructions}\n\nYour steps are used up: give the answer that they lead to."
    fields: Any = Task.fields
    return make_signature(fields, told).insert(2, history, dspy.InputField(desc=desc), str)
