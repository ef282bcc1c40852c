"""The script of a suite: turns with which a scripted model answers every task rightly, made from the gold queries.

SCRIPTED: it says nothing about a model. It lets any experiment run from its first call to its report without a model.
Each executor finds its own fields in a turn, and every verdict is right. Each run teaches the properties that its gold
query names, as one item for the tasks of a family that name the same.
"""

from __future__ import annotations

from typing import Any

from rbank_es import limits
from rbank_es.errors import BadInput, QueryRefused
from rbank_es.judging.rubric import RUBRICS
from rbank_es.lab.task_suite import Suite
from rbank_es.lab.toml_text import to_toml
from rbank_es.loop.guide_run import guide_task
from rbank_es.loop.tasks import Task
from rbank_es.models.role_prompts import RATING_MOST
from rbank_es.sparql.parser import tree
from rbank_es.sparql.parser.parsed_query import parse_query

SUBMIT = "SUBMIT"


def script_of(suite: Suite) -> str:
    """Return the script as the TOML that `rbank_es.models.scripted_model` reads: the same text for the same suite.

    Raises `BadInput` for a task without a gold query, for a gold query that can't be read, and for more tasks than a
    script can hold.
    """
    tasks = [_task(task) for task in suite.tasks]
    tasks += [_guide(id, suite) for id in suite.ontologies]
    guides = RUBRICS["guide"]
    rated = {"ratings": dict.fromkeys(guides.criteria, RATING_MOST), "reason": "It is scripted."}
    tasks.append({"id": guides.judge, "judge": [{"fields": rated}]})
    text = to_toml({"name": f"{suite.name}: every task by its gold query", "task": tasks})
    if len(text.encode()) > limits.LM_SCRIPT_BYTES:
        raise BadInput(f"the script of {len(suite.tasks):,} tasks is over {limits.LM_SCRIPT_BYTES:,} bytes: take fewer")
    return text


def _task(task: Task) -> dict[str, Any]:
    if task.gold_sparql is None:
        raise BadInput(f"task {task.id} has no gold query, so no script can be made that answers it")
    query = task.gold_sparql
    ran, submitted = {"query": query}, {"answer": "What the query finds.", "sparql": query, "evidence": {}}
    verdict = {"verdict": "success", "confidence": "1", "reason": "The query is the right one."}
    return {
        "id": task.id,
        "agent": [
            _turn("Run the query.", "sparql_query", ran, f"found = sparql_query({query!r})\nprint(found)"),
            _turn("Submit it.", SUBMIT, submitted, _submitting(submitted)),
        ],
        "judge": [{"fields": verdict}],
        # Asked for lessons, and by the policy `merge` for what to do with them: nothing but what it does by itself.
        "extractor": [{"fields": {"memory_items": [_lesson(task)], "proposals": [], "why_none": ""}}] * 2,
    }


def _guide(ontology: str, suite: Suite) -> dict[str, Any]:
    own = [task for task in suite.tasks if task.ontology == ontology]
    lessons = dict.fromkeys(f"- {_lesson(task)['content']}" for task in own)
    text = "\n".join(["# A guide", "", "## Summary", "What the tasks of this suite need.", "", *lessons])
    submitted = {"answer": text, "sparql": "", "evidence": {}}
    return {"id": guide_task(ontology).id, "agent": [_turn("Write it.", SUBMIT, submitted, _submitting(submitted))]}


def _turn(thought: str, tool: str, arguments: dict[str, Any], code: str) -> dict[str, Any]:
    """Return a turn with the fields of every executor: each takes its own, and leaves out the others."""
    return {
        "fields": {
            "reasoning": thought,
            "code": f"```python\n{code}\n```",
            "next_thought": thought,
            "next_tool_name": tool,
            "next_tool_args": arguments,
        },
        "calls": [{"tool": tool, "args": arguments}],
    }


def _submitting(submitted: dict[str, Any]) -> str:
    return f"{SUBMIT}({', '.join(f'{name}={value!r}' for name, value in submitted.items())})"


def _lesson(task: Task) -> dict[str, str]:
    """Return the lesson of a task: its family, and the properties of its gold query, which hold no answer."""
    family = task.family or "one kind"
    named = ", ".join(_properties(task)) or "no property"
    return {
        "title": f"What tasks about {family} need"[: limits.ITEM_TITLE_CHARS],
        "description": f"Where a question is of the family {family}."[: limits.ITEM_DESC_CHARS],
        "content": f"For {family}, the right query names {named}."[: limits.ITEM_CONTENT_CHARS],
    }


def _properties(task: Task) -> list[str]:
    try:
        query = parse_query(task.gold_sparql or "")
    except QueryRefused as refused:
        raise BadInput(f"task {task.id}: its gold query can't be read: {refused.message}") from None
    paths = (triple.predicate for triple in tree.triples(query.tree))
    steps = (step for path in paths if not isinstance(path, tree.Variable) for step in tree.steps(path))
    return [*dict.fromkeys(query.token_at(step.offset).text for step in steps)]
