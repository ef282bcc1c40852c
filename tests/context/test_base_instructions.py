"""Base instructions: what every agent is told, whatever it knows."""

from __future__ import annotations

import pytest

from rbank_es.context.base_instructions import base_instructions
from rbank_es.errors import BadInput


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(BadInput, match="auto, tools, both"):
        base_instructions("manual")  # type: ignore[arg-type]
