"""The plain definition of what became of a commit: it looks at the whole history for each question."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from rbank_es.agents.git_history import Commit, CommitFate, Move

REVERTS = re.compile(r"^This reverts commit (?P<commit>\w{40})(?:, reversing\nchanges made to (?P<base>\w{40}))?", re.M)
SQUASHED = re.compile(r"^commit (\w{40})$", re.M)
PICKED = re.compile(r"^\(cherry picked from commit (\w{40})\)$", re.M)


class PlainHistory:
    """A history, parents before their children; hashes are given whole."""

    def __init__(self, commits: Sequence[Commit], head: str | None, tips: Iterable[str], moves: Sequence[Move]) -> None:
        self.commits = {commit.hash: commit for commit in commits}
        self.order = {commit.hash: number for number, commit in enumerate(commits)}
        self.moves, self.at_head, self.at_tips = moves, self.ancestors([head] if head else []), self.ancestors(tips)

    def fate(self, commit: str, own: Collection[str] = ()) -> CommitFate:
        """Return what became of a commit."""
        copies = self.copies(commit)
        effects = {each: 1 for each in copies if each in self.order}
        for other in self.commits.values():
            if other.hash not in effects and (effect := self.effect_of(other, effects, copies)):
                effects[other.hash] = effect
        here = [each for each in effects if each in self.at_head]
        if not here:
            return self.lost(commit, {*copies, *(each for each, effect in effects.items() if effect > 0)})
        last = max(here, key=self.order.__getitem__)
        if effects[last] > 0:
            elsewhere = any(effects[each] < 0 for each in effects if each in self.at_tips - self.at_head)
            return CommitFate("unknown" if elsewhere else "present", commit, last)
        mine = {copy for each in own for copy in self.copies(each)}
        return CommitFate("own" if last in mine else "reverted", commit, last)

    def effect_of(self, commit: Commit, effects: dict[str, int], copies: Collection[str]) -> int:
        """Return whether a commit brings a work (1), takes it away (-1) or neither."""
        effect = 0
        for listed in reversed(SQUASHED.findall(commit.message)):
            effect = effects.get(listed, 1 if listed in copies else 0) or effect
        for match in REVERTS.finditer(commit.message):
            target, base = match["commit"], match["base"]
            if base is None:
                found = effects.get(target, 1 if target in copies else 0)
            else:
                brought = (
                    set[str]()
                    if not {target, base} <= self.commits.keys()
                    else self.ancestors([target]) - self.ancestors([base])
                )
                within = [each for each in effects if each in brought]
                found = effects[max(within, key=self.order.__getitem__)] if within else 0
            effect = -found or effect
        return effect

    def lost(self, commit: str, carriers: Collection[str]) -> CommitFate:
        """Return the fate of a commit that HEAD's history lacks."""
        if any(each in self.at_tips for each in carriers):
            return CommitFate("unknown", commit)
        built = {each for each in self.commits if self.ancestors([each]) & {*carriers}}
        for move in self.moves:
            if move.before in built and move.after not in built:
                tree, after = self.commits[move.before].tree, self.ancestors([move.after])
                kept = any(self.commits[each].tree == tree for each in self.at_head - after)
                if move.why.startswith("reset: moving to ") and not kept:
                    return CommitFate("reset", commit, move.after)
                break
        return CommitFate("unknown", commit)

    def copies(self, commit: str) -> set[str]:
        """Return the commits with the same work."""
        known = self.commits.get(commit)
        same = {commit, *(each.hash for each in self.commits.values() if known and each.work == known.work)}
        picked = {each.hash for each in self.commits.values() if {*PICKED.findall(each.message)[:1]} & same}
        return same | picked

    def ancestors(self, tips: Iterable[str]) -> set[str]:
        """Return commits and all that they are built on."""
        found = {each for each in tips if each in self.commits}
        for commit in reversed(self.commits.values()):
            if commit.hash in found:
                found |= {parent for parent in commit.parents if parent in self.commits}
        return found
