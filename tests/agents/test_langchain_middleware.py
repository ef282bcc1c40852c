"""The middleware for LangChain's agents: what is recorded of `create_agent`, and how each invocation ends its run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from rbank_es import Bank
from rbank_es.agents.langchain_middleware import BankMiddleware

QUESTION = "Which lamps are lit?"
LESSON = ("Look at every lamp", "Which lamps are lit: look at every lamp before you say which lamps are lit.")
USAGE: Any = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14, "input_token_details": {"cache_read": 3}}
Script = list[AIMessage | BaseException]


class ScriptedChat(FakeMessagesListChatModel):
    """A chat model that says its script, and keeps what it was asked."""

    _script: Script = PrivateAttr()
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, *script: AIMessage | BaseException) -> None:
        super().__init__(responses=[])
        self._script = list(script)

    @property
    def asked(self) -> list[list[BaseMessage]]:
        return self._asked

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
        from langchain_core.outputs import ChatGeneration, ChatResult

        self._asked.append(messages)
        said = self._script.pop(0)
        if isinstance(said, BaseException):
            raise said
        return ChatResult(generations=[ChatGeneration(message=said)])


def calling(**arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "look", "args": arguments, "id": "c1"}], usage_metadata=USAGE)


def look(lamp: str) -> str:
    """Look at a lamp."""
    if lamp == "cellar":
        raise RuntimeError("the cellar is locked")
    return f"{lamp} is lit"


def right(task: str, answer: Any) -> tuple[bool, str]:
    return answer == "The hall's.", f"{task} {answer}"


@pytest.fixture
def bank() -> Iterator[Bank]:
    with Bank.create("memory:") as made:
        made.remember(*LESSON)
        yield made


def invoke(agent: Any, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]}, **more)
    return result


def ainvoke(agent: Any, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = asyncio.run(agent.ainvoke({"messages": [{"role": "user", "content": QUESTION}]}, **more))
    return result


BOTH = pytest.mark.parametrize("ask", [invoke, ainvoke])


@BOTH
def test_an_invocation_is_a_run_from_its_recall_to_its_verdict(bank: Bank, ask: Callable[..., Any]) -> None:
    model = ScriptedChat(calling(lamp="hall"), AIMessage("The hall's.", usage_metadata=USAGE))
    middleware = BankMiddleware(bank, judge=right, domain="house", model="a-model")
    agent = create_agent(model, [look], system_prompt="You are short.", middleware=[middleware])
    result = ask(agent)
    assert result["messages"][-1].content == "The hall's."
    found = bank.run(result["rbank_run"])
    row = found.run
    assert (row.task, row.ontology, row.executor, row.outcome) == (QUESTION, "house", "langchain", "submitted")
    assert (row.verdict, row.kind, row.reason) == ("success", "outcome", f"{QUESTION} The hall's.")
    assert (row.recall_sent, row.lm_calls, row.tool_calls, row.tokens) == (True, 2, 1, 28)
    for asked in model.asked:
        system = asked[0].text
        assert system.startswith("You are short.\n\n") and LESSON[1] in system
    [call, *_] = bank.events(types=["lm_called"])
    assert (call.tokens_in, call.tokens_out, call.tokens_cached) == (10, 4, 3)
    assert LESSON[0] in call.request and '"name": "look"' in call.response.replace('":"', '": "')
    [tool] = bank.events(types=["tool_called"])
    assert (tool.tool, tool.result) == ("look", "hall is lit") and "hall" in tool.arguments


def test_each_turn_of_a_thread_is_a_run_of_its_own_and_lessons_stay_out_of_its_messages(bank: Bank) -> None:
    model = ScriptedChat(AIMessage("a"), AIMessage("b"))
    agent = create_agent(model, [], middleware=[BankMiddleware(bank)], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    first, second = invoke(agent, config=config), invoke(agent, config=config)
    assert first["rbank_run"] != second["rbank_run"]
    assert {row.outcome for row in bank.runs().rows} == {"submitted"} and len(bank.runs().rows) == 2
    assert [each.type for each in second["messages"]] == ["human", "ai", "human", "ai"]
    assert LESSON[1] in model.asked[1][0].text


class Raising(AgentMiddleware):
    """Another middleware, which raises where the agent's answer is there."""

    def after_model(self, state: Any, runtime: Any) -> None:
        raise ValueError("not like this")


@BOTH
@pytest.mark.parametrize(
    ("script", "others", "code"),
    [
        ([RuntimeError("no model")], [], "raised"),
        ([calling(lamp="cellar")], [], "raised"),
        ([AIMessage("x")], [Raising()], "raised"),
        ([calling(lamp="hall")] * 9, [], "raised"),  # more steps than the graph may have
        ([KeyboardInterrupt()], [], "interrupted"),
    ],
    ids=["model", "tool", "another middleware", "limit of steps", "Ctrl-C"],
)
def test_whatever_leaves_the_agent_ends_its_run(
    bank: Bank, ask: Callable[..., Any], script: Script, others: list[Any], code: str
) -> None:
    agent = create_agent(ScriptedChat(*script), [look], middleware=[*others, BankMiddleware(bank)])
    with pytest.raises(BaseException) as raised:  # noqa: B017, PT011
        ask(agent, config={"recursion_limit": 8})
    [row] = bank.runs().rows
    assert (row.outcome, row.error_code, row.verdict) == ("failed", code, None)
    [end] = bank.events(types=["run_finished"])
    assert code == "interrupted" or str(raised.value)[:20] in end.error
