"""The support of tool calls: found out before the first run, because a server may ignore `tools` without a word.

What a server says of itself decides; else one call, which is recorded, and is kept in the user's cache if it succeeds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from rbank_es.models.lm_request import LmMessage, Tool
from rbank_es.models.model_call import failed
from rbank_es.models.server_properties import keep

if TYPE_CHECKING:
    from rbank_es.events.server_traits import ServerTraits
    from rbank_es.models.run_models import Lms

_PROBE: Tool = {
    "type": "function",
    "name": "ready",
    "description": "Report that you can call tools.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}
"""The tool of the one call."""

_ASKED = "Call the tool `ready` with the word `yes`. Write nothing else."


def calls_tools(lms: Lms) -> bool:
    """Ask the agent's model once to call a tool, and return whether it did. Raises `LmFailed`."""
    asked = LmMessage.of("user", "Are you ready?")
    return lms.converse("agent", _ASKED, [asked], [_PROBE], temperature=0.0).calls_tools


def require_tool_calls(lms: Lms) -> ServerTraits:
    """Return what is known of the agent's model at its server, now that it takes tool calls.

    Raises `LmFailed('no_tools')` if it does not, and other failures of the one call as they are.
    """
    traits, known = lms.traits("agent"), lms.takes_tools("agent")
    why = "says that it shows the model no tools"
    if known is None:
        known = calls_tools(lms)
        why = "answered in words when the model was asked to call a tool"
        if known:
            day = datetime.now(UTC).date().isoformat()
            traits = msgspec.structs.replace(traits, tools=True, tried_on=day)
            keep(lms.choice("agent"), traits)
    if not known:
        name = lms.choice("agent").name
        raise failed("no_tools", f"{name}: its server {why}, so it would never see the tools of a run")
    return traits
