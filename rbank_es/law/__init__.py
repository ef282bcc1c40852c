"""The law of a bank: the state that its events lead to, and the decisions about candidates in that state.

    states      bank_state, memory (facts of items), validity (what counts of them), evolution (the fold), digests
    likeness    statement_reader, likeness, exchanged_facts; known_items, with the indexes that find what is alike
    policies    consolidation, consolidation_2, forgetting_policies, attribution, law_versions
    decisions   decisions (first ones), canonical and work_list (made again), decision_timeline, reconciler

Pure, but for `decisions` and `reconciler`, which read and append to a log. The names below are imported on first use,
because a search or an append needs few of them.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.law.attribution import Exposure
    from rbank_es.law.bank_state import (
        BIRTHS,
        Due,
        ItemState,
        ItemStatus,
        Pair,
        RunState,
        StandingVerdict,
        State,
        active,
        counted_uses,
        counted_uses_of,
        items_above,
        items_of_task,
        outcomes,
        top_tenth,
        usage,
        wins,
    )
    from rbank_es.law.consolidation import (
        Append,
        ConsolidationPolicy,
        Dedup,
        Merge,
        content_jaccard,
        find_similar,
        title_similarity,
    )
    from rbank_es.law.consolidation_2 import AppendV2, DedupV2, MergeV2
    from rbank_es.law.evolution import RELEVANT, RESOLVED, LiveState, evolve, fold
    from rbank_es.law.forgetting_policies import Bounded, ForgettingPolicy, LeastProven, Never

__all__ = [
    "Append",
    "AppendV2",
    "Bounded",
    "ConsolidationPolicy",
    "Dedup",
    "DedupV2",
    "Exposure",
    "ForgettingPolicy",
    "LeastProven",
    "Merge",
    "MergeV2",
    "Never",
    "content_jaccard",
    "find_similar",
    "title_similarity",
    "BIRTHS",
    "Due",
    "Pair",
    "RELEVANT",
    "RESOLVED",
    "ItemState",
    "LiveState",
    "RunState",
    "ItemStatus",
    "State",
    "StandingVerdict",
    "active",
    "counted_uses",
    "counted_uses_of",
    "evolve",
    "fold",
    "items_above",
    "items_of_task",
    "outcomes",
    "top_tenth",
    "usage",
    "wins",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        ".bank_state": (
            "BIRTHS",
            "Due",
            "ItemState",
            "ItemStatus",
            "Pair",
            "RunState",
            "StandingVerdict",
            "State",
            "active",
            "counted_uses",
            "counted_uses_of",
            "items_above",
            "items_of_task",
            "outcomes",
            "top_tenth",
            "usage",
            "wins",
        ),
        ".attribution": ("Exposure",),
        ".consolidation": (
            "Append",
            "ConsolidationPolicy",
            "Dedup",
            "Merge",
            "content_jaccard",
            "find_similar",
            "title_similarity",
        ),
        ".consolidation_2": ("AppendV2", "DedupV2", "MergeV2"),
        ".forgetting_policies": ("Bounded", "ForgettingPolicy", "LeastProven", "Never"),
        ".evolution": (
            "RELEVANT",
            "RESOLVED",
            "LiveState",
            "evolve",
            "fold",
        ),
    },
)
