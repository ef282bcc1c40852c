"""The law of forms: what a person would read in a reply is read, in every form and role; what is no reply never is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.sandbox.sandboxes import require_dspy

require_dspy()
import dspy  # noqa: E402

from rbank_es.executors.agent_step import AgentTask, code_of  # noqa: E402
from rbank_es.executors.submission import Submission  # noqa: E402
from rbank_es.executors.tool_call import named_call  # noqa: E402
from rbank_es.extraction.candidates import read_answer  # noqa: E402
from rbank_es.judging.verdict_reply import LmReply, read_reply  # noqa: E402
from rbank_es.limits import reply_limits  # noqa: E402
from rbank_es.models.dspy_adapter import adapter  # noqa: E402
from rbank_es.models.scripted_model import rendered  # noqa: E402
from rbank_es.sandbox.step_outcome import SubmissionRefused  # noqa: E402

CALL: Any = dspy.Signature("question -> next_thought: str, next_tool_name: str, next_tool_args: dict[str, Any]")
CODE: Any = dspy.Signature("question -> reasoning, code")
QUERY = "SELECT ?x { ?x a lt:Lighthouse }"
PROGRAM = f"found = sparql_query({QUERY!r})\nprint(found)"
THOUGHT = "I look for lighthouses."
WHY = "The one run only counted rows, which is known."
ITEM = {"title": "Count things", "description": "A join repeats rows.", "content": "Count with DISTINCT."}

# ---------------------------------------------------------------- forms

Fields = Mapping[str, Any]


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def laid_out(line: str, gap: str = "\n") -> Callable[[Fields], str]:
    """The form with such a line before each field, and such a gap before its text."""

    def form(fields: Fields) -> str:
        return "\n\n".join(
            f"{line.format(name, name.upper(), words(name))}{gap}{text_of(each)}" for name, each in fields.items()
        )

    return form


def words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def without_end(fields: Fields) -> str:
    return rendered(dict(fields)).removesuffix("[[ ## completed ## ]]\n")


headed = laid_out("[[ ## {0} ## ]]")
RECITAL = "In adhering to this structure, your objective is:\n        Answer the question.\n\n[[ ## answer ## ]]\nNo.\n"
FORMS: dict[str, Callable[[Fields], str]] = {
    "as asked": lambda fields: rendered(dict(fields)),
    "without an end": without_end,
    "on one line": laid_out("[[ ## {0} ## ]]", " "),
    "numbered": laid_out("[[ ## {0}_0 ## ]]"),
    "tight": laid_out("[[##{0}##]]"),
    "upper case": laid_out("[[ ## {1} ## ]]"),
    "indented": laid_out("  [[ ## {0} ## ]]"),
    "in a fence": lambda fields: f"```\n{rendered(dict(fields))}```",
    "in a fence of markdown": lambda fields: f"```markdown\n{rendered(dict(fields))}```",
    "behind words": lambda fields: f"Sure, here is my reply:\n\n{rendered(dict(fields))}",
    "before a recital": lambda fields: f"{rendered(dict(fields))}{RECITAL}",
    "before itself": lambda fields: f"{rendered(dict(fields))}{rendered(dict(fields))}",
    "behind thinking": lambda fields: f"<think>\nMaybe so, maybe not.\n</think>\n{rendered(dict(fields))}",
    "behind thinking in its form": lambda fields: (
        f"<think>\n{laid_out('[[ ## {0} ## ]]')(dict.fromkeys(fields, 'no'))}\n</think>\n{rendered(dict(fields))}"
    ),
    "half the brackets": laid_out("[ ## {0} ## ]"),
    "hashes": laid_out("## {0} ##"),
    "headings": laid_out("## {0}"),
    "headings of words": laid_out("### {2}"),
    "bold": laid_out("**{0}**"),
    "bold labels": laid_out("**{2}:**", " "),
    "bold labels outside": laid_out("**{0}**:", " "),
    "labels": laid_out("{0}:", " "),
    "labels of words": laid_out("{2}:", "\n"),
    "a list": laid_out("- {0}:", " "),
    "a numbered list": laid_out("1. **{2}**:", " "),
    "code labels": laid_out("`{0}`:", " "),
    "tags": lambda fields: "\n".join(f"<{name}>{text_of(each)}</{name}>" for name, each in fields.items()),
    "an object": lambda fields: json.dumps(dict(fields)),
    "an object over lines": lambda fields: json.dumps(dict(fields), indent=2),
    "a fenced object": lambda fields: f"```json\n{json.dumps(dict(fields), indent=2)}\n```",
    "an object behind words": lambda fields: f"Here is my reply:\n{json.dumps(dict(fields))}",
    "an object behind thinking": lambda fields: f"<think>Well.</think>\n{json.dumps(dict(fields))}",
    "an object of Python": lambda fields: repr(dict(fields)),
    "an object with a comma too many": lambda fields: json.dumps(dict(fields))[:-1] + ",}",
    "a constructor": lambda fields: f"Reply({', '.join(f'{name}={each!r}' for name, each in fields.items())})",
}

# ---------------------------------------------------------------- roles


def of_agent(signature: Any) -> Callable[[str], Any]:
    def read(reply: str) -> Any:
        try:
            found = adapter().parse(signature, reply)
        except dspy.AdapterParseError:
            return None
        if signature is CALL:
            return named_call(found["next_tool_name"], found["next_tool_args"])
        if signature is CODE:
            return code_of(found["code"]) or None
        try:
            given = Submission.of(found)
        except SubmissionRefused:
            return None
        return given.answer, given.sparql, given.evidence

    return read


def of_judge(reply: str) -> Any:
    found = read_reply(reply)
    return found.verdict if isinstance(found, LmReply) else None


def of_extractor(reply: str) -> Any:
    found = read_answer(reply, "memory_items", "why_none")
    return found.entries if found.entries is None or found.entries else found.reason


Read = Callable[[str], Any]
ROLES: dict[str, tuple[Read, Fields, Any]] = {
    "call": (
        of_agent(CALL),
        {"next_thought": THOUGHT, "next_tool_name": "sparql_query", "next_tool_args": {"query": QUERY}},
        ("sparql_query", {"query": QUERY}),
    ),
    "call of SUBMIT": (
        of_agent(CALL),
        {"next_thought": "Done.", "next_tool_name": "SUBMIT", "next_tool_args": {"answer": "Forty metres."}},
        ("SUBMIT", {"answer": "Forty metres."}),
    ),
    "call without arguments": (
        of_agent(CALL),
        {"next_thought": THOUGHT, "next_tool_name": "`sparql_schema`", "next_tool_args": {}},
        ("sparql_schema", {}),
    ),
    "code": (of_agent(CODE), {"reasoning": THOUGHT, "code": f"```python\n{PROGRAM}\n```"}, PROGRAM),
    "answer": (
        of_agent(AgentTask),
        {"answer": "Forty metres.", "sparql": QUERY, "evidence": {"keys": ["k"]}},
        ("Forty metres.", QUERY, {"keys": ["k"]}),
    ),
    "answer with words for nothing": (
        of_agent(AgentTask),
        {"answer": "Forty metres.", "sparql": "None", "evidence": "null"},
        ("Forty metres.", "", {}),
    ),
    "answer alone": (of_agent(AgentTask), {"answer": "Forty metres."}, ("Forty metres.", "", {})),
    "judge": (of_judge, {"verdict": "failure", "confidence": 0.8, "reason": "A row is missing."}, "failure"),
    "extractor": (of_extractor, {"memory_items": [ITEM], "why_none": ""}, [ITEM]),
    "extractor with a reason for none": (of_extractor, {"memory_items": [], "why_none": WHY}, WHY),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("role", ROLES)
def test_every_form_is_read_in_every_role(form: str, role: str) -> None:
    read, fields, right = ROLES[role]
    assert read(FORMS[form](fields)) == right


# ---------------------------------------------------------------- forms of one role

ARGUMENTS = json.dumps({"query": QUERY})
FUNCTION = {"name": "sparql_query", "arguments": {"query": QUERY}}
CALLED, SUBMITTED = ("sparql_query", {"query": QUERY}), ("SUBMIT", {"answer": "Forty metres."})
ALONE: dict[str, tuple[Read, str, Any]] = {
    "a call": (of_agent(CALL), f"sparql_query(query={QUERY!r})", CALLED),
    "a call behind words": (of_agent(CALL), f"I look.\n```python\nsparql_query(query={QUERY!r})\n```", CALLED),
    "a call in a bare fence": (of_agent(CALL), f"```\nsparql_query(query={QUERY!r})\n```\n", CALLED),
    "a call without arguments": (of_agent(CALL), "sparql_schema()", ("sparql_schema", {})),
    "a name with arguments": (
        of_agent(CALL),
        headed({"next_tool_name": f"sparql_query(query={QUERY!r})", "next_tool_args": {}}),
        CALLED,
    ),
    "no thought": (
        of_agent(CALL),
        rendered({"next_tool_name": "sparql_query", "next_tool_args": {"query": QUERY}}),
        CALLED,
    ),
    "SUBMIT alone": (of_agent(CALL), 'SUBMIT(answer="Forty metres.")', SUBMITTED),
    "submit in lower case": (of_agent(CALL), 'submit(answer="Forty metres.")', ("submit", {"answer": "Forty metres."})),
    "SUBMIT with an answer alone": (of_agent(CALL), 'SUBMIT("Forty metres.")', SUBMITTED),
    "words of ReAct": (
        of_agent(CALL),
        f"Thought: I look.\nAction: sparql_query\nAction Input: {ARGUMENTS}\nObservation: nine rows\nThought: So.",
        CALLED,
    ),
    "a tool call": (of_agent(CALL), json.dumps(FUNCTION), CALLED),
    "a tagged tool call": (
        of_agent(CALL),
        f"<tool_call>\n{json.dumps(FUNCTION)}\n</tool_call>",
        CALLED,
    ),
    "a function call": (
        of_agent(CALL),
        json.dumps(
            {"tool_calls": [{"type": "function", "function": {"name": "sparql_query", "arguments": {"query": QUERY}}}]}
        ),
        CALLED,
    ),
    "a tool and its args": (
        of_agent(CALL),
        json.dumps({"thought": "x", "tool": "sparql_query", "args": {"query": QUERY}}),
        CALLED,
    ),
    "arguments in a fence": (
        of_agent(CALL),
        headed(
            {
                "next_thought": "x",
                "next_tool_name": "sparql_query",
                "next_tool_args": f'```json\n{{"query": "{QUERY}"}}\n```',
            }
        ),
        CALLED,
    ),
    "code in a fence": (of_agent(CODE), f"```python\n{PROGRAM}\n```", PROGRAM),
    "code behind words": (of_agent(CODE), f"{THOUGHT}\n\n```python\n{PROGRAM}\n```\n", PROGRAM),
    "code in a fence of no language": (of_agent(CODE), f"```\n{PROGRAM}\n```", PROGRAM),
    "bare code": (of_agent(CODE), PROGRAM, PROGRAM),
    "code without its reasoning": (of_agent(CODE), rendered({"code": f"```python\n{PROGRAM}\n```"}), PROGRAM),
    "code that looks like thinking": (
        of_agent(CODE),
        rendered({"reasoning": "x", "code": "plan = 1\nprint(rows[plan], '<think>')"}),
        "plan = 1\nprint(rows[plan], '<think>')",
    ),
    "an answer submitted": (of_agent(AgentTask), 'SUBMIT(answer="Forty metres.")', ("Forty metres.", "", {})),
    "an answer submitted in a fence": (
        of_agent(AgentTask),
        f'```python\nSUBMIT(answer="Forty metres.", sparql={QUERY!r})\n```',
        ("Forty metres.", QUERY, {}),
    ),
    "an answer submitted alone": (of_agent(AgentTask), 'SUBMIT("Forty metres.")', ("Forty metres.", "", {})),
    "a final answer behind words": (
        of_agent(AgentTask),
        "I counted.\n\nFinal answer: Forty metres.",
        ("Forty metres.", "", {}),
    ),
    "items without a list": (of_extractor, json.dumps(ITEM), [ITEM]),
    "items by their schema's name": (
        of_extractor,
        f"[[ ## memory_items ## ]]\nMemoryItem({', '.join(f'{name}={each!r}' for name, each in ITEM.items())})",
        [ITEM],
    ),
    "a header left empty": (
        of_extractor,
        rendered({"memory_items": "", "why_none": WHY}),
        WHY,
    ),
}


@pytest.mark.parametrize("form", ALONE)
def test_forms_of_one_role_are_read(form: str) -> None:
    read, reply, right = ALONE[form]
    assert read(reply) == right


# ---------------------------------------------------------------- what is no reply


def places(fields: Fields) -> dict[str, str]:
    return {name: f"{{{name}}}" for name in fields}


NOTHING: dict[str, Callable[[Fields], str]] = {
    "nothing": lambda fields: "",
    "prose": lambda fields: "The light of the lighthouse stands 10 metres above high water, as far as one can see.",
    "prose with its words": lambda fields: f"I think about the {', the '.join(map(words, fields))}, and go on.",
    "a question": lambda fields: "Could you tell me more about the lighthouse?",
    "an apology": lambda fields: "I'm sorry, but I can't help with that.",
    "the places of the form": lambda fields: rendered(places(fields)),
    "the places in an object": lambda fields: json.dumps(places(fields)),
    "the places as labels": lambda fields: laid_out("{0}:", " ")(places(fields)),
    "the closing words of the prompt": lambda fields: (
        "Respond with the corresponding output fields, starting with the field "
        + ", then ".join(f"`[[ ## {name} ## ]]`" for name in fields)
        + ", and then ending with the marker for `[[ ## completed ## ]]`."
    ),
    "the list of fields": lambda fields: (
        "Your output fields are:\n"
        + "\n".join(f"{at}. `{name}` (str): What stands in it" for at, name in enumerate(fields, 1))
    ),
    "a schema": lambda fields: json.dumps(
        {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
    ),
    "half an object": lambda fields: json.dumps(dict(fields))[: len(json.dumps(dict(fields))) * 2 // 3],
    "thinking alone": lambda fields: f"<think>\n{rendered(dict(fields))}",
    "an end alone": lambda fields: "[[ ## completed ## ]]",
    "headers of nothing": lambda fields: headed(dict.fromkeys(fields, "")),
    "other headers": lambda fields: headed({"task": "How many?", "trajectory": "None."}),
    "code of another kind": lambda fields: "```sql\nSELECT * FROM lights\n```",
    "a program of another kind": lambda fields: "So:\n```python\nimport json\n```\nand then\n```python\nprint(1)\n```",
    "a line of the manual": lambda fields: "- `sparql_query(query, limit=100)` - Run one: sparql_query(q)['key']",
    "how to submit": lambda fields: "SUBMIT(answer=depth, sparql=query, evidence=keys)",
    "a quotation": lambda fields: f"For example, {json.dumps(dict(fields))} would be a reply.",
    "a block quotation": lambda fields: "\n".join(f"> {line}" for line in laid_out("{0}:", " ")(fields).splitlines()),
}


@pytest.mark.parametrize("form", NOTHING)
@pytest.mark.parametrize("role", ROLES)
def test_what_is_no_reply_is_not_read(form: str, role: str) -> None:
    read, fields, _ = ROLES[role]
    if (role, form) == ("code", "how to submit"):
        pytest.skip("it is a program of code that has such variables")
    assert read(NOTHING[form](fields)) is None


@pytest.mark.parametrize("reply", ["</think>" * 20_000, "<think>" * 20_000, "print(" * 9_000, "code:\n" * 9_000])
@pytest.mark.parametrize("role", ["call", "code", "answer"])
def test_a_reply_of_nothing_but_marks_is_looked_through_in_bounded_time(role: str, reply: str) -> None:
    began = time.thread_time()
    assert ROLES[role][0](reply) is None
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("chars", [10, 30_000])
def test_a_program_without_a_fence_is_one_up_to_a_bound(chars: int) -> None:
    program = f"{PROGRAM}  # {'x' * chars}"
    assert (of_agent(CODE)(program) == program) is (chars < reply_limits.REPLY_PROGRAM_CHARS)


def test_two_replies_in_one_that_differ_are_none() -> None:
    one, other = ({"tool": "find", "args": {"word": word}} for word in ("rock", "sand"))
    assert of_agent(CALL)(f"{json.dumps(one)}\n{json.dumps(other)}") is None
    assert of_agent(CALL)(f"{json.dumps(one)}\n{json.dumps(one)}") == ("find", {"word": "rock"})
    assert of_agent(AgentTask)("Answer: nine\n\nAnswer: ten") is None


def test_the_law_has_enough_templates() -> None:
    assert len(FORMS) * len(ROLES) + len(ALONE) >= 150 and len(NOTHING) * len(ROLES) >= 150
