"""Scripts of suites: every task answered by its gold query, in a form that each executor reads."""

from __future__ import annotations

import re

import pytest

from rbank_es import limits
from rbank_es.data import LIGHTS
from rbank_es.errors import BadInput
from rbank_es.lab.suite_script import script_of
from rbank_es.lab.task_suite import Suite, load_suite
from rbank_es.loop.tasks import Task
from rbank_es.models.scripted_model import Script

SUITE = load_suite(LIGHTS)


def test_what_it_teaches_holds_no_literal_and_no_name_of_a_thing() -> None:
    taught = [
        script.fields["memory_items"][0] for task in Script.parse(script_of(SUITE)).task for script in task.extractor
    ]
    assert len(taught) == 2 * len(SUITE.tasks)
    for lesson in taught:
        assert not re.search(r"['\"]|(light|area|hazard|keeper):", lesson["content"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "tasks, words",
    [
        ([Task(id="t", question="How many?", answer="four")], "no gold query"),
        ([Task(id="t", question="How many?", gold_sparql="SELECT (")], "can't be read"),
        (
            [Task(id=f"t{n}", question="?", gold_sparql=f"ASK {{ ?s ?p '{'1' * 2_000}' }}") for n in range(1_000)],
            f"{limits.LM_SCRIPT_BYTES:,} bytes",
        ),
    ],
)
def test_what_no_script_can_answer_is_refused(tasks: list[Task], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        script_of(Suite.of("bad", tasks))
