"""The class `Bank`: one log, its state and its read models, as Python programs use them.

>>> from rbank_es import Bank, Item
>>> from rbank_es.events import MemoriesConsolidated, MemoriesExtracted
>>> from rbank_es.events import Decision
>>> item = Item.make("Ask the ontology for its classes first", "List classes before writing a query.")
>>> with Bank.create("memory:") as bank:
...     extracted = bank.append(MemoriesExtracted(kind="manual", heads=(item.head,), candidates=(item.text,)))
...     decision = Decision(candidate=0, action="add", item=item.id)
...     _ = bank.append(MemoriesConsolidated(
...         extraction=extracted.events[0].id, policy="append-1", decisions=(decision,)))
...     [hit.title for hit in bank.search("which classes does the ontology have?")]
...     len(bank.at("HEAD~1").search("which classes?"))
['Ask the ontology for its classes first']
0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es import limits
from rbank_es.answers.shared.question_methods import Questions, several
from rbank_es.bank.agent_acts import AgentActs
from rbank_es.bank.branches import BankBranches
from rbank_es.bank.id_lookup import erasing_of
from rbank_es.bank.item_acts import ItemActs
from rbank_es.errors import BadInput, LimitExceeded, NotInBank
from rbank_es.events.items import Item
from rbank_es.events.notebook_repr import Shown
from rbank_es.events.run_events import VerdictValue
from rbank_es.log import Erasing
from rbank_es.system.files import replaceable
from rbank_es.system.progress import OnProgress
from rbank_es.system.registry import Registry
from rbank_es.system.text_cuts import cut_words

# Projections, state and policies are imported where they are used: an append needs none of them, and SQLite is slow to
# load.
if TYPE_CHECKING:
    from rbank_es.answers.shared.moment import Moment
    from rbank_es.bank.erasure_effect import BankErasure
    from rbank_es.bank.supposed_differences import WhatIf
    from rbank_es.law import State
    from rbank_es.law.digests import StateDigests
    from rbank_es.projections.view import View


_SPOOLS: Registry[Any] = Registry("intake of spools", {"all": "rbank_es.agents.spool_intake:take_all_in"})
"""What takes in all that waits for a bank on this machine, so that an erasure reaches it."""


class Replayed(Shown, msgspec.Struct, frozen=True):
    """A bank folded to a position: its state there, and the digests by which two replays can be compared."""

    position: int
    at: str
    state: State
    digests: StateDigests


class Bank(ItemActs, BankBranches, AgentActs, Questions):
    """One bank, for use as a context manager. Threads may share it; processes open the same place each.

    A forked child may go on with it. Where other threads of the parent search meanwhile, spawn the child instead: it
    would wait for ever for the locks that SQLite itself holds in those threads.
    """

    # ---------------------------------------------------------------- questions

    def at(self, point: str | int | None = None) -> Moment:
        """Return the bank as of a point, to ask questions of; by default the head as it is now. Raises `BadPoint`."""
        from rbank_es.answers.shared.moment import Moment

        return Moment(self, self.resolve(point))

    def ask(self, name: str, /, **given: Any) -> Any:
        """Return the answer to a question by its name, about the head. Raises `BadInput`, and as the question."""
        return self.at().ask(name, **given)

    # ---------------------------------------------------------------- time travel, what if

    def replay(
        self,
        to: str | int | None = None,
        *,
        into: str | Path | None = None,
        force: bool = False,
        progress: OnProgress | None = None,
    ) -> Replayed:
        """Fold the log to a point; with `into`, also write the read models as they were then to that file.

        Raises `BadPoint`; `BadInput` if `into` exists, unless `force` is given.
        """
        from rbank_es.law.digests import state_digests

        position = self.resolve(to)
        if into is not None:
            self._replay_into(Path(into), position, force, progress)
        state = self.state(position, progress=progress)
        return Replayed(position, self.time_at(position), state, state_digests(state))

    def _replay_into(self, into: Path, position: int, force: bool, progress: OnProgress | None) -> None:
        from rbank_es.projections.read_models import rebuild

        if not into.parent.is_dir():
            raise BadInput(f"{into.parent} is not a directory, so {into.name} can't be written there")
        rebuild(into, self.log, upto=position, on_batch=progress, replace=force)

    def whatif(
        self,
        *,
        policies: Mapping[str, Any] | None = None,
        verdicts: Mapping[str, VerdictValue] | None = None,
        without: Iterable[str] = (),
        since: str | int = 0,
        until: str | int | None = None,
        chars: int | None = None,
        into: str | Path | None = None,
        force: bool = False,
        progress: OnProgress | None = None,
    ) -> WhatIf:
        """Return what would differ if a supposition held from a point on, until another (by default the head).

        `policies` are tables by kind, as `set_policies` takes them; `verdicts` are by run; `without` are ids of items
        and runs; `chars` are those of each title and prompt at most. With `into`, a file of read models of the bank as
        it would be is written: over one that is there, or that another process wrote meanwhile, only with `force`. No
        model is called, and nothing is written to the log.
        Raises `BadInput`, `NotInBank`, `AmbiguousId`, `BadPolicy`, `BadPoint`, `ProjectionError`.
        """
        from rbank_es.answers.shared.bank_reader import BankReader
        from rbank_es.answers.whatif import QUESTION, find_whatif

        target = None if into is None else Path(into)
        if target is not None and not force:
            from rbank_es.projections.builder import refuse_existing

            refuse_existing(replaceable(target))  # before the work; another process may still be faster
        supposed = {"policies": policies or {}, "verdicts": verdicts or {}, "without": several(without)}
        question = QUESTION.parse("whatif", {**supposed, "since": since, "until": until, "chars": chars})
        reader = BankReader(self.live, self.name, bank=self, position=lambda: self.position)
        reader.progress = progress
        return reader.bounded("whatif", question, find_whatif(reader, question, into=target, force=force))

    # ---------------------------------------------------------------- items

    def get(
        self, ids: str | Sequence[str], *, max_n: int = limits.READ_ITEMS, point: str | int | None = None
    ) -> list[Item]:
        """Return items in full, of one id or several, in any state; at most `max_n`.

        Raises `LimitExceeded`, `NotInBank`.
        """
        # A text is a sequence of texts, too: its letters would be looked up.
        ids = (ids,) if isinstance(ids, str) else ids
        if len(ids) > max_n:
            raise LimitExceeded("items asked for", len(ids), max_n, "ask for fewer, or raise max_n")
        with self.live(point) as view:
            return [self._in_full(view, item_id) for item_id in ids]

    def _in_full(self, view: View, item_id: str) -> Item:
        row = view.item(item_id)
        if row is None:
            raise NotInBank(item_id, view.position)
        named = {name: row[name] for name in Item.__struct_fields__ if name != "tags"}
        return msgspec.convert({**named, "tags": msgspec.json.decode(row["tags"])}, Item)

    def quote(self, item_id: str, max_chars: int = limits.QUOTE_CHARS, *, point: str | int | None = None) -> str:
        """Return the beginning of an item's content, as `cut_words` does. Raises `NotInBank`."""
        if max_chars < 1:
            raise BadInput(f"max_chars is {max_chars}; it must be at least 1")
        with self.live(point) as view:
            return cut_words(self._in_full(view, item_id).content, max_chars)

    # ---------------------------------------------------------------- erasing

    def erase(
        self,
        *,
        event: int | None = None,
        item: str | None = None,
        run: str | None = None,
        text: str | None = None,
        reason: str = "",
        by: str | None = None,
        dry_run: bool = False,
    ) -> BankErasure:
        """Remove the texts of an event, an item or a run, or one text, and every text that holds the same words.

        Words are found in the forms that `rbank_es.log.escaped_words` has; `not_sought` names the others. A text
        that is also the whole of a text of another run stays there, and so does a tag that other items have. Ids,
        numbers, times and lengths stay; heads noted before still verify. Read models are rebuilt, then all files are
        searched again: see `erasure.residue`. What agents spooled for the bank is taken in before, unless it is a
        `dry_run`.
        Raises `BadInput` unless exactly one target is named, `NotInBank` if it does not exist, `CannotWrite` for a
        spool that can't be read.
        """
        from rbank_es.bank.erasure_effect import erase_from

        given = [name for name, value in (("event", event), ("item", item), ("run", run), ("text", text)) if value]
        if len(given) != 1:
            raise BadInput("name exactly one thing to erase: event, item, run or text")
        if not dry_run:
            _SPOOLS.get("all")(self)
        what = Erasing(words=(text,)) if text else erasing_of(self.log, event, item, run)
        return erase_from(self, what, reason, by, dry_run)
