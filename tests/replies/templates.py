"""Parts of replies: what a model concludes, what it doesn't, and how both are put together."""

from __future__ import annotations

import json

from hypothesis import strategies as st

VERDICTS = ("success", "failure", "undecided")
WHY = {"success": "All nine are there.", "failure": "Two rows are missing.", "undecided": "The rows are not shown."}

CONCLUSIONS = (
    lambda v: json.dumps({"verdict": v, "confidence": 0.9, "reason": WHY[v]}),
    lambda v: json.dumps({"reason": WHY[v], "verdict": v}, indent=2),
    lambda v: f"```json\n{json.dumps({'verdict': v, 'reason': WHY[v]})}\n```",
    lambda v: f"```\n{json.dumps({'verdict': v})}\n```",
    lambda v: f"[[ ## verdict ## ]]\n{v}\n\n[[ ## reason ## ]]\n{WHY[v]}\n\n[[ ## completed ## ]]",
    lambda v: f"[[ ## verdict ## ]] {v}\n\n[[ ## confidence ## ]] 0.9\n\n[[ ## reason ## ]] {WHY[v]}",
    lambda v: f"Verdict: {v}",
    lambda v: f"**Verdict**: {v}\n**Reason**: {WHY[v]}",
    lambda v: f"**Final verdict:** **{v}**\n\nReason: {WHY[v]}",
    lambda v: f"## Verdict\n\n{v}\n",
    lambda v: f"<verdict>{v}</verdict>",
    lambda v: f"My verdict is {v}.",
    lambda v: f"{{'verdict': '{v}', 'reason': 'r'}}",
)
"""Forms of a conclusion."""

THINKING = (
    ("<think>", "</think>"),
    ("<thinking>\n", "\n</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>\n", "\n</reasoning>"),
    ("<Analysis>", "</Analysis>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>\n", "\n<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)

SPOKEN = (
    "> {0}",
    'The answer holds "{0}", which is no evidence.',
    "The answer holds “{0}”.",
    "It ends with `{0}`.",
    "The agent wrote {0} at its end.",
    "The agent's answer is: {0}",
    "The submission contains {0}, an instruction to me.",
    "It says: {0}",
    "For example, {0} would need all rows.",
    "A reply such as {0} would be wrong.",
    "The expected format is {0}.",
    "An example of the form:\n{0}",
    "If all rows were there, I would answer {0}.",
    "Draft: {0}",
    "At first I leaned to {0}",
    "Maybe {0}?",
    "This is not {0}.",
    "<example>{0}</example>",
    "```python\nprint({0!r})\n```",
)
"""Sentences around a verdict that is not the model's own, or not any more."""

SHORT = (
    lambda v: json.dumps({"verdict": v}),
    lambda v: json.dumps({"verdict": v, "confidence": 1, "reason": "all right"}),
    lambda v: json.dumps({"reason": "it is so", "success": v == "success"}),
)

ECHOES = (
    '{"verdict": "success | failure | undecided"}',
    '{"verdict": "<success or failure>", "reason": "..."}',
    "verdict: success | failure",
    "[[ ## verdict ## ]]\n{verdict}\n\n[[ ## reason ## ]]\n{reason}",
    '{"type": "object", "properties": {"verdict": {"enum": ["success", "failure"], "default": "success"}}}',
    "<verdict>success or failure</verdict>",
)
"""Repetitions of the form that was asked for."""

LABELLED = ("Draft verdict: {0}", "Initial verdict: {0}", "Verdict: {0}?", "> Verdict: {0}", "> **Verdict**: {0}",
            "The agent's answer says `Verdict: {0}`.", 'It tells me: "Verdict: {0}".')  # fmt: skip

verdicts = st.sampled_from(VERDICTS)
conclusions = st.sampled_from(CONCLUSIONS)


@st.composite
def decoys(draw: st.DrawFn, verdict: str) -> str:
    """A part that names a verdict which is not the conclusion; complete in itself."""
    kind = draw(st.sampled_from(("thought", "spoken", "labelled", "echo")))
    if kind == "thought":
        before, after = draw(st.sampled_from(THINKING))
        return f"{before}Maybe so.\n{draw(conclusions)(verdict)}\nOr not.{after}"
    if kind == "spoken":
        return draw(st.sampled_from(SPOKEN)).format(draw(st.sampled_from(SHORT))(verdict))
    return draw(st.sampled_from(LABELLED)).format(verdict) if kind == "labelled" else draw(st.sampled_from(ECHOES))
