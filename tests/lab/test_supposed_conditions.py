"""Conditions by supposition: where runs don't depend on memory, what is supposed is what a live trial has."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.events import MemoriesRetrieved
from rbank_es.lab.definition import parse_experiment
from rbank_es.lab.supposed_conditions import supposed_conditions
from tests.cli_runner import run
from tests.lab.trials import FREE, materials, ran
from tests.sandbox.sandboxes import require_dspy

require_dspy()

# No item reaches an agent, so that the runs of all conditions are the same and only the policies differ.
POLICIES = """\
name = "policies"
title = "t"
[shared]
executor = "scratchpad"
layers = ["L0"]
extract = true
[[condition]]
name = "append"
policies.consolidation.name = "append"
[[condition]]
name = "dedup"
policies.consolidation = { name = "dedup", version = 1, title_min = 0.0, content_min = [0, 1] }
[[condition]]
name = "bounded"
policies.consolidation.name = "append"
policies.forgetting = { name = "bounded", max_items = 1, grace = 0 }
[[condition]]
name = "longer"
iterations = 20
"""
# Both runs teach a strategy and a pattern of their query. To so lax a dedup all are alike, but the first one holds
# "never" and so contradicts the second, which is added; the others support that.
ALIKE = FREE.replace("success = false", "success = true")


@pytest.mark.slow
def test_what_is_supposed_over_the_same_runs_is_what_a_live_trial_has(tmp_path: Path) -> None:
    experiment = parse_experiment(POLICIES.encode())
    ran(materials(tmp_path, experiment, ALIKE), tmp_path / "run")
    found = {each.condition: each for each in supposed_conditions(experiment, tmp_path / "run", "append")}
    assert {*found} == {"dedup", "bounded"}, "another number of steps is no policy"
    assert {name: (each.items_basis, each.items_supposed) for name, each in found.items()} == {
        "dedup": (4, 2),
        "bounded": (4, 1),
    }
    assert all(each.items_supposed == each.items_live for each in found.values())
    assert (found["dedup"].differing, found["dedup"].decided) == (3, 4)
    with Bank.open(tmp_path / "run" / "banks" / "append" / "o0-r0") as bank:
        # Of items that no condition has otherwise, so that none of them is repeated.
        bank.append([MemoriesRetrieved(run="a", mode="auto", k=1, policy="bm25-2", query="x") for _ in range(16)])
    assert {each.retrieved for each in supposed_conditions(experiment, tmp_path / "run", "append")} == {16}
    told = run("experiment", "whatif", "run", "--basis", "append", cwd=tmp_path).out
    assert [line.split()[:5] for line in told.splitlines()[1:3]] == [
        ["o0-r0", "dedup", "4", "2", "2"],
        ["o0-r0", "bounded", "4", "1", "1"],
    ]
    with pytest.raises(BadInput, match="nothing can be supposed"):
        supposed_conditions(experiment, tmp_path / "run", "longer")
    with pytest.raises(BadInput, match="no trial of append is finished"):
        supposed_conditions(experiment, tmp_path / "elsewhere", "append")
