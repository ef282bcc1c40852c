"""What an agent, a judge, an extractor and people read about a run without a source speaks of no source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import get_args

import pytest

from rbank_es.agents.hook_recall import BACKGROUND
from rbank_es.agents.skill_lines import HEADINGS
from rbank_es.context.assembly import build_context
from rbank_es.context.base_instructions import base_instructions
from rbank_es.events.items import Item
from rbank_es.events.run_events import Mode
from rbank_es.extraction.conversation import UNREADABLE
from rbank_es.judging.checks import judge_by_checks
from rbank_es.judging.lm_judge import LEANINGS, SHOWN
from rbank_es.judging.run_outcome import RunOutcome
from rbank_es.models.prompt import asked_again
from rbank_es.models.role_prompts import PromptKind, prompt_for
from rbank_es.policies.quoted_items import pack_items

WORDS_OF_SOURCES = re.compile(
    r"\b(?:graphs?|sparql|submit|ontolog\w+|triples?|iris?|handles?|endpoints?|prefix(?:es)?|quer(?:y|ies)|rows?"
    r"|class(?:es)?|propert(?:y|ies)|terms?|\w*(?:sparql|ctx|g)_\w+)\b",
    re.IGNORECASE,
)
"""One list for all of these texts."""

KINDS = [kind for kind in get_args(PromptKind) if kind != "rating"]
"""Ratings are of experiments, whose suites are about an ontology or an endpoint."""

TASK = "Which invoices are overdue?"
ITEMS = [
    Item(id="do", title="Sort by date", desc="", content="The oldest first.", src="success", polarity="success"),
    Item(id="dont", title="Guess no date", desc="", content="Look it up.", src="failure", polarity="failure"),
]


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name of each text and the text."""
    for mode, memory_graph in product(get_args(Mode), (False, True)):
        instructions = base_instructions(mode, memory_graph=memory_graph, source=False)
        yield f"base instructions, {mode}{', history' * memory_graph}", instructions.text
    for kind in KINDS:
        prompt = prompt_for(kind, over_source=False)
        [schema] = {field.schema for field in prompt.outputs.values() if field.schema} or {""}
        messages = asked_again(prompt.messages(dict.fromkeys(prompt.inputs, "none")), "none", UNREADABLE)
        for message in messages:
            yield f"{kind}, {message['role']}", message["content"].replace(schema, "")  # has JSON's own words
    for strictness, leaning in LEANINGS.items():
        if leaning:
            yield f"judge, {strictness}", leaning.format(shown=SHOWN[False])
    yield "an unreadable answer", UNREADABLE
    yield "a hook's recall", BACKGROUND
    yield "headings of skills", "\n".join(HEADINGS.values())
    yield "procedures", pack_items(ITEMS, about=TASK).text
    yield "context", build_context(TASK).text
    for outcome, answer in product(("submitted", "forced_at_limit", "failed"), ("Two.", "")):
        verdict = judge_by_checks(RunOutcome(task=TASK, answer=answer, outcome=outcome))
        yield f"checks, {outcome}, {answer}", verdict.reason


TEXTS = dict(texts())


@pytest.mark.parametrize("name", TEXTS)
def test_no_word_is_about_a_source(name: str) -> None:
    assert TEXTS[name]
    assert WORDS_OF_SOURCES.findall(TEXTS[name]) == []


def test_the_list_finds_them_where_there_is_a_source() -> None:
    found = {word.lower() for word in WORDS_OF_SOURCES.findall(base_instructions().text)}
    assert {"handle", "graph", "iris", "sparql_slice", "submit", "prefixes", "terms", "rows", "query"} <= found
