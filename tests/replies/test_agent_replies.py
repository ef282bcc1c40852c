"""Replies of small models in the place of an agent: what a person would read in each is read, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
import dspy  # noqa: E402

from rbank_es.executors.agent_step import AgentTask  # noqa: E402
from rbank_es.executors.tool_call import named_call  # noqa: E402
from rbank_es.models.dspy_adapter import adapter  # noqa: E402
from rbank_es.models.reply_syntax import has_ended  # noqa: E402

CORPUS = [json.loads(line) for line in (Path(__file__).parent / "agents.jsonl").read_text().splitlines()]
CALL: Any = dspy.Signature("question -> next_thought: str, next_tool_name: str, next_tool_args: dict[str, Any]")
ASKED: dict[str, Any] = {"call": CALL, "code": dspy.Signature("question -> reasoning, code"), "answer": AgentTask}


def reading(kind: str, reply: str, cut: bool) -> Any:
    """What an executor makes of a reply: a tool with its arguments, code, or an answer; None if it can't be read."""
    if cut and not has_ended(reply):
        return None
    try:
        read = adapter().parse(ASKED[kind], reply)
    except dspy.AdapterParseError:
        return None
    return [*named_call(read["next_tool_name"], read["next_tool_args"])] if kind == "call" else read[kind]


def test_each_reply_of_an_agent_has_its_right_reading() -> None:
    wrong = [
        (each["form"], found, each["reply"][:200])
        for each in CORPUS
        if (found := reading(each["kind"], each["reply"], each.get("cut", False))) != each["reading"]
    ]
    assert not wrong


@pytest.mark.parametrize("given", ["None", "null", "", "N/A", "{}"])
def test_a_word_for_no_arguments_is_none(given: str) -> None:
    """A small model called a tool without arguments, and was told that `None` is no JSON object."""
    reply = (
        f"[[ ## next_thought ## ]] I look.\n\n[[ ## next_tool_name ## ]] g_stats\n\n[[ ## next_tool_args ## ]] {given}"
    )
    assert reading("call", reply + "\n\n[[ ## completed ## ]]", cut=False) == ["g_stats", {}]


def test_the_corpus_of_agents_has_replies_of_every_kind_read_and_unread() -> None:
    found = {(each["kind"], each["reading"] is None) for each in CORPUS}
    assert found == {(kind, unread) for kind in ASKED for unread in (True, False)}
