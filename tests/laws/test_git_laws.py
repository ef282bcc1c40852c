"""Laws of histories: a fate is that of the plain definition, and a question costs what it is about."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from rbank_es.agents.git_history import Commit, CommitHistory, Move
from rbank_es.errors import LimitExceeded
from rbank_es.limits import git_limits
from tests.agents.plain_history import PlainHistory
from tests.effort import examples


def hash_of(number: int) -> str:
    """The hash of a commit by its number; those from 90 on are in no history."""
    return f"{number * 7919 % 100_003:040x}"


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Commit], str, list[str], list[Move]]:
    """Commits that revert, squash and pick any others, also ones that nobody has, with tips and moves of HEAD."""
    count = draw(st.integers(1, 14))
    known = st.integers(0, count - 1)
    named = st.one_of(known, known, known, st.sampled_from((90, 91))).map(hash_of)
    messages = st.one_of(
        st.just("Work"),
        named.map(lambda one: f'Revert "Work"\n\nThis reverts commit {one}.'),
        st.tuples(named, named).map(
            lambda two: f"Revert\n\nThis reverts commit {two[0]}, reversing\nchanges made to {two[1]}."
        ),
        st.lists(named, min_size=1, max_size=3).map(
            lambda some: "Squashed\n\n" + "\n".join(f"commit {each}\n\n    Work" for each in some)
        ),
        named.map(lambda one: f"Work\n\n(cherry picked from commit {one})"),
        st.tuples(named, named).map(
            lambda two: f"Both\n\nThis reverts commit {two[0]}.\n\nThis reverts commit {two[1]}."
        ),
    )
    commits = []
    for number in range(count):
        parents = draw(st.lists(st.integers(max(0, number - 4), number - 1), max_size=2, unique=True)) if number else []
        tree, time = draw(st.sampled_from("abc")), draw(st.sampled_from(("1", *map(str, range(10, 30)))))
        commits.append(Commit(hash_of(number), tuple(map(hash_of, parents)), tree, "a@b", time, draw(messages)))
    whys = st.sampled_from(("reset: moving to HEAD~1", "commit: Work", "checkout: moving"))
    moves = draw(st.lists(st.builds(Move, known.map(hash_of), known.map(hash_of), whys), max_size=6))
    return commits, hash_of(draw(known)), draw(st.lists(known.map(hash_of), max_size=2)), moves


@settings(max_examples=examples(400), deadline=None)
@given(histories(), st.lists(st.integers(0, 13).map(hash_of), max_size=3))
def test_every_fate_is_that_of_the_plain_definition(
    drawn: tuple[list[Commit], str, list[str], list[Move]], own: list[str]
) -> None:
    commits, head, tips, moves = drawn
    history, plain = CommitHistory(commits, head, tips, moves), PlainHistory(commits, head, tips, moves)
    # A whole hash that nothing in the history has or names is unknown, and the plain definition isn't asked.
    for commit in commits:
        found = history.fate(commit.hash, own)
        event(found.fate)
        assert found == plain.fate(commit.hash, [each for each in own if each in plain.commits])


def reverted_merges(count: int, *, wide: bool) -> list[Commit]:
    """A history of so many merges that were reverted; `wide`: each revert claims that its merge brought all."""
    commits = [Commit(hash_of(10**6), (), "t", "a", "0", "first")]
    for number in range(count):
        last, root = commits[-1].hash, commits[0].hash
        work, merge = f"{3 * number + 1:040x}", f"{3 * number + 2:040x}"
        commits.append(Commit(work, (last,), f"w{number}", "a", f"{number}1", "Work"))
        commits.append(Commit(merge, (last, work), f"m{number}", "a", f"{number}2", "Merge"))
        told = f"Revert\n\nThis reverts commit {merge}, reversing\nchanges made to {root if wide else last}."
        commits.append(Commit(f"{3 * number + 3:040x}", (merge,), f"r{number}", "a", f"{number}3", told))
    return commits


def test_reverted_merges_are_decided_in_steps_as_many_as_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question went through the whole history for each revert of a merge: 2,000 runs took minutes."""
    commits = reverted_merges(2_000, wide=False)
    monkeypatch.setattr(git_limits, "GIT_STEPS", 20 * len(commits))
    history = CommitHistory(commits, commits[-1].hash, [commits[-1].hash])
    fates = [history.fate(commit.hash) for commit in commits if commit.message == "Work"]
    assert len(fates) == 2_000 and {each.fate for each in fates} == {"reverted"}


def test_a_history_whose_reverts_claim_all_of_it_is_refused_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_limits, "GIT_STEPS", git_limits.GIT_STEPS // 40)
    commits = reverted_merges(2_500, wide=True)
    with pytest.raises(LimitExceeded, match="reverts of merges"):
        CommitHistory(commits, commits[-1].hash, [commits[-1].hash]).fate(commits[1].hash)
