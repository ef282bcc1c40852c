"""JSON by schema: judges and extractors ask for it where the server has it, and do without where it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es.errors import BadInput
from rbank_es.events.run_events import Role
from rbank_es.events.server_traits import ServerTraits
from rbank_es.judging.verdict_reply import LmReply, read_reply
from rbank_es.models.model_choice import LmChoice
from rbank_es.models.role_prompts import prompt_for
from rbank_es.models.run_models import Lms
from tests.models.openai_server import error, openai_server
from tests.models.runs import called
from tests.tools.tool_sessions import bank_at

JUDGE = prompt_for("judge")
TALK = JUDGE.messages(dict.fromkeys(JUDGE.inputs, "x"))
SAID = json.dumps({"verdict": "failure", "confidence": 0.5, "reason": "A row is missing."})
KEEPS = (ServerTraits(model="openai/small", json_schema=True),)


def asked(place: Path, url: str, *, servers: Any = KEEPS, tries: int = 1, **arguments: Any) -> list[Any]:
    """The recorded calls of a judge."""
    choice = LmChoice(model="openai/small", api_base=url, arguments=arguments)
    with bank_at(place) as bank, Lms(bank, None, {"judge": choice}, servers=servers) as lms:
        for _ in range(tries):
            reply = lms.ask("judge", TALK, temperature=0.0, schema=JUDGE.schema)
            assert isinstance(read_reply(reply), LmReply)
        return called(bank)


def test_it_may_be_asked_for_by_hand(tmp_path: Path) -> None:
    with openai_server([SAID]) as server:
        asked(tmp_path / "bank", server.url, servers=(), response_format="json_schema")
    assert server.requests[0]["response_format"]["type"] == "json_schema"
    with pytest.raises(BadInput, match="response_format must be json_schema or false"):
        asked(tmp_path / "other", server.url, response_format="json_object")


def test_a_server_that_refuses_a_schema_is_asked_without_from_then_on(tmp_path: Path) -> None:
    refusal = error("400 Bad Request", "response_format is not supported by this model")
    with openai_server([refusal, SAID, SAID]) as server:
        events = asked(tmp_path / "one", server.url, tries=2)
    assert [each.error_code for each in events] == ["refused", None, None]
    assert ["response_format" in sent for sent in server.requests] == [True, False, False]
    assert ["response_format" in each.parameters for each in events] == [True, False, False]


@pytest.mark.parametrize("role", ["agent", "sub"])
def test_steps_are_never_bound_to_a_schema(tmp_path: Path, role: Role) -> None:
    with openai_server([SAID]) as server, bank_at(tmp_path / "bank") as bank:
        choice = LmChoice(model="openai/small", api_base=server.url, arguments={"response_format": "json_schema"})
        with Lms(bank, None, {"agent": choice}, servers=KEEPS) as lms:
            lms.ask(role, TALK)
        [event] = called(bank)
    assert "response_format" not in server.requests[0] and "response_format" not in event.parameters
