"""Verdicts from git: what became of commits in generated repositories, against whether their work is there."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.agents.git_process import read_history
from rbank_es.agents.git_verdicts import learn_from_git
from rbank_es.errors import BadInput
from rbank_es.events import RunFinished, RunJudged, RunStarted
from rbank_es.limits import git_limits
from tests.agents.skill_banks import bank_of
from tests.cli_runner import fails, run


class Repository:
    """A repository in which each commit adds a file of its own, so that the files tell whose work is there."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.files: dict[str, str] = {}
        """The file of each commit that a run made, by the hash that it had then."""
        self._time = 1_700_000_000
        place.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.commit("first")

    def git(self, *arguments: str, check: bool = True) -> str:
        self._time += 60
        date = f"{self._time} +0000"
        names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_EDITOR": "true", "HOME": str(self.place)}
        done = subprocess.run(
            ["git", "-c", "advice.detachedHead=false", "-C", str(self.place), *arguments],
            env=os.environ | names | dates | {"GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.strip()

    def commit(self, name: str) -> str:
        """Commit a new file; return the hash."""
        (self.place / name).write_text(f"{name}\n")
        self.git("add", name)
        self.git("commit", "-q", "-m", f"Add {name}")
        return self.git("rev-parse", "HEAD")

    def work(self) -> str:
        """Commit as a run does; return the hash."""
        name = f"work-{len(self.files)}"
        hash = self.commit(name)
        self.files[hash] = name
        return hash

    def is_there(self, hash: str) -> bool:
        """Whether the work of a commit is in HEAD."""
        return self.files[hash] in self.git("ls-tree", "--name-only", "HEAD").splitlines()


def bank_of_runs(commits: dict[str, list[str]], verdict: str | None = "success") -> Bank:
    """A bank with runs that made these commits, as an importer of transcripts notes them."""
    bank = Bank.create("memory:")
    for name, made in commits.items():
        judged = RunJudged(
            run=name,
            purpose="learning",
            verdict=verdict or "success",
            judge="j",
            judge_version="1",
            kind="lm",  # type: ignore[arg-type]
        )
        finished = RunFinished(run=name, outcome="submitted", extra=json.dumps({"commits": made}))
        bank.append([RunStarted(run=name), finished, *([judged] if verdict else [])])
    return bank


def standing(bank: Bank, run: str) -> tuple[str, str]:
    found = bank.state().verdicts[run, "learning"]
    return found.verdict, found.judge


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


RANGE = "checkout -b feature; WORK; work; checkout main; commit; "
SQUASHED = "WORK; work; reset --soft HEAD~2; git-commit -m Both; "
LOST = {
    "a reverted merge": RANGE + "merge --no-ff --no-edit feature; revert --no-edit -m 1 HEAD",
    "a reverted squash": RANGE
    + "merge --squash feature; git-commit --no-edit; branch -D feature; revert --no-edit HEAD",
    "reverted after a rebase": RANGE + "checkout feature; rebase main; revert --no-edit HEAD~1",
    "a reset": "WORK; reset --hard HEAD~1; commit",
    "amended and reverted": "WORK; add; git-commit --amend --no-edit; revert --no-edit HEAD",
    "detached behind it": "WORK; revert --no-edit HEAD; checkout --detach HEAD",
}
KEPT = {
    "not merged": RANGE,
    "squashed by a reset": SQUASHED,
    "squashed and picked": SQUASHED + "tag both; reset --hard HEAD~1; commit; cherry-pick both",
    "squashed and rebased": "commit; " + SQUASHED + "rebase --onto HEAD~2 HEAD~1",
    "dropped by a rebase": "WORK; commit; rebase --onto HEAD~2 HEAD~1",
    "picked again": "WORK; tag work; revert --no-edit HEAD; cherry-pick work",
    "reset and back": "WORK; tag work; reset --hard HEAD~1; reset --hard work",
    "detached before it": "WORK; revert --no-edit HEAD; checkout HEAD~2",
    "reverted elsewhere": "WORK; checkout -b feature; revert --no-edit HEAD; checkout main",
}
"""What happens to work that is lost, and to work that is there or of which history does not tell."""


def happens(repository: Repository, script: str) -> str:
    """Do what a script says; return the commit of the run, which is its WORK."""
    work = ""
    for number, (name, *words) in enumerate(line.split() for line in script.strip("; ").split("; ")):
        if name in ("WORK", "work"):
            made = repository.work()
            work = made if name == "WORK" else work
        elif name == "commit":
            repository.commit(f"meanwhile-{number}")
        elif name == "add":
            (repository.place / "more").write_text("more")
            repository.git("add", "more")
        else:
            repository.git(name.removeprefix("git-"), *words)
    return work


@pytest.mark.parametrize("name", [*LOST, *KEPT])
def test_work_that_was_taken_away_fails_its_run_and_other_work_is_left_alone(repository: Repository, name: str) -> None:
    work = happens(repository, (LOST | KEPT)[name])
    with bank_of_runs({"r": [work[:8]]}) as bank:
        position = bank.position
        rows = learn_from_git(bank, repository.place).rows
        if name in LOST:
            assert [(row.verdict, row.commit) for row in rows] == [("failure", work)]
            assert standing(bank, "r") == ("failure", "git")
        else:
            assert not rows and bank.position == position


@pytest.mark.slow
def test_the_command_judges_by_git_and_takes_the_lesson_out_of_the_skills(
    repository: Repository, tmp_path: Path
) -> None:
    item = Item.make("Round half up", "Not banker's rounding.", "success", domain="shop")
    work = repository.work()
    with bank_of([item], tmp_path / "bank") as bank:
        bank.append(RunFinished(run="r1", outcome="submitted", extra=json.dumps({"commits": [work[:7]]})))
    run("skills", "./bank", "--into", "out", cwd=tmp_path)
    repository.git("revert", "--no-edit", work)
    shown = run("learn", "./bank", "--git", repository.place, "--dry-run", cwd=tmp_path).out
    assert "1 run with commits" in shown and work[:12] in shown and "reverted" in shown
    told = run("learn", "./bank", "--git", repository.place, "--json", cwd=tmp_path).json
    assert told["rows"][0]["verdict"] == "failure" and told["correction"]["verdicts"] == {"r1": "failure"}
    run("skills", "./bank", "--sync", cwd=tmp_path)
    assert not list((tmp_path / "out").glob("rbank-*"))
    repository.git("revert", "--no-edit", "HEAD")
    run("learn", "./bank", "--git", repository.place, cwd=tmp_path)
    run("skills", "./bank", "--sync", cwd=tmp_path)
    assert item.id in (tmp_path / "out" / "rbank-shop" / "SKILL.md").read_text()
    assert "no folder" in fails("learn", "./bank", "--git", "nowhere", cwd=tmp_path)
    assert "nothing else" in fails("learn", "./bank", "--git", ".", "--due", cwd=tmp_path)


def test_what_a_run_reverted_itself_is_no_judgment_on_it(repository: Repository) -> None:
    work = repository.work()
    repository.git("revert", "--no-edit", "HEAD")
    revert = repository.git("rev-parse", "HEAD")
    with bank_of_runs({"both": [work, revert]}) as bank:
        assert not learn_from_git(bank, repository.place).rows


def test_a_persons_verdict_stands_and_a_failure_needs_no_other(repository: Repository) -> None:
    one, two = repository.work(), repository.work()
    repository.git("revert", "--no-edit", one, two)
    with bank_of_runs({"one": [one], "two": [two]}) as bank:
        bank.overrule("one", "success", reason="it is right")
        bank.overrule("two", "failure", reason="it is wrong")
        position = bank.position
        [row] = learn_from_git(bank, repository.place).rows
        assert (row.run, row.verdict, row.because) == ("one", None, "a person judged it") and bank.position == position


def test_a_run_that_nobody_had_judged_cannot_be_given_its_verdict_back_and_is_named(repository: Repository) -> None:
    work = repository.work()
    repository.git("revert", "--no-edit", work)
    with bank_of_runs({"r": [work]}, verdict=None) as bank:
        learn_from_git(bank, repository.place)
        assert standing(bank, "r") == ("failure", "git")
        repository.git("revert", "--no-edit", "HEAD")
        [row] = learn_from_git(bank, repository.place).rows
        assert row.verdict is None and "nobody had decided it" in row.because


def test_bare_and_shallow_clones_empty_ones_and_those_without_the_commit(
    repository: Repository, tmp_path: Path
) -> None:
    kept, lost = repository.work(), repository.work()
    repository.git("revert", "--no-edit", lost)
    for name, how in {"bare": ["--bare"], "shallow": ["--depth", "1"]}.items():
        repository.git("clone", "-q", *how, f"file://{repository.place}", str(tmp_path / name))
        with bank_of_runs({"kept": [kept[:10]], "lost": [lost[:10]]}) as bank:
            assert [row.run for row in learn_from_git(bank, tmp_path / name).rows] == ["lost"]
    other = Repository(tmp_path / "other")
    empty = tmp_path / "empty"
    empty.mkdir()
    other.git("init", "-q", str(empty))
    with bank_of_runs({"kept": [kept], "lost": [lost], "odd": ["zzz", "", "HEAD", "--all"]}) as bank:
        assert not learn_from_git(bank, other.place).rows
        made = learn_from_git(bank, empty)
        assert not made.rows and made.looked_at == 2
        for place in (tmp_path / "nowhere", tmp_path):
            with pytest.raises(BadInput):
                learn_from_git(bank, place)


def test_no_program_that_a_repository_names_is_run(repository: Repository, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand", "diff.external", "core.editor"):
        repository.git("config", name, str(program))
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "alias.log", f"!{program}")
    read_history(repository.place)
    assert not (tmp_path / "ran").exists()


def test_no_remote_is_asked_by_a_git_that_does_not_know_how_to_fetch_nothing(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial clone names a program that would fetch the commit that is missing; older releases of git run it."""
    missing = repository.git("rev-parse", "HEAD")
    repository.commit("second")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{program}",
        "protocol.ext.allow": "always",
    }
    for name, value in settings.items():
        repository.git("config", name, value)
    (repository.place / ".git" / "objects" / missing[:2] / missing[2:]).unlink()
    older = tmp_path / "bin" / "git"
    older.parent.mkdir()
    older.write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n')
    older.chmod(0o755)
    monkeypatch.setenv("PATH", f"{older.parent}:{os.environ['PATH']}")
    with pytest.raises(BadInput):
        read_history(repository.place)
    assert not (tmp_path / "ran").exists()


def test_no_map_of_names_is_waited_for(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_limits, "GIT_S", 5.0)
    os.mkfifo(tmp_path / "map")
    repository.git("config", "mailmap.file", str(tmp_path / "map"))
    assert read_history(repository.place).fate("0" * 40).fate == "unknown"


def step(repository: Repository, chance: random.Random) -> None:
    """Let something happen in a repository: work, a revert, a merge, a squash, a pick, a rebase or a reset."""
    git, merges = repository.git, ["--first-parent", "--no-merges"]
    recent = git("rev-list", *merges, "-n", "6", "HEAD").split()[:-1]
    act = chance.choice(("work", "work", "revert", "revert", "merge", "squash", "pick", "rebase", "reset", "again"))
    if act == "work" or not recent:
        repository.work()
    elif act in ("revert", "again"):
        target = recent[0] if act == "again" else chance.choice(recent)
        if git("revert", "--no-edit", target, check=False) == "" and git("status", "--porcelain"):
            git("reset", "-q", "--merge", check=False)
            git("revert", "--abort", check=False)
    elif act == "reset":
        git("reset", "-q", "--hard", "HEAD~1")
    else:
        branch(repository, chance, act)


def branch(repository: Repository, chance: random.Random, act: str) -> None:
    """Work on a branch, and bring it in one way or another."""
    git = repository.git
    git("checkout", "-q", "-b", "feature")
    for _ in range(chance.randint(1, 2)):
        repository.work()
    tip = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    repository.commit(f"between-{len(repository.files)}")
    if act == "merge":
        git("merge", "-q", "--no-ff", "--no-edit", "feature")
    elif act == "squash":
        git("merge", "-q", "--squash", "feature")
        git("commit", "-q", "--no-edit")
    elif act == "pick":
        git("cherry-pick", f"main..{tip}")
    else:
        git("checkout", "-q", "feature")
        git("rebase", "-q", "main")
        git("checkout", "-q", "main")
        git("merge", "-q", "--ff-only", "feature")
    git("branch", "-q", "-D", "feature")


SEEDS = [range(4), *(pytest.param(range(first, first + 14), marks=pytest.mark.slow) for first in range(4, 74, 14))]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"from-{seeds.start}")
def test_generated_repositories_are_decided_as_their_files_are(tmp_path: Path, seeds: range) -> None:
    """A run failed if the files of its commit are not there, at two moments of each repository."""
    for seed in seeds:
        chance = random.Random(seed)
        repository = Repository(tmp_path / str(seed))
        for _ in range(7):
            step(repository, chance)
        runs = {file: [hash[: chance.choice((7, 12, 40))]] for hash, file in repository.files.items()}
        with bank_of_runs(runs) as bank:
            for _ in range(2):
                learn_from_git(bank, repository.place)
                for hash, file in repository.files.items():
                    if file in runs:
                        there = repository.is_there(hash)
                        assert (standing(bank, file)[0] == "success") is there, (seed, file, hash)
                assert not learn_from_git(bank, repository.place).rows
                for _ in range(4):
                    step(repository, chance)
