"""Questions about a bank as it might have been: the method `what_if` of `Bank`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbank_es.bank.open_bank import OpenBank
from rbank_es.events.run_events import VerdictValue
from rbank_es.system.files import replaceable
from rbank_es.system.progress import OnProgress

# Imported where they are used, as in `Bank`: an append needs none of them.
if TYPE_CHECKING:
    from rbank_es.bank.supposed_differences import WhatIf
    from rbank_es.bank.what_if import PackItems


class BankInquiry(OpenBank):
    """The part of `Bank` that reports what would differ under a supposition."""

    def what_if(
        self,
        *,
        policies: Mapping[str, Any] | None = None,
        verdicts: Mapping[str, VerdictValue] | None = None,
        without: Iterable[str] = (),
        since: str | int = 0,
        until: str | int | None = None,
        pack: PackItems | None = None,
        into: str | Path | None = None,
        force: bool = False,
        progress: OnProgress | None = None,
    ) -> WhatIf:
        """Return what would differ if a supposition held from a point on, until another (by default the head).

        `policies` are tables by kind, as `set_policies` takes them; `verdicts` are by run; `without` are ids of items
        and runs. `pack` returns the text of items in a prompt, for the prompts of runs. With `into`, a file of read
        models of the bank as it would be is written: over one that is there, or that another process wrote meanwhile,
        only with `force`. No model is called, and nothing is written to the log.
        Raises `BadInput`, `NotInBank`, `AmbiguousId`, `BadPolicy`, `BadPoint`, `ProjectionError`.
        """
        from rbank_es.bank.what_if import WhatIfQuestion, what_if

        target = None if into is None else Path(into)
        if target is not None and not force:
            from rbank_es.projections.builder import refuse_existing

            refuse_existing(replaceable(target))  # before the work; another process may still be faster
        question = WhatIfQuestion(policies=policies or {}, verdicts=verdicts or {}, without=tuple(without))
        last, first = self.resolve(until), self.resolve(since)
        return what_if(self.log, question, first, last, pack=pack, into=target, force=force, progress=progress)
