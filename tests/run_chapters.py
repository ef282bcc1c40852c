"""What a generated history tells of runs: one chapter each, drawn from small pools; `strategies.py` has the others."""

from __future__ import annotations

from hypothesis import strategies as st

from rbank_es.events import (
    ContextBuilt,
    Event,
    Hit,
    LayerUse,
    LmCalled,
    MemoriesRead,
    MemoriesRetrieved,
    RunFinished,
    RunStarted,
    StepTaken,
    ToolCalled,
)
from tests.pools import (
    DOMAINS,
    GUIDES,
    OCCURRED,
    RUNS,
    SIXTEENTHS,
    TOOLS,
    counts,
    maybe_counts,
    maybe_texts,
    one_of_each,
    runs,
    some_items,
    texts,
)

STARTED = one_of_each(
    RUNS,
    OCCURRED,
    (None, *DOMAINS),
    (None, "model-1", "model-2"),
    (None, "rlm", "react"),
    (None, "auto", "tools", "both"),
    (None, "group-1"),
    (None, 0, 1),
    (False, True),
)


def started(draw: st.DrawFn, story: object) -> list[Event]:
    run, at, ontology, model, executor, mode, group, index, scripted = draw(STARTED)
    return [
        RunStarted(
            run=run,
            occurred_at=at,
            ontology=ontology,
            model=model,
            executor=executor,
            mode=mode,
            iterations_max=draw(maybe_counts),
            rollout_group=group,
            rollout_index=index,
            scripted=scripted,
            task=draw(texts),
        )
    ]


FINISHED = one_of_each(RUNS, OCCURRED, ("submitted", "forced_at_limit", "failed"), SIXTEENTHS, SIXTEENTHS)


def finished(draw: st.DrawFn, story: object) -> list[Event]:
    run, at, outcome, cost_usd, duration_s = draw(FINISHED)
    return [
        RunFinished(
            run=run,
            occurred_at=at,
            outcome=outcome,
            iterations=draw(maybe_counts),
            lm_calls=draw(maybe_counts),
            tokens_in=draw(maybe_counts),
            tokens_out=draw(maybe_counts),
            cost_usd=cost_usd,
            duration_s=duration_s,
            answer_chars=draw(maybe_counts),
            recall_sent=draw(st.sampled_from((None, True, False))),
            recall_unsent=draw(some_items) if draw(st.booleans()) else (),
            answer=draw(maybe_texts),
            sparql=draw(maybe_texts),
            error=draw(maybe_texts),
        )
    ]


LAYERS = st.lists(st.sampled_from(("base", "L0", "L1", "L2")), max_size=3, unique=True)
CUT_COUNTS = one_of_each((False, True), range(5_001))
IN_CONTEXT = one_of_each(RUNS, ((), *((guide,) for guide in GUIDES)))


def context(draw: st.DrawFn, story: object) -> list[Event]:
    uses, given = [], []
    for layer in draw(LAYERS):
        truncated, chars = draw(CUT_COUNTS)
        uses.append(LayerUse(layer=layer, chars=chars, truncated=truncated))
        given.append(draw(texts))
    run, guides = draw(IN_CONTEXT)
    shown, chars = draw(some_items), draw(counts)
    return [ContextBuilt(run=run, chars=chars, layers=tuple(uses), texts=tuple(given), items=shown, artifacts=guides)]


RETRIEVED = one_of_each((*(None,) * len(RUNS), *RUNS), ("auto", "tool"), range(7))


def retrieved(draw: st.DrawFn, story: object) -> list[Event]:
    run, mode, k = draw(RETRIEVED)
    hits = tuple(Hit(id=id, rank=rank, score=-1.0 / rank) for rank, id in enumerate(draw(some_items), 1))
    return [MemoriesRetrieved(run=run, mode=mode, k=k, policy="bm25-1", hits=hits, query=draw(texts))]


READ = one_of_each(RUNS, ("get", "get", "quote"), range(5_001))


def read(draw: st.DrawFn, story: object) -> list[Event]:
    run, how, chars = draw(READ)
    return [MemoriesRead(run=run, ids=draw(some_items), how=how, chars=chars)]


CALLED = one_of_each(
    RUNS, TOOLS, (*(None,) * 5, *range(5)), (None, None, False, True), SIXTEENTHS, (None, None, "timeout")
)


def tool(draw: st.DrawFn, story: object) -> list[Event]:
    run, tool, step, truncated, duration_s, error_code = draw(CALLED)
    return [
        ToolCalled(
            run=run,
            tool=tool,
            step=step,
            chars=draw(maybe_counts),
            truncated=truncated,
            duration_s=duration_s,
            error_code=error_code,
            result=draw(maybe_texts),
        )
    ]


def step(draw: st.DrawFn, story: object) -> list[Event]:
    return [
        StepTaken(
            run=draw(runs),
            index=draw(st.integers(0, 4)),
            stdout_chars=draw(maybe_counts),
            prompt_chars=draw(maybe_counts),
            variables_n=draw(maybe_counts),
            variables_chars=draw(maybe_counts),
            code=draw(maybe_texts),
        )
    ]


ASKED = one_of_each((*(None,) * len(RUNS), *RUNS), ("agent", "sub", "judge", "extractor"), SIXTEENTHS)


def lm(draw: st.DrawFn, story: object) -> list[Event]:
    run, role, cost_usd = draw(ASKED)
    return [
        LmCalled(
            run=run,
            role=role,
            model="model-1",
            tokens_in=draw(maybe_counts),
            tokens_out=draw(maybe_counts),
            cost_usd=cost_usd,
            response=draw(maybe_texts),
        )
    ]
