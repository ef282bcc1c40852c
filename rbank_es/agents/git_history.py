"""What became of commits, decided from the history of a repository alone. Pure.

A commit is the same work when it was rebased, cherry-picked or amended: author, author's time and subject stay. A
squashed commit holds the work of those that its message lists. The last thing that happened to a work in the history of
HEAD counts: it landed, it was reverted, or its revert was. What history doesn't tell is unknown, and decides nothing.

Each question walks only what it is about: the commits that name a work, what a reverted merge brought, what was built
on a lost commit. All steps are counted, because a hostile history can make each of these the whole of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from rbank_es.errors import LimitExceeded
from rbank_es.limits import git_limits

Fate = Literal["present", "reverted", "reset", "own", "unknown"]

_REVERTS = re.compile(
    r"^This reverts commit (?P<commit>[0-9a-f]{7,64})(?:, reversing\s+changes made to (?P<base>[0-9a-f]{7,64}))?", re.M
)
_SQUASHED = re.compile(r"^commit (?P<commit>[0-9a-f]{40,64})$", re.M)
_PICKED = re.compile(r"^\(cherry picked from commit (?P<commit>[0-9a-f]{40,64})\)$", re.M)
_RESET = "reset: moving to "
_KEPT_STEPS = 8
"""Steps that a commit counts as that is kept as one that a reverted merge brought: it takes memory, too."""
_ADVICE = "give a shallow clone; reverts of merges that brought very much cost most"


class Commit(NamedTuple):
    """A commit; `authored` is the author's time as git writes it."""

    hash: str
    parents: tuple[str, ...]
    tree: str
    author: str
    authored: str
    message: str

    @property
    def work(self) -> tuple[str, str, str]:
        """What stays when a commit is rebased, cherry-picked or amended."""
        return self.author, self.authored, self.message.partition("\n")[0]


class Move(NamedTuple):
    """A move of HEAD, as its reflog has it."""

    before: str
    after: str
    why: str


class CommitFate(NamedTuple):
    """What became of a commit: its whole hash, and the commit that reverted it, or where HEAD was reset to."""

    fate: Fate
    commit: str
    by: str = ""


class CommitHistory:
    """The commits of a repository, those that only its reflog has included, parents before their children.

    `tips` are the commits of all branches and tags, `moves` those of HEAD, the newest first. A shallow one is cut off.
    Questions raise `LimitExceeded` after `GIT_STEPS` steps in all.
    """

    def __init__(
        self,
        commits: Sequence[Commit],
        head: str | None,
        tips: Iterable[str] = (),
        moves: Sequence[Move] = (),
        *,
        shallow: bool = False,
    ) -> None:
        self._commits = {commit.hash: commit for commit in commits}
        self._order = {commit.hash: number for number, commit in enumerate(commits)}
        self._moves = moves
        self._shallow = shallow
        self._steps = 0
        self._at_head = self._ancestors([head] if head else [])
        self._at_tips = self._ancestors(tips)
        self._reverts = {hash: found for hash, found in self._found(_REVERTS)}
        self._squashed = {hash: [each["commit"] for each in found] for hash, found in self._found(_SQUASHED)}
        self._own: tuple[Collection[str], frozenset[str]] = ((), frozenset())

    def fate(self, commit: str, own: Collection[str] = ()) -> CommitFate:
        """Return what became of a commit, given by its hash or a beginning of it.

        `own` are all commits of its run: what that run reverted itself is no judgment on it.
        """
        found = self._whole(commit)
        if found is None:
            return CommitFate("unknown", commit)
        copies = self._copies(found)
        effects = self._effects(copies)
        here = [each for each in effects if each in self._at_head]
        if not here:
            return self._lost(found, {*copies, *(each for each, effect in effects.items() if effect > 0)})
        last = max(here, key=self._order.__getitem__)
        if effects[last] > 0:
            # A revert on another branch may be the newer one: nothing is decided against it.
            elsewhere = any(
                effects[each] < 0 for each in effects if each in self._at_tips and each not in self._at_head
            )
            return CommitFate("unknown" if elsewhere else "present", found, last)
        return CommitFate("own" if last in self._copies_of(own) else "reverted", found, last)

    # ---------------------------------------------------------------- what brings a work and takes it away

    def _effects(self, copies: Collection[str]) -> dict[str, int]:
        """Return the commits that bring some work (1) or take it away (-1)."""
        effects = {each: 1 for each in copies if each in self._order}
        due: list[tuple[int, str]] = []
        for each in copies:
            self._await(each, -1, due)
        while due:
            number, hash = heappop(due)
            if hash in effects:  # a copy, or one that several of its commits called
                continue
            effect = 0
            for listed in reversed(self._squashed.get(hash, ())):  # git lists the newest first
                effect = effects.get(listed, 1 if listed in copies else 0) or effect
            for match in self._reverts.get(hash, ()):
                effect = -self._effect_of(match, effects, copies) or effect
            if effect:
                effects[hash] = effect
                self._await(hash, number, due)
        return effects

    def _await(self, commit: str, after: int, due: list[tuple[int, str]]) -> None:
        """Add the later commits that say of a commit that they revert or hold it."""
        for each in self._naming.get(commit, ()):
            self._step()
            if self._order[each] > after:
                heappush(due, (self._order[each], each))

    def _effect_of(self, revert: re.Match[str], effects: dict[str, int], copies: Collection[str]) -> int:
        """Return the effect of what a revert names: a commit, or all that a merge brought."""
        target = self._whole(revert["commit"])
        if revert["base"]:
            brought = self._brought.get(self._merge(revert), frozenset())
            self._step(len(effects))
            within = [each for each in effects if each in brought]
            return effects[max(within, key=self._order.__getitem__)] if within else 0
        return effects.get(target, 1 if target in copies else 0) if target else 0

    def _merge(self, revert: re.Match[str]) -> tuple[str | None, str | None]:
        """Return the merge that a revert names, and the commit before; None for what is not known."""
        return self._whole(revert["commit"]), self._whole(revert["base"] or "")

    @cached_property
    def _naming(self) -> dict[str, list[str]]:
        """The commits whose messages name a commit, or a merge that brought it."""
        found = defaultdict[str, list[str]](list)
        for hash, listed in self._squashed.items():
            for each in listed:
                found[each].append(hash)
        for hash, reverts in self._reverts.items():
            for match in reverts:
                brought = self._brought.get(self._merge(match), ())
                self._step(_KEPT_STEPS * len(brought))
                for each in brought:
                    found[each].append(hash)
                if not match["base"] and (target := self._whole(match["commit"])):
                    found[target].append(hash)
        return found

    @cached_property
    def _brought(self) -> dict[tuple[str | None, str | None], frozenset[str]]:
        """What each reverted merge brought. What is said of commits that the history lacks decides nothing."""
        merges = {self._merge(each) for reverts in self._reverts.values() for each in reverts}
        return {
            (target, base): frozenset(self._behind(target, base))
            for target, base in merges
            if target in self._commits and base in self._commits
        }

    def _behind(self, target: str, base: str) -> Iterator[str]:
        """Yield a commit and all that it is built on, without those that `base` is built on; the newest first."""
        # By order, the newest first: all that is built on a commit was seen before it.
        is_base = {target: False, base: True}
        due = sorted((-self._order[each], each) for each in is_base)
        brought = int(target != base)
        while brought > 0 and due:
            hash = heappop(due)[1]
            self._step()
            brought -= not is_base[hash]
            if not is_base[hash]:
                self._step(_KEPT_STEPS)
                yield hash
            for parent in self._parents(hash):
                if parent not in is_base:
                    heappush(due, (-self._order[parent], parent))
                    brought += not is_base[hash]
                elif is_base[hash] and not is_base[parent]:
                    brought -= 1
                is_base[parent] = is_base.get(parent, False) or is_base[hash]

    # ---------------------------------------------------------------- what no branch has

    def _lost(self, commit: str, carriers: Collection[str]) -> CommitFate:
        """Return the fate of a commit that HEAD's history lacks, with all that carry its work: reset or not."""
        unknown = CommitFate("unknown", commit)
        if self._shallow or any(each in self._at_tips for each in carriers):
            return unknown
        built_on_it = self._walk(carriers, lambda hash: self._children.get(hash, ()))
        left = [number for each in built_on_it for number in self._left.get(each, ())]
        moves = (self._moves[number] for number in sorted(left))
        last = next((move for move in moves if move.after not in built_on_it), None)
        if last is None or not last.why.startswith(_RESET):
            return unknown
        # The same files again, in other commits: the work was squashed, and is where the squashed commit is, or a copy.
        same = self._by_tree.get(self._commits[last.before].tree, ())
        copies = (copy for each in same if each not in built_on_it for copy in self._copies(each))
        kept = any(copy in self._at_head and not self._is_built_on(last.after, copy) for copy in copies)
        return unknown if kept else CommitFate("reset", commit, last.after)

    def _is_built_on(self, commit: str, other: str) -> bool:
        """Return whether a commit is another one, or is built on it."""
        least = self._order[other]
        start = [commit] if commit in self._commits else []
        return other in self._walk(
            start, lambda hash: (each for each in self._parents(hash) if self._order[each] >= least)
        )

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        """The commits that are built on one, of those that no branch has."""
        found = defaultdict[str, list[str]](list)
        for commit in self._commits.values():
            if commit.hash not in self._at_tips:
                for parent in commit.parents:
                    found[parent].append(commit.hash)
        return found

    @cached_property
    def _left(self) -> dict[str, list[int]]:
        """The numbers of the moves that left a commit."""
        found = defaultdict[str, list[int]](list)
        for number, move in enumerate(self._moves):
            found[move.before].append(number)
        return found

    @cached_property
    def _by_tree(self) -> dict[str, list[str]]:
        """The commits that have a tree."""
        found = defaultdict[str, list[str]](list)
        for each in self._commits.values():
            found[each.tree].append(each.hash)
        return found

    # ---------------------------------------------------------------- the same work

    def _copies(self, commit: str) -> set[str]:
        """Return the commits with the same work, that one included, which need not be in the history."""
        known = self._commits.get(commit)
        same = {commit, *(self._by_work[known.work] if known else ())}
        self._step(len(same))
        return same.union(*(self._picked.get(each, ()) for each in same))

    def _copies_of(self, own: Collection[str]) -> frozenset[str]:
        # Kept, because a run asks for each of its commits.
        if self._own[0] != own:
            wholes = (self._whole(each) for each in own)
            self._own = own, frozenset(copy for whole in wholes if whole for copy in self._copies(whole))
        return self._own[1]

    @cached_property
    def _by_work(self) -> dict[tuple[str, str, str], list[str]]:
        found = defaultdict[tuple[str, str, str], list[str]](list)
        for each in self._commits.values():
            found[each.work].append(each.hash)
        return found

    @cached_property
    def _picked(self) -> dict[str, list[str]]:
        """The commits that were picked from a commit."""
        picks = defaultdict[str, list[str]](list)
        for each in self._commits.values():
            if found := _PICKED.search(each.message):
                picks[found["commit"]].append(each.hash)
        return picks

    # ---------------------------------------------------------------- hashes and walks

    def _found(self, pattern: re.Pattern[str]) -> Iterator[tuple[str, list[re.Match[str]]]]:
        for commit in self._commits.values():
            if found := list(pattern.finditer(commit.message)):
                yield commit.hash, found

    @cached_property
    def _known(self) -> list[str]:
        """All hashes, those included that only the message of a revert or a squash names."""
        named = {each["commit"] for reverts in self._reverts.values() for each in reverts if len(each["commit"]) >= 40}
        return sorted({*self._commits, *named, *(hash for each in self._squashed.values() for hash in each)})

    def _whole(self, beginning: str) -> str | None:
        """Return the only hash that begins so; None if there is none, or several."""
        if not beginning:
            return None
        at = bisect_left(self._known, beginning)
        found = [each for each in self._known[at : at + 2] if each.startswith(beginning)]
        return found[0] if len(found) == 1 else None

    def _parents(self, commit: str) -> Iterator[str]:
        return (each for each in self._commits[commit].parents if each in self._commits)

    def _ancestors(self, tips: Iterable[str]) -> set[str]:
        """Return commits and all that they are built on."""
        return self._walk((each for each in tips if each in self._commits), self._parents)

    def _walk(self, start: Iterable[str], further: Callable[[str], Iterable[str]]) -> set[str]:
        """Return commits and all that a step, or several, leads to."""
        found, todo = set[str](), [*start]
        while todo:
            each = todo.pop()
            if each not in found:
                self._step()
                found.add(each)
                todo += further(each)
        return found

    def _step(self, number: int = 1) -> None:
        self._steps += number
        if self._steps > git_limits.GIT_STEPS:
            raise LimitExceeded(
                "the history in steps from commit to commit", self._steps, git_limits.GIT_STEPS, _ADVICE
            )
