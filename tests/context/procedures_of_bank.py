"""The procedures of a bank at a point, as layer L2 and a recall have them."""

from __future__ import annotations

from typing import Any

from rbank_es import Bank
from rbank_es.context import procedures as layer
from rbank_es.context.layer_text import LayerText


def procedures(bank: Bank, task: str, *, point: str | int | None = None, **wanted: Any) -> LayerText:
    with bank.as_of(point) as view:
        return layer.procedures(view, task, **wanted)
