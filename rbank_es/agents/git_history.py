"""What became of commits, decided from the history of a repository alone. Pure.

A commit is the same work when it was rebased, cherry-picked or amended: author, author's time and subject stay. A
squashed commit holds the work of those that its message lists. The last thing that happened to a work in the history of
HEAD counts: it landed, it was reverted, or its revert was. What history doesn't tell is unknown, and decides nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

Fate = Literal["present", "reverted", "reset", "own", "unknown"]

_REVERTS = re.compile(
    r"^This reverts commit (?P<commit>[0-9a-f]{7,64})(?:, reversing\s+changes made to (?P<base>[0-9a-f]{7,64}))?", re.M
)
_SQUASHED = re.compile(r"^commit (?P<commit>[0-9a-f]{40,64})$", re.M)
_PICKED = re.compile(r"^\(cherry picked from commit (?P<commit>[0-9a-f]{40,64})\)$", re.M)
_RESET = "reset: moving to "


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
    """The commits of a repository, those that only its reflog has included, the oldest first.

    `tips` are the commits of all branches and tags, `moves` those of HEAD, the newest first. A shallow one is cut off.
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
        self._at_head = self._ancestors([head] if head else [])
        self._at_tips = self._ancestors(tips)
        self._reverts: dict[str, list[re.Match[str]]] = {}
        self._squashed: dict[str, list[str]] = {}
        for commit in commits:
            if reverts := list(_REVERTS.finditer(commit.message)):
                self._reverts[commit.hash] = reverts
            if squashed := _SQUASHED.findall(commit.message):
                self._squashed[commit.hash] = squashed

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
            elsewhere = any(effects[each] < 0 for each in effects if each in self._at_tips - self._at_head)
            return CommitFate("unknown" if elsewhere else "present", found, last)
        mine = {copy for each in own if (whole := self._whole(each)) for copy in self._copies(whole)}
        return CommitFate("own" if last in mine else "reverted", found, last)

    def _effects(self, copies: Collection[str]) -> dict[str, int]:
        """Return the commits that bring some work (1) or take it away (-1)."""
        effects = {each: 1 for each in copies if each in self._order}
        for hash in sorted({*self._reverts, *self._squashed} - effects.keys(), key=self._order.__getitem__):
            effect = 0
            for listed in reversed(self._squashed.get(hash, ())):  # git lists the newest first
                effect = effects.get(listed, 1 if listed in copies else 0) or effect
            for match in self._reverts.get(hash, ()):
                effect = -self._effect_of(match, effects, copies) or effect
            if effect:
                effects[hash] = effect
        return effects

    def _effect_of(self, revert: re.Match[str], effects: dict[str, int], copies: Collection[str]) -> int:
        """Return the effect of what a revert names: a commit, or all that a merge brought."""
        target, base = self._whole(revert["commit"]), self._whole(revert["base"] or "")
        if target is None or (revert["base"] and base is None):
            return 0
        if base is None:
            return effects.get(target, 1 if target in copies else 0)
        brought = self._ancestors([target]) - self._ancestors([base])
        within = [each for each in effects if each in brought]
        return effects[max(within, key=self._order.__getitem__)] if within else 0

    def _lost(self, commit: str, carriers: Collection[str]) -> CommitFate:
        """Return the fate of a commit that HEAD's history lacks, with all that carry its work: reset or not."""
        unknown = CommitFate("unknown", commit)
        if self._shallow or any(each in self._at_tips for each in carriers):
            return unknown
        built_on_it = self._descendants(carriers)
        for move in self._moves:
            if move.before in built_on_it and move.after not in built_on_it:
                tree, after = self._commits[move.before].tree, self._ancestors([move.after])
                # The same files again, in other commits: the work was squashed.
                kept = any(self._commits[each].tree == tree for each in self._at_head - after)
                thrown_away = move.why.startswith(_RESET) and not kept
                return CommitFate("reset", commit, move.after) if thrown_away else unknown
        return unknown

    def _copies(self, commit: str) -> set[str]:
        """Return the commits with the same work, that one included, which need not be in the history."""
        known = self._commits.get(commit)
        same = {commit, *(self._by_work[known.work] if known else ())}
        return same | {each for each, source in self._picked.items() if source in same}

    @cached_property
    def _by_work(self) -> dict[tuple[str, str, str], list[str]]:
        found: dict[tuple[str, str, str], list[str]] = {}
        for each in self._commits.values():
            found.setdefault(each.work, []).append(each.hash)
        return found

    @cached_property
    def _picked(self) -> dict[str, str]:
        return {each.hash: found[1] for each in self._commits.values() if (found := _PICKED.search(each.message))}

    @cached_property
    def _known(self) -> list[str]:
        """All hashes, those included that only the message of a revert or a squash names."""
        named = {found["commit"] for each in self._reverts.values() for found in each if len(found["commit"]) >= 40}
        return sorted({*self._commits, *named, *(hash for each in self._squashed.values() for hash in each)})

    def _whole(self, beginning: str) -> str | None:
        """Return the only hash that begins so; None if there is none, or several."""
        if not beginning:
            return None
        at = bisect_left(self._known, beginning)
        found = [each for each in self._known[at : at + 2] if each.startswith(beginning)]
        return found[0] if len(found) == 1 else None

    def _descendants(self, commits: Iterable[str]) -> set[str]:
        """Return commits and all that are built on them."""
        found = set(commits)
        for each in self._commits.values():  # parents first
            if not found.isdisjoint(each.parents):
                found.add(each.hash)
        return found

    def _ancestors(self, tips: Iterable[str]) -> set[str]:
        """Return commits and all that they are built on."""
        found, todo = set[str](), [each for each in tips if each in self._commits]
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += [parent for parent in self._commits[each].parents if parent in self._commits]
        return found
