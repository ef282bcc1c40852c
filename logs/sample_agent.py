"""The agent of the sample, and the loop around it: retrieve, build a context, take steps, judge, learn.

Thoughts, answers and verdicts come from the story; everything else is computed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rdflib import Graph
from sample_tools import PREFIXES, Answer, Lights

from rbank_es.bank import Bank, cut
from rbank_es.events import (
    ContextBuilt,
    Event,
    Hit,
    LayerUse,
    LmCalled,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesRead,
    MemoriesRetrieved,
    MemoryProposed,
    NoteLogged,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from rbank_es.items import Item, Polarity, Source
from rbank_es.policies import Append, Dedup, consolidate, policy_of

ONTOLOGY = "lights"
SCRIPTED = {"scripted": True, "temperature": 0.7}
DOLLARS_PER_TOKEN = (3e-6, 15e-6)
CHARS_PER_TOKEN = 4
TOKENS_PER_S = 40
TOOLS = {
    "classes": "g_classes",
    "props": "g_props",
    "describe": "g_describe",
    "query": "sparql_query",
    "slice": "sparql_slice",
    "search": "mem_search",
    "get": "mem_get",
    "quote": "mem_quote",
    "note": "event_log",
    "add": "mem_add",
}
BASE = (
    "Answer the question about the graph. Tools return handles: small dicts with a key, a size, a preview. Read rows "
    "with sparql_slice(handle, offset, limit); print only what you need. Write loops in code. Use no more than the "
    "iterations you have. Make sub-calls in batches, and return variables rather than text. Read only: the graph can't "
    "be changed, and no other endpoint may be called. If the graph can't tell, say what is missing instead of "
    "guessing. When you know the answer, call SUBMIT(answer=..., sparql=...)."
)
SENSE_CARD = (
    "The graph describes the lights of one coast: lighthouses, lightships and beacons, the keepers who watched them, "
    "outages, inspections. Prefix lt: <https://lights.example/ns#>. Start with g_classes() and g_props(class)."
)


class Clock:
    """A clock that stands still until it is told what time it is. UTC."""

    def __init__(self) -> None:
        self._now_us = 0

    def __call__(self) -> int:
        """UTC microseconds since 1970."""
        return self._now_us

    def set(self, time: str) -> None:
        """Set an ISO time."""
        self._now_us = int(datetime.fromisoformat(time).astimezone(UTC).timestamp()) * 1_000_000

    def tick(self, seconds: float) -> None:
        """Let time pass; a few microseconds more, as on a real clock."""
        self._now_us += int(seconds * 1_000_000) + 137


class Teller:
    """Writes to the bank what happens, as time goes by."""

    def __init__(self, bank: Bank, clock: Clock, told: Mapping[str, Any], graph: Graph) -> None:
        self.bank, self.clock, self.told = bank, clock, told
        self.graph = graph
        self.judgments: dict[str, str] = {}
        self.learnt: dict[str, list[str]] = {}

    def add(self, *events: Event, seconds: float = 0.4) -> tuple[Event, ...]:
        """Append events as one group, some seconds later."""
        self.clock.tick(seconds)
        return self.bank.append(events).events

    def extract(self, kind: Any, items: list[Item], *, seconds: float = 2, **facts: Any) -> str:
        """Record candidates, and what the policy in force makes of them. Returns the extraction's id."""
        heads, texts = tuple(item.head for item in items), tuple(item.text for item in items)
        [extracted] = self.add(MemoriesExtracted(kind=kind, heads=heads, candidates=texts, **facts), seconds=seconds)
        if items:
            state = self.bank.state()
            policy = policy_of(state.policies["consolidation"])
            assert isinstance(policy, Append | Dedup)
            decisions = consolidate(policy, state, items)
            self.add(MemoriesConsolidated(extraction=extracted.id, policy=policy.label, decisions=decisions))
        return extracted.id


class Run:
    """One run of the scripted agent."""

    def __init__(self, story: Teller, told: Mapping[str, Any]) -> None:
        self.story, self.told = story, told
        self.id: str = told["id"]
        self.lights = Lights(story.graph)
        self.found: list[str] = []
        self.calls = 0
        self.prompt_chars = 0
        self.sparql: str | None = None

    def tell(self) -> None:
        """The run from its start to what was learnt from it."""
        hits = list(self._retrieve())
        self._start()
        self.story.add(*hits)
        self._build_context(list(dict.fromkeys(hit.id for event in hits for hit in event.hits)))
        for index, step in enumerate(self.told["steps"], 1):
            self._step(index, step)
        self._finish()
        self._judge()
        self._score()
        self._learn()

    # ---------------------------------------------------------------- before the first step

    def _start(self) -> None:
        layers = ("L0", "L2", "L3") if self.told.get("guide") else ("L0", "L2")
        self.story.add(
            RunStarted(
                run=self.id,
                ontology=ONTOLOGY,
                executor="rlm",
                model="scripted",
                layers=layers,
                budgets={"L0": 600, "L2": 600 * self.told.get("k", 1)} | ({"L3": 4000} if "L3" in layers else {}),
                mode="both" if self.told.get("mode") else "auto",
                iterations_max=self.told.get("iterations_max", 12),
                rollout_group=self.told.get("group"),
                rollout_index=self.told.get("index"),
                scripted=True,
                task=self.told["task"],
            )
        )

    def _retrieve(self) -> Iterator[MemoriesRetrieved]:
        wanted: list[tuple[Polarity, int]] = [("success", self.told.get("k", 1)), ("failure", 1)]
        for polarity, k in wanted:
            yield self._search(self.told["task"], k, polarity)

    def _search(self, query: str, k: int, polarity: Polarity | None = None, **facts: Any) -> MemoriesRetrieved:
        hits = self.story.bank.search(query, k, polarity=polarity)
        return MemoriesRetrieved(
            run=self.id,
            k=k,
            polarity=polarity,
            policy=policy_of(self.story.bank.state().policies["retrieval"]).label,
            hits=tuple(Hit(id=hit.id, rank=hit.rank, score=hit.score) for hit in hits),
            query=query,
            **facts,
        )

    def _build_context(self, ids: list[str]) -> None:
        items = [self.story.bank.state().items[id].item for id in ids]
        memory = "\n".join(f"[{item.polarity}] {item.title}. {cut(item.content, 220)}" for item in items)
        texts = {"base": BASE, "L0": SENSE_CARD, "L2": memory}
        if self.told.get("guide"):
            texts["L3"] = self.story.told["guide"].strip()
        budgets = {"base": 800, "L0": 600, "L2": 600 * self.told.get("k", 1), "L3": 4000}
        layers = tuple(LayerUse(layer=name, chars=len(text), budget=budgets[name]) for name, text in texts.items())
        self.prompt_chars = sum(map(len, texts.values()))
        injected, whole = tuple(ids), tuple(texts.values())
        self.story.add(
            ContextBuilt(run=self.id, chars=self.prompt_chars, layers=layers, items=injected, texts=whole), seconds=0.1
        )

    # ---------------------------------------------------------------- steps

    def _step(self, index: int, step: Mapping[str, Any]) -> None:
        asked = [(verb.strip(), rest.strip()) for verb, _, rest in (call.partition(":") for call in step["do"])]
        code = "\n".join(map(_code_of, asked)) or "# nothing more to look up"
        prompt_chars = self.prompt_chars
        self._lm("agent", prompt_chars, step["think"] + code, step=index)
        shown = [self._call(index, verb, rest) for verb, rest in asked]
        output = "\n".join(shown)
        self.prompt_chars += len(step["think"]) + len(code) + len(output)
        handles = len(self.lights.handles)
        self.story.add(
            StepTaken(
                run=self.id,
                index=index,
                stdout_chars=len(output),
                prompt_chars=prompt_chars,
                variables_n=2 + handles,
                variables_chars=120 + 90 * handles,
                variable_types={"str": 2} | ({"results": handles} if handles else {}),
                reasoning=step["think"],
                code=code,
                output=output,
            ),
            seconds=0.2,
        )

    def _call(self, step: int, verb: str, rest: str) -> str:
        self.calls += 1
        call = f"call-{self.calls}"
        beside, answer = self._answer(call, verb, rest)
        called = ToolCalled(
            run=self.id,
            tool=TOOLS[verb],
            call=call,
            step=step,
            chars=len(answer.shown),
            truncated=answer.truncated,
            duration_s=0.002 + len(answer.shown) / 1_000_000,
            error_code=answer.error_code,
            dtype=answer.dtype,
            alias=answer.alias,
            arguments=json.dumps({"input": rest}) if rest else None,
            result=answer.payload,
            error=answer.error,
        )
        self.story.add(*beside, called, seconds=0.3)
        return answer.shown

    def _answer(self, call: str, verb: str, rest: str) -> tuple[list[Event], Answer]:
        """What a tool answers, and what it leaves in the log beside its call."""
        if verb == "query":
            self.sparql = PREFIXES + rest
        if verb == "slice":
            offset, limit = map(int, rest.split())
            return [], self.lights.slice(offset, limit)
        if verb == "note":
            return [NoteLogged(run=self.id, by="agent", note=rest)], Answer(json.dumps({"ok": True}))
        if verb == "add":
            return [self._proposed(call, rest)], Answer(json.dumps({"ok": True, "stored": False}))
        if verb in ("search", "get", "quote"):
            return self._remember(call, verb, rest)
        ask: Callable[..., Answer] = getattr(self.lights, verb)
        return [], ask(*([rest] if rest else []))

    def _remember(self, call: str, verb: str, rest: str) -> tuple[list[Event], Answer]:
        if verb == "search":
            event = self._search(rest, 6, mode="tool", call=call)
            self.found = [hit.id for hit in event.hits]
            titles = [{"id": id, "title": self.story.bank.get([id])[0].title} for id in self.found]
            return [event], Answer(json.dumps(titles), dtype="mem")
        ids = tuple(self.found[: int(rest)])
        words = [item.content for item in self.story.bank.get(ids)]
        shown = json.dumps(words if verb == "get" else [cut(text, 80) for text in words])
        how: Any = verb
        return [MemoriesRead(run=self.id, ids=ids, how=how, chars=len(shown), call=call)], Answer(shown, dtype="mem")

    def _proposed(self, call: str, title: str) -> MemoryProposed:
        item = Item.make(title, "Proposed while working; the judged extraction decides.", "success", domain=ONTOLOGY)
        return MemoryProposed(run=self.id, by="mem_add", call=call, head=item.head, candidate=item.text)

    def _lm(self, role: Any, chars_in: int, response: str, **facts: Any) -> None:
        tokens_in, tokens_out = chars_in // CHARS_PER_TOKEN, max(1, len(response) // CHARS_PER_TOKEN)
        cost = tokens_in * DOLLARS_PER_TOKEN[0] + tokens_out * DOLLARS_PER_TOKEN[1]
        called = LmCalled(
            run=self.id,
            role=role,
            model="scripted",
            attempt=1,
            parameters=SCRIPTED,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=round(cost, 6),
            duration_s=round(tokens_out / TOKENS_PER_S, 3),
            request_key=hashlib.sha256(f"{self.id} {role} {facts} {chars_in}".encode()).hexdigest(),
            **facts,
        )
        self.story.add(called, seconds=tokens_out / TOKENS_PER_S)

    # ---------------------------------------------------------------- after the last step

    def _finish(self) -> None:
        answer = self.told.get("answer")
        evidence = [f"results_{index}" for index in range(len(self.lights.handles))]
        self.story.add(
            RunFinished(
                run=self.id,
                outcome=self.told.get("outcome", "submitted"),
                iterations=len(self.told["steps"]),
                answer_chars=len(answer) if answer else None,
                error_code=self.told.get("error_code"),
                answer=answer,
                sparql=self.sparql if answer else None,
                evidence=json.dumps(evidence) if answer else None,
                error=self.told.get("error"),
            ),
            seconds=60 if self.told.get("error") else 0.4,
        )

    def _judge(self) -> None:
        verdict = self.told.get("judged")
        if verdict is None:
            reason = "Nothing was submitted before the iterations ran out."
            if self.told.get("error"):
                reason = "The run ended in an error."
            verdict, judge, kind = {"success": False, "reason": reason}, "converged", "check"
        else:
            judge, kind = "scripted-judge", "lm"
            self._lm("judge", 900 + len(self.told["task"]), verdict["reason"])
        facts: Any = {"judge": judge, "judge_version": "1", "kind": kind, **verdict}
        [event] = self.story.add(RunJudged(run=self.id, purpose="learning", **facts))
        self.story.judgments[self.id] = event.id

    def _score(self) -> None:
        scored = self.told.get("scored")
        if scored:
            gold = RunJudged(run=self.id, purpose="scoring", judge="gold", judge_version="1", kind="check", **scored)
            self.story.add(gold)

    def _learn(self) -> None:
        told = self.told.get("learn")
        if told is None:
            return
        kind: Source = "success" if self.told.get("judged", {}).get("success") else "failure"
        runs = (self.id,)
        if "contrast" in self.told:
            kind, runs = "contrastive", (self.told["contrast"], self.id)
        items = [item_of(entry, kind, domain=ONTOLOGY) for entry in told]
        self._lm("extractor", self.prompt_chars, "".join(item.content for item in items) or "[]")
        reason = "" if items else "The run shows nothing that the bank doesn't hold."
        facts: Any = {"runs": runs, "judgment": self.story.judgments[self.id], "extractor": "scripted-1"}
        self.story.extract(kind, items, reason=reason, **facts)
        self.story.learnt[self.id] = [item.id for item in items]


def item_of(told: Mapping[str, Any], src: Source, *, domain: str | None) -> Item:
    """An item as the story tells it."""
    tags = tuple(told["tags"])
    return Item.make(told["title"], told["content"], src, desc=told["desc"], tags=tags, domain=domain)


def _code_of(asked: tuple[str, str]) -> str:
    verb, rest = asked
    if verb == "slice":
        offset, limit = rest.split()
        return f"print(sparql_slice(result, {offset}, {limit}))"
    if verb == "query":
        return f"result = sparql_query({rest!r})\nprint(result)"
    return f"print({TOOLS[verb]}({repr(rest) if rest else ''}))"
