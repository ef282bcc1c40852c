"""Shards: processes that share a folder and no lock publish each trial once, whoever is killed or stands still."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.lab.experiment_folder import read_experiment
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.shards import Shard, ShardFolder, status_of
from rbank_es.lab.tamper_evidence import beginning_faults
from rbank_es.lab.trial_claims import Claims
from rbank_es.lab.trial_place import TrialPlace, base_place
from tests.cli_runner import ROOT, digest_of
from tests.lab.trials import materials, pair, ran, told
from tests.loop.loops import CutOff
from tests.sandbox.sandboxes import require_dspy

require_dspy()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_each_trial_is_published_once_whoever_is_killed_or_stands_still(tmp_path: Path) -> None:
    """8 processes, no lock that reaches another, clocks that differ by hours."""
    folder, plain = tmp_path / "shared", tmp_path / "plain"
    line = [sys.executable, "-W", "ignore", "-m", "tests.lab.shard_rush", str(folder), "7"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    happened = json.loads(done.stdout)
    given = materials(tmp_path / "materials", pair(4))
    assert happened["published"] == given.experiment.trials and not happened["left"], (happened, done.stderr)
    assert happened["kills"] > 3 and happened["stops"] > 3 and not happened["failed"], (happened, done.stderr)
    read = read_experiment(folder)
    assert [each.state for each in read.trials] == ["finished"] * given.experiment.trials
    assert not read.unplanned and not list(beginning_faults(folder, trials(given.experiment)))
    ran(given, plain, shard=Shard(1, 1))
    for trial in trials(given.experiment):
        assert told(TrialPlace(folder, trial).bank) == told(TrialPlace(plain, trial).bank)
    with Bank.open(base_place(folder)) as base:
        assert not list(base.events(types={"experiment_started"})), "the common bank is only read"


@pytest.mark.slow
def test_shards_one_after_another_do_what_one_process_does(tmp_path: Path) -> None:
    given, folder = materials(tmp_path / "m", pair(2)), tmp_path / "shared"
    first = ran(given, folder, shard=Shard(1, 2))
    assert [each.trial for each in first] == Shard(1, 2).order(trials(given.experiment)), "nobody else was there"
    base = digest_of(base_place(folder))
    assert ran(given, folder, shard=Shard(2, 2)) == () and digest_of(base_place(folder)) == base
    assert {each.state for each in status_of(folder, given.experiment)} == {"finished"}
    assert not list(beginning_faults(folder, trials(given.experiment)))
    with pytest.raises(BadInput, match="environment.json"):
        ran(given, folder)  # not as one process: the trials anchor that shards ran it


@pytest.mark.slow
def test_who_takes_over_goes_on_from_what_was_recorded_and_moves_nothing(tmp_path: Path) -> None:
    given, folder = materials(tmp_path / "m"), tmp_path / "shared"

    def stopped(*_: Any) -> None:
        raise CutOff

    with pytest.raises(CutOff):
        ran(given, folder, shard=Shard(1, 1), on_task=stopped)
    [begun] = [each for each in status_of(folder, given.experiment) if each.state != "missing"]
    assert (begun.state, begun.generation, begun.left) == ("stale", 1, 1), "it let its claim go"
    trial = trials(given.experiment)[0]
    left = TrialPlace(folder, trial, 1).bank
    before = digest_of(left)
    calls: list[str] = []
    ran(given, folder, shard=Shard(1, 1), on_task=lambda trial, _: calls.append(trial.condition))
    assert digest_of(left) == before and calls.count(trial.condition) == 1, "its first task was not run again"
    assert not list(beginning_faults(folder, trials(given.experiment)))
    assert read_experiment(folder).trials[0].cuts == 1


@pytest.mark.slow
def test_the_first_that_is_done_counts_and_a_later_one_goes_under_cut(tmp_path: Path) -> None:
    given, folder = materials(tmp_path / "m"), tmp_path / "shared"
    trial = trials(given.experiment)[0]
    overtaken: list[int] = []

    def overtake(*_: Any) -> None:
        """As if this process stood still after its first task: its claim is old, and another does the trial."""
        if not overtaken:
            overtaken.append(1)
            os.utime(folder / "claims" / f"{TrialPlace(folder, trial).stem}.1", (0, 0))
            ran(given, folder, shard=Shard(1, 1))

    late = ran(given, folder, shard=Shard(1, 1), on_task=overtake)
    final = TrialPlace(folder, trial)
    assert late == () and final.found_bank is not None
    assert [path.name for path in final.cuts] == [f"{final.name}-cut1"] and not final.left
    assert [each.state for each in read_experiment(folder).trials] == ["finished", "finished"]


@pytest.mark.slow
def test_where_no_lock_reaches_a_second_process_is_refused_and_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without shards: it would cut off the bank that the first one is writing to."""
    given, folder = materials(tmp_path / "m"), tmp_path / "run"
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    refused: list[str] = []

    def second(*_: Any) -> None:
        with pytest.raises(BadInput, match="another process runs the experiment") as error:
            ran(given, folder)
        refused.append(str(error.value))
        # On another machine, which can't see whether the first one lives.
        claim = folder / "claims" / "experiment.1"
        claim.write_text(f"elsewhere.{claim.read_text()}")
        with pytest.raises(BadInput, match="another process runs the experiment"):
            ran(given, folder)

    outcomes = ran(given, folder, on_task=lambda *_: None if refused else second())
    assert refused and not any(each.cuts for each in outcomes) and not (folder / "claims").exists()


def test_a_claim_of_a_process_that_ended_here_is_stale_at_once_where_one_works_alone(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "x.1").write_text(f"{socket.gethostname()} {ended.pid}\n")
    with Claims(tmp_path).alone("x") as free:
        assert free and Claims(tmp_path).last("x").generation == 2
        with Claims(tmp_path).alone("x") as other:
            assert not other
    assert not (tmp_path / "claims").exists()


def test_of_several_who_find_a_claim_stale_one_makes_the_next(tmp_path: Path) -> None:
    one, other = Claims(tmp_path, 60), Claims(tmp_path, 60)
    claim = one.take("a-o0-r0")
    assert claim is not None and other.take("a-o0-r0") is None and other.take("a-o0-r1") is not None
    os.utime(claim.path, (0, 0))
    assert other.last("a-o0-r0").state == "stale"
    second = other.take("a-o0-r0")
    assert second is not None and second.generation == 2 and claim.is_superseded and not second.is_superseded
    assert one.take("a-o0-r0") is None and one.last("a-o0-r0").owner.endswith(str(os.getpid()))


def test_a_claim_is_stale_by_the_clock_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Claims(tmp_path, 60).take("a")
    assert held is not None
    for hours in (-5, 5):
        monkeypatch.setattr(time, "time", lambda hours=hours: 1_800_000_000 + 3_600 * hours)
        assert Claims(tmp_path, 60).last("a").state == "held"


def test_a_claim_is_renewed_while_its_owner_works_and_let_go_at_its_end(tmp_path: Path) -> None:
    claim = Claims(tmp_path, 0.3).take("a")
    assert claim is not None
    renewed, ends = {claim.path.stat().st_mtime_ns}, time.monotonic() + 60
    with claim.renewed():
        while len(renewed) < 4 and time.monotonic() < ends:
            time.sleep(0.01)
            renewed.add(claim.path.stat().st_mtime_ns)
        assert len(renewed) == 4 and Claims(tmp_path, 60).last("a").state == "held"
    assert Claims(tmp_path, 60).last("a").state == "stale"


def test_one_process_makes_the_common_bank_and_the_others_wait(tmp_path: Path) -> None:
    one, other = ShardFolder(tmp_path, 60), ShardFolder(tmp_path, 60)
    made: list[str] = []

    def make(place: Path) -> None:
        made.append(place.parent.name)
        waited: list[float] = []

        def wait(seconds: float) -> None:
            waited.append(seconds)
            raise CutOff

        with pytest.raises(CutOff):
            other.make_base(make, wait)
        place.mkdir()
        (place / "log").touch()

    one.make_base(make, time.sleep)
    other.make_base(make, time.sleep)
    assert made == ["base.1"] and (base_place(tmp_path) / "log").exists()


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "a/b", "1/1000000", "1/2/3", "-1/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="NUMBER/OF"):
        Shard.parse(text)


def test_each_shard_begins_with_trials_of_its_own_and_goes_through_all() -> None:
    planned = trials(pair(5))
    orders = [Shard.parse(f"{number}/3").order(planned) for number in (1, 2, 3)]
    assert all(sorted(map(repr, order)) == sorted(map(repr, planned)) for order in orders)
    assert len({repr(order[0]) for order in orders}) == 3


def test_a_link_in_the_place_of_a_generation_is_refused(tmp_path: Path) -> None:
    trial = trials(pair())[0]
    place = TrialPlace(tmp_path, trial, 1)
    place.home.parent.mkdir()
    place.home.symlink_to(tmp_path)
    with pytest.raises(BadInput, match="where a folder must be"):
        _ = TrialPlace(tmp_path, trial).left
