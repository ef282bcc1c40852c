"""What a loop spends, against its bounds in tokens and US dollars: of every role, also of judge and extractor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rbank_es.errors import BadInput, LoopStopped
from rbank_es.events import LmCalled
from rbank_es.tools.shared.call_budget import tokens_of

if TYPE_CHECKING:
    from rbank_es.bank import Bank


class LoopBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one loop; None for no bound. Raises `BadInput` for a number that is not above 0."""

    loop_tokens: int | None = None
    loop_usd: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            number = getattr(self, name)
            if number is not None and not 0 < number < float("inf"):
                raise BadInput(f"the bound {name} is {number}: give a number above 0")


class LoopSpend:
    """The spending of one loop since it began, looked at before each task: a task that is begun is finished."""

    def __init__(self, bank: Bank, bounds: LoopBounds) -> None:
        self._bank, self._bounds = bank, bounds
        self._seen = bank.position
        self._tokens, self._usd = 0, 0.0

    def check(self, last_run: str) -> None:
        """Raise `LoopStopped` (bound_spent), naming the last run, once a bound is spent."""
        if self._bounds == LoopBounds():
            return
        for event in self._bank.events(after=self._seen, types={"lm_called"}, resolve=True):
            if isinstance(event, LmCalled):
                self._tokens += tokens_of(event)
                self._usd += event.cost_usd or 0.0
        self._seen = self._bank.position
        spent = {"loop_tokens": self._tokens, "loop_usd": self._usd}
        for name, number in spent.items():
            most = getattr(self._bounds, name)
            if most is not None and number >= most:
                raise LoopStopped(last_run, "bound_spent", f"the loop has spent {name}: {number:,g} of {most:,g}")
