"""Scripts in the place of models: read by people, refused with the difference where reality departs."""

from pathlib import Path

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.errors import BadInput, LmFailed
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.run_models import Lms, check_choices
from rbank_es.models.scripted_model import Script, rendered
from tests.models.runs import ask, models

SCRIPT = """
name = "two lights"

[[task]]
id = "names"

[[task.agent]]
step = 1
expects = ["Which lights", "lt:Light"]
reasoning = "Look at the classes first."
code = '''
classes = g_classes()
print(classes)
'''

[[task.agent]]
step = 2
reasoning = "Now I know."
code = "SUBMIT(answer='two')"

[[task.judge]]
fields = { success = true, reason = "The names are right." }

[[task.extractor]]
text = "as it is"

[[task.sub]]
expects = ["first"]
text = "one"

[[task.sub]]
expects = ["second"]
text = "two"

[[task]]
id = "*"

[[task.agent]]
error = "rate_limited"

[[task.agent]]
rollout = 1
text = "of the second rollout"

[[task.agent]]
rollout = 0
text = "of the first rollout"

[[task.judge]]
error = "timeout"
"""


@pytest.fixture
def script(tmp_path: Path) -> LmChoice:
    (tmp_path / "demo.toml").write_text(SCRIPT)
    return LmChoice(model=f"script:{tmp_path / 'demo.toml'}")


def acted(lms: Lms, question: str = "Which lights are there? lt:Light") -> dspy.Prediction:
    with lms.context("agent"):
        return dspy.Predict("question -> reasoning, code")(question=question)


def test_a_turn_for_another_step_is_refused(script: LmChoice, tmp_path: Path) -> None:
    with models(tmp_path, script, task="names") as (_, lms):
        lms.calls.step = 2
        with pytest.raises(LmFailed, match="turn 1 is for step 1"):
            acted(lms)


def test_turns_that_nobody_took_are_told(script: LmChoice, tmp_path: Path) -> None:
    with models(tmp_path, script, task="names") as (_, lms):
        lms.calls.step = 1
        acted(lms)
        assert lms.unused == ("names, agent, turn 2",)


def test_a_rollout_takes_its_own_turns(script: LmChoice, tmp_path: Path) -> None:
    with models(tmp_path, script, task="any", rollout=1) as (_, lms):
        assert ask(lms) == "of the second rollout"


def test_all_roles_without_a_choice_share_one_script(script: LmChoice, tmp_path: Path) -> None:
    with models(tmp_path, script, task="names") as (_, lms):
        assert ask(lms, role="extractor") == "as it is"
        with pytest.raises(LmFailed, match="no turn is left"):
            ask(lms, role="extractor")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[task", "not TOML"),
        ("[[task]]\nid = 3", "id"),
        ("[[task]]\nid = 'a'\n[[task]]\nid = 'a'", "twice"),
        ("[[task]]\nid = 'a'\n[[task.agent]]\n", "exactly one"),
        ("[[task]]\nid = 'a'\n[[task.agent]]\ntext = 'x'\nerror = 'timeout'", "exactly one"),
        ("[[task]]\nid = 'a'\n[[task.agent]]\nerror = 'tired'", "unknown error 'tired'"),
        ("[[task]]\nid = 'a'\n[[task.agent]]\ntext = 'x'\nstep = 0", "step"),
        ("[[task]]\nid = 'a'\n[[task.agnet]]\ntext = 'x'", "agnet"),
        ("[[task]]\nid = 'a'\n[[task.agent]]\ntext = 'x'\nexpects = ['']", "expects"),
    ],
)
def test_a_script_of_another_form_is_bad_input_that_says_where(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=why):
        Script.parse(text)


@pytest.mark.parametrize("content", [None, b"\xff\xff", b"x" * 5_000_000])
def test_a_script_that_cant_be_read_is_bad_input_before_anything_is_recorded(
    content: bytes | None, tmp_path: Path
) -> None:
    place = tmp_path / "script.toml"
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(BadInput, match=r"script\.toml"):
        check_choices({"agent": LmChoice(model=f"script:{place}")})


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
values = st.one_of(st.booleans(), st.integers(), st.lists(st.text(max_size=5), max_size=3))


@given(st.dictionaries(names, values, min_size=1, max_size=4))
def test_rendered_fields_are_read_back_by_the_adapter(fields: dict[str, object]) -> None:
    kinds = {bool: "bool", int: "int", list: "list[str]"}
    outputs = ", ".join(f"out_{name}: {kinds[type(value)]}" for name, value in fields.items())
    text = rendered({f"out_{name}": value for name, value in fields.items()})
    read = dspy.ChatAdapter().parse(dspy.Signature(f"question -> {outputs}"), text)
    assert read == {f"out_{name}": value for name, value in fields.items()}
