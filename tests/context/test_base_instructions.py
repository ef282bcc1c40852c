"""Base instructions: what every agent is told, whatever it knows."""

from __future__ import annotations

from typing import get_args

import pytest

from rbank_es import limits
from rbank_es.context.base_instructions import GENERAL_VERSION, VERSION, base_instructions
from rbank_es.context.layer import LAYERS
from rbank_es.context.layer_text import SEPARATOR
from rbank_es.errors import BadInput
from rbank_es.events.run_events import Mode

MODES: tuple[Mode, ...] = get_args(Mode)


@pytest.mark.parametrize(("source", "version"), [(True, VERSION), (False, GENERAL_VERSION)])
@pytest.mark.parametrize("memory_graph", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_they_fit_whole_and_leave_room_for_what_parts_the_layers(
    mode: Mode, memory_graph: bool, source: bool, version: str
) -> None:
    packed = base_instructions(mode, memory_graph=memory_graph, source=source)
    assert ("memory_query" in packed.text) == memory_graph
    assert not packed.truncated
    assert len(packed.text) + len(LAYERS) * len(SEPARATOR) <= limits.CONTEXT_BASE_CHARS
    assert packed.text.startswith(f"# How to work ({version})\n")


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(BadInput, match="auto, tools, both"):
        base_instructions("manual")  # type: ignore[arg-type]
