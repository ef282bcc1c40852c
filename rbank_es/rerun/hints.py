"""What may have changed where a rerun differs: words for people, from the event and the field that differ."""

from __future__ import annotations

from rbank_es.events import ContextBuilt, Event, LmCalled, MemoriesRead, MemoriesRetrieved, RunStarted, StepTaken
from rbank_es.events.run_events import ToolCalled

_CONTEXT = {
    "base": "the base instructions are part of the code: another release words them otherwise",
    "L0": "the sense card is made of the ontology: it, or the code that describes it, may have changed",
    "L1": "constraints are made of the ontology and a curated file: one of them, or the code, may have changed",
    "L2": "procedures are chosen by the retrieval policy: it, or the code that packs them, may have changed",
    "L3": "the guide, or the code that packs it, may have changed",
}
_ORDER = "the run took another turn: see the event before it; the code of the executor may have changed"
_REQUEST = "the prompt changed: by the code, the tools' manuals, or another version of dspy"
_TOOL = "the tool answered otherwise: its code, the ontology, or the bank that it read may have changed"


def hint_for(event: Event, field: str) -> str:
    """What may have changed, where a field of this recorded event differs."""
    if field == "type":
        return _ORDER
    if isinstance(event, ContextBuilt):
        return _context_hint(event, field)
    if isinstance(event, LmCalled):
        return _REQUEST if field.startswith(("request", "parameters")) else _ORDER
    if isinstance(event, ToolCalled):
        return _ORDER if field.startswith(("tool", "arguments", "step", "call")) else _TOOL
    if isinstance(event, (MemoriesRetrieved, MemoriesRead)):
        return "the retrieval policy, the code of the index, or the bank before the run may have changed"
    if isinstance(event, RunStarted):
        return "the run was started with other settings: they, or the code that records them, changed"
    if isinstance(event, StepTaken):
        return "the executor shows or measures the step otherwise: its code may have changed"
    return "the code may have changed"


def live_hint(type_: str) -> str:
    """What likely made an event of this type differ where the code of the agent ran again; nothing for others."""
    if type_ not in ("step_taken", "lm_called", "tool_called", "run_finished"):
        return ""
    return (
        "the agent's code ran again, and may give something else each time (the time, chance, an order); or " + _ORDER
    )


def _context_hint(event: ContextBuilt, field: str) -> str:
    """Of the layer that the field is about, where it names one: `texts[1], character 20`."""
    inside = field.partition("[")[2].partition("]")[0]
    at = int(inside) if inside.isdecimal() else len(event.layers)
    layer = event.layers[at].layer if at < len(event.layers) else ""
    return _CONTEXT.get(layer, "the layers, their budgets, or the code that packs them may have changed")
