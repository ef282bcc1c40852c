"""A packed layer of a context, apart from how layers are made: a hook has no time to import that."""

from __future__ import annotations

from typing import NamedTuple

from rbank_es.events import MemoriesRetrieved
from rbank_es.events.items import Item
from rbank_es.policies.packed_text import Packed

SEPARATOR = "\n\n"
"""Between layers. The base instructions leave room for four of them within their own budget."""


class LayerText(NamedTuple):
    """A packed layer, the searches that chose its items (events for the caller to append), and the items found."""

    packed: Packed
    retrievals: tuple[MemoriesRetrieved, ...] = ()
    items: tuple[Item, ...] = ()
