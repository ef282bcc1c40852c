"""A working directory with tasks for agents, and scripts that stand in for their models."""

from __future__ import annotations

import json
from pathlib import Path

from tests.loop.loops import SCRIPT, TASKS
from tests.loop.test_guide_run import SCRIPT as GUIDE_SCRIPT
from tests.loop.test_matts import SCRIPT as MATTS_SCRIPT

CANNED = """\
[[task]]
id = "success_case"
[[task.judge]]
fields = { success = true, reason = "The height is right." }
[[task.extractor]]
[[task.extractor.fields.memory_items]]
title = "Tell the heights of towers and lights apart"
description = "d"
content = "Use lt:focalHeight."
[[task]]
id = "*"
[[task.extractor]]
fields = { memory_items = [], why_none = "nothing" }
"""
SEED = [{"id": "seed-1", "title": "Count with COUNT(DISTINCT ?x)", "content": "Always.", "src": "seed", "tags": []}]


def furnished(tmp_path: Path) -> Path:
    """Write the files, and return the directory."""
    fields = ("id", "question", "gold_sparql", "ontology")
    tasks = [{name: value for name in fields if (value := getattr(task, name)) is not None} for task in TASKS]
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    (tmp_path / "one.json").write_text(json.dumps(tasks[:1]))
    stopping = SCRIPT.replace('["Use lt:focalHeight for heights"]', '["What is not there"]')
    rollouts = MATTS_SCRIPT.replace("[[task.agent]]\n", '[[task.agent]]\nexpects = ["What is not there"]\n')
    scripts = {
        "turns": SCRIPT, "stopping": stopping, "matts": MATTS_SCRIPT, "stopping-matts": rollouts, "canned": CANNED,
        "guide": GUIDE_SCRIPT,
    }  # fmt: skip
    for name, script in scripts.items():
        (tmp_path / f"{name}.toml").write_text(script)
    (tmp_path / "seed.json").write_text(json.dumps(SEED))
    return tmp_path
