"""The questions as methods: of a bank, about its head, and of a moment of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rbank_es.limits import answer_limits

if TYPE_CHECKING:
    from rbank_es.answers.about import About
    from rbank_es.answers.check import BankCheck
    from rbank_es.answers.difference import BankDifference
    from rbank_es.answers.doubts import Doubts
    from rbank_es.answers.drift import Drift
    from rbank_es.answers.event import EventAnswer
    from rbank_es.answers.health import Health
    from rbank_es.answers.item import ItemAnswer
    from rbank_es.answers.items import ItemPage
    from rbank_es.answers.leakage import Leakage
    from rbank_es.answers.lineage import LineageAnswer
    from rbank_es.answers.overview import Overview
    from rbank_es.answers.policies import PoliciesAnswer
    from rbank_es.answers.review import Review
    from rbank_es.answers.run import RunAnswer
    from rbank_es.answers.runs import RunPage
    from rbank_es.answers.search import Found
    from rbank_es.answers.shared.bisection_answer import Bisection, Metric
    from rbank_es.answers.shared.conditions import Where
    from rbank_es.bank.supposed_differences import WhatIf
    from rbank_es.events.run_events import VerdictValue
    from rbank_es.log import Head
    from rbank_es.ontology.source_names import Names


Named = TypeVar("Named")


def several(names: Iterable[Named] | str) -> tuple[Named | str, ...]:
    """Return names, or the one that is given as a text: a text is iterable, too, by its letters."""
    return (names,) if isinstance(names, str) else tuple(names)


class Questions:
    """What can be asked. Every question of `rbank_es.answers` is a method, those of plugins too."""

    @abstractmethod
    def ask(self, name: str, /, **given: Any) -> Any:
        """Return the answer to a question by its name, with its parameters. Raises `BadInput`, and as the question."""

    def runs(
        self,
        *,
        where: Where = (),
        sort: str | None = None,
        limit: int = answer_limits.ANSWER_ROWS,
        after: str | None = None,
        **narrower: Any,
    ) -> RunPage:
        """Return the runs, the one that began last first; `narrower` are `item`, `q` and `chars` of `RunsQuestion`.

        `where` is `{"verdict": "failure"}` or texts such as `"cost_usd>0.1"`; `sort` is a field, `-` before it puts the
        largest first. Raises `BadInput`.
        """
        found: RunPage = self.ask("runs", where=where, sort=sort, limit=limit, after=after, **narrower)
        return found

    def items(
        self,
        *,
        where: Where = (),
        sort: str | None = None,
        limit: int = answer_limits.ANSWER_ROWS,
        after: str | None = None,
        **narrower: Any,
    ) -> ItemPage:
        """Return the items in every state, the newest first, as `runs` does; `narrower` are `q`, `domain` and `chars`
        of `ItemsQuestion`. Raises `BadInput`.
        """
        found: ItemPage = self.ask("items", where=where, sort=sort, limit=limit, after=after, **narrower)
        return found

    def health(
        self, *, every: int | None = None, points: int | None = None, course: int = 0, chars: int | None = None
    ) -> Health:
        """Return how the bank does, also after `every` so many events or at so many `points`, evenly apart.

        Raises `BadInput` for both ways to choose the points, `LimitExceeded`.
        """
        found: Health = self.ask("health", every=every, points=points, course=course, chars=chars)
        return found

    def leakage(
        self, *, where: Where = (), sort: str | None = None, limit: int = answer_limits.ANSWER_ROWS,
        after: str | None = None, chars: int | None = None,
    ) -> Leakage:  # fmt: skip
        """Return what reached prompts instead of staying behind a handle: tools, red flags, and a page of runs.

        Raises `BadInput`.
        """
        given = {"where": where, "sort": sort, "limit": limit, "after": after, "chars": chars}
        found: Leakage = self.ask("leakage", **given)
        return found

    def difference(
        self, since: str | int = 0, *, states: bool = False, limit: int | None = None, chars: int | None = None
    ) -> BankDifference:
        """Return what changed since a point, which may be later, too: items, runs, policies; with `states`, only items
        in another state and runs with another verdict. Raises `BadPoint`."""
        found: BankDifference = self.ask("difference", since=since, states=states, limit=limit, chars=chars)
        return found

    def item(
        self, item: str, *, limit: int = answer_limits.ANSWER_ROWS, history: bool = True, chars: int | None = None
    ) -> ItemAnswer:
        """Return everything about an item, with its newest uses; without `history` it doesn't read the whole log.

        Raises `NotInBank`, `AmbiguousId`.
        """
        found: ItemAnswer = self.ask("item", item=item, limit=limit, history=history, chars=chars)
        return found

    def run(
        self, run: str, *, after: int = 0, limit: int = answer_limits.ANSWER_ROWS, sentences: bool = True,
        chars: int | None = None,
    ) -> RunAnswer:  # fmt: skip
        """Return everything about a run, with so many of its events behind a position, each with a sentence.

        Raises `NotInBank`, `AmbiguousId`.
        """
        found: RunAnswer = self.ask("run", run=run, after=after, limit=limit, sentences=sentences, chars=chars)
        return found

    def event(self, event: str | int, *, chars: int | None = None) -> EventAnswer:
        """Return an event by its id or its position. Raises `NotInBank`."""
        found: EventAnswer = self.ask("event", event=str(event), chars=chars)
        return found

    def doubts(
        self, *, limit: int = answer_limits.DOUBTS, minutes: float | None = None, chars: int | None = None
    ) -> Doubts:
        """Return the verdicts to check first: `limit` of them, of which `minutes` are enough for those returned."""
        found: Doubts = self.ask("doubts", limit=limit, minutes=minutes, chars=chars)
        return found

    def review(self, *, limit: int = answer_limits.ANSWER_ROWS, chars: int | None = None) -> Review:
        """Return what a person should look at, of each kind so many."""
        found: Review = self.ask("review", limit=limit, chars=chars)
        return found

    def search(
        self,
        query: str,
        k: int | None = None,
        *,
        polarity: str | None = None,
        role: str | None = None,
        domain: str | None = None,
        level: int | None = None,
        chars: int | None = None,
    ) -> Found:
        """Return the active items that fit a query best, by the retrieval policy in force; ties are broken by item id.

        The query is plain words without any syntax. `k` is the policy's unless given; `domain` is
        the one that the query is about, whose items the policy may prefer; `level` is that of its task, above which the
        policy may leave items out. Raises `BadSearch`.
        """
        about = {"polarity": polarity, "role": role, "domain": domain, "level": level}
        found: Found = self.ask("search", query=query, k=k, chars=chars, **about)
        return found

    def lineage(self, kind: str, id: str | int, direction: str = "effects", **bounds: int) -> LineageAnswer:
        """Return what followed from an item, a run or an event, or its causes; `bounds` are `depth`, `width` of the
        tree, `limit` of the list, and `chars` of texts. Raises `NotInBank`, `AmbiguousId`; `BadInput` for
        an event without lineage.
        """
        found: LineageAnswer = self.ask("lineage", kind=kind, id=str(id), direction=direction, **bounds)
        return found

    def whatif(
        self,
        *,
        policies: Mapping[str, Any] | None = None,
        verdicts: Mapping[str, VerdictValue] | None = None,
        without: Iterable[str] = (),
        since: str | int = 0,
        until: str | int | None = None,
        chars: int | None = None,
    ) -> WhatIf:
        """Return what would differ if a supposition held from a point on until another; see `SuppositionQuestion`.

        Raises `BadInput`, `NotInBank`, `AmbiguousId`, `BadPolicy`, `BadPoint`.
        """
        supposed = {"policies": policies or {}, "verdicts": verdicts or {}, "without": several(without)}
        found: WhatIf = self.ask("whatif", **supposed, since=since, until=until, chars=chars)
        return found

    def check(
        self, *, noted: Iterable[Head | str] = (), retrievals: bool = False, decisions: bool = False,
        strict: bool = False, parent: str | None = None, chars: int | None = None,
    ) -> BankCheck:  # fmt: skip
        """Check every byte of the log, heads noted before, and whether a correction is due; see `CheckQuestion`.

        Raises `LogCorruption` for damage; `CheckFailed` if a noted head, a retrieval or the ancestry does not hold.
        """
        asked = {"retrievals": retrievals, "decisions": decisions, "strict": strict, "parent": parent, "chars": chars}
        found: BankCheck = self.ask("check", noted=tuple(map(str, several(noted))), **asked)
        return found

    def bisect(
        self,
        bad: Iterable[str] = (),
        good: Iterable[str] = (),
        *,
        metric: Metric | None = None,
        chars: int | None = None,
    ) -> Bisection:
        """Return the events since which bad runs were given something else than when a good run began.

        Without runs, those of tasks that succeeded and then failed, by `metric`. Raises `NotInBank`, `AmbiguousId`,
        `BadInput`.
        """
        found: Bisection = self.ask("bisect", bad=several(bad), good=several(good), metric=metric, chars=chars)
        return found

    def drift(self, ont: Names, old: Names = (), *, skip_unreadable: bool = False, chars: int | None = None) -> Drift:
        """Return the texts that name what an ontology changed; without `old`, what doesn't exist in it.

        Raises `BadOntology`, `BadFiles`, `MissingExtra`, `QueryFailed`.
        """
        from rbank_es.ontology.source_names import listed

        new, before = ([str(each) for each in listed(names)] for names in (ont, old))
        found: Drift = self.ask("drift", ont=new, old=before, skip_unreadable=skip_unreadable, chars=chars)
        return found

    def overview(self, *, chars: int | None = None) -> Overview:
        """Return whether the bank gets better, and where it goes wrong."""
        found: Overview = self.ask("overview", chars=chars)
        return found

    def about(self, *, chars: int | None = None) -> About:
        """Return what the bank is: its name, purpose, counts, policies, and the marks of its log."""
        found: About = self.ask("about", chars=chars)
        return found

    def policies(self, *, chars: int | None = None) -> PoliciesAnswer:
        """Return the policy of each kind that governs, with all its settings, recorded or not."""
        found: PoliciesAnswer = self.ask("policies", chars=chars)
        return found

    if not TYPE_CHECKING:  # so that a mistyped name is still an error of types

        def __getattr__(self, name: str) -> Callable[..., Any]:
            from rbank_es.answers.shared.question_form import QUESTIONS

            if name.startswith("_") or name not in QUESTIONS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return lambda **given: self.ask(name, **given)
