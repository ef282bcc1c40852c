"""The guide: written once by an agent, kept whole with its cost, seen by later runs as a summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, LoopStopped
from rbank_es.events import ArtifactMaterialised, ContextBuilt, LmCalled, RunFinished
from rbank_es.loop import write_guide
from tests.loop.loops import SCRIPT as TASKS_SCRIPT
from tests.loop.loops import TASKS, CutOff, cut_off, local, looped, quick, scripted, source
from tests.loop.test_closed_loop import of_type
from tests.sandbox.sandboxes import require_dspy

require_dspy()

TEXT = "# Lights\n\n## Summary\nLighthouses have a focal height.\n\n## Pitfalls\n" + "Towers have heights too. " * 200

SCRIPT = f"""\
[[task]]
id = "guide-lights"
[[task.agent]]
reasoning = "Look."
expects = ["Write a guide to this ontology"]
code = "print(g_stats()['classes'])"
[[task.agent]]
reasoning = "Write."
code = '''
SUBMIT(answer={TEXT!r}, sparql='', evidence={{}})
'''
"""


def test_the_whole_text_is_kept_with_the_run_that_made_it_and_later_runs_see_a_summary(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        made = write_guide(bank, scripted(tmp_path, SCRIPT), source(), interpreters=local)
        [event] = of_type(bank, ArtifactMaterialised)
        assert (event.text, event.chars, event.kind, event.ontology) == (TEXT, len(TEXT), "guide", "lights")
        assert event.run == made.run and made.how == "ran" and made.scripted and made.lm_calls == 2
        looped(bank, scripted(tmp_path, TASKS_SCRIPT, layers=("L0", "L3")), TASKS[:1])
        context = of_type(bank, ContextBuilt)[-1]
        [guide] = [text for text in context.texts if isinstance(text, str) and text.startswith("# Guide")]
        assert "Lighthouses have a focal height." in guide and len(guide) <= 1_000


def test_a_function_writes_a_guide_in_the_place_of_named_models(tmp_path: Path) -> None:
    """By tools that it calls in words, of which its prompt has the manual, and without dspy."""
    asked, replies = (
        list[str](),
        [
            "What is there?",
            json.dumps({"name": "g_stats", "arguments": {}}),
            json.dumps({"name": "SUBMIT", "arguments": {"answer": TEXT, "evidence": []}}),
        ],
    )

    def complete(prompt: str) -> str:
        asked.append(prompt)
        return replies[len(asked) - 1]

    with quick(tmp_path / "bank") as bank:
        made = write_guide(bank, None, source(), complete=complete)
        assert (made.text, made.lm_calls) == (TEXT, 3)
        assert "Write a guide to this ontology" in asked[0] and '"name":"SUBMIT"' in asked[0]
        assert "it calls no tool" in asked[1]
        assert 'Your last reply:\n{"name":"g_stats","arguments":{}}\n\ng_stats answered: {"ok": true' in asked[2]
        assert [call.model for call in of_type(bank, LmCalled)] == ["function:complete"] * 3
        assert write_guide(bank, None, source(), complete=complete).how == "known"
        with pytest.raises(BadInput, match="settings with a model, or complete"):
            write_guide(bank, None, source())


def test_what_an_agent_thought_is_no_part_of_its_guide(tmp_path: Path) -> None:
    script = SCRIPT.replace(repr(TEXT), repr(f"<think>Summary first.</think>{TEXT}"))
    with quick(tmp_path / "bank") as bank:
        assert write_guide(bank, scripted(tmp_path, script), source(), interpreters=local).text == TEXT.strip()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"<think>{TEXT}", "thinking and no guide"),
        (f"~~~markdown\n{TEXT}", "never closed"),
        (f"{TEXT}\n\n## Summary\nOr this.", "different summaries"),
    ],
)
def test_half_a_guide_and_two_guides_are_none(tmp_path: Path, text: str, why: str) -> None:
    script = SCRIPT.replace(repr(TEXT), repr(text))
    with quick(tmp_path / "bank") as bank:
        with pytest.raises(LoopStopped, match=why):
            write_guide(bank, scripted(tmp_path, script), source(), interpreters=local)
        assert not of_type(bank, ArtifactMaterialised)


def test_it_is_written_once_unless_asked_for_again(tmp_path: Path) -> None:
    with quick(tmp_path / "bank") as bank:
        settings = scripted(tmp_path, SCRIPT)
        first = write_guide(bank, settings, source(), interpreters=local)
        position = bank.position
        assert write_guide(bank, settings, source(), interpreters=local).how == "known"
        assert bank.position == position
        again = write_guide(bank, settings, source(), again=True, interpreters=local)
        assert again.how == "ran" and again.artifact != first.artifact
        assert len(of_type(bank, ArtifactMaterialised)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("after", range(1, 9))
def test_cut_off_anywhere_the_same_call_ends_with_one_guide(tmp_path: Path, after: int) -> None:
    settings, place = scripted(tmp_path, SCRIPT), tmp_path / "bank"
    with quick(place) as bank:
        try:
            write_guide(cut_off(bank, after), settings, source(), interpreters=local)
            assert after == 8, "the call was over before it was cut off"
        except CutOff:
            pass
    with Bank.open(place) as bank:
        made = write_guide(bank, settings, source(), interpreters=local)
        assert made.text == TEXT and len(of_type(bank, ArtifactMaterialised)) == 1
        bank.check()


def test_no_guide_comes_of_an_agent_that_hands_in_nothing(tmp_path: Path) -> None:
    empty = (
        '[[task]]\nid = "*"\n' + '[[task.agent]]\nreasoning = "?"\ncode = "1"\n' * 2 + '[[task.agent]]\ntext = "?"\n'
    )
    with quick(tmp_path / "bank") as bank:
        for _ in range(2):
            with pytest.raises(LoopStopped, match="--again") as caught:
                write_guide(bank, scripted(tmp_path, empty, iterations=2), source(), interpreters=local)
            assert "goes on" not in str(caught.value), "the run counts as done"
        assert of_type(bank, ArtifactMaterialised) == [] and len(of_type(bank, RunFinished)) == 1
