"""The law of a bank: the state that its events lead to, and the decisions about candidates in that state.

    states      bank_state, memory (facts of items), validity (what counts of them), evolution (the fold), digests
    likeness    statement_reader, likeness, contradiction; similar_items, with the indexes that find what is alike
    policies    consolidation, consolidation_2, forgetting_policies, attribution, law_versions
    decisions   decisions (first ones), canonical and affected_decisions (made again), decision_timeline, reconciler

Pure, but for `decisions` and `reconciler`, which read and append to a log. The names below are imported on first use,
because a search or an append needs few of them.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.law.attribution import Exposure as Exposure
    from rbank_es.law.bank_state import (
        BIRTHS as BIRTHS,
        Due as Due,
        ItemState as ItemState,
        ItemStatus as ItemStatus,
        Pair as Pair,
        RunState as RunState,
        StandingVerdict as StandingVerdict,
        State as State,
        active as active,
        counted_uses as counted_uses,
        counted_uses_of as counted_uses_of,
        items_above as items_above,
        items_of_task as items_of_task,
        outcomes as outcomes,
        top_tenth as top_tenth,
        usage as usage,
        wins as wins,
    )
    from rbank_es.law.consolidation import (
        Append as Append,
        ConsolidationPolicy as ConsolidationPolicy,
        Dedup as Dedup,
        Merge as Merge,
        content_jaccard as content_jaccard,
        find_similar as find_similar,
        title_similarity as title_similarity,
    )
    from rbank_es.law.consolidation_2 import AppendV2 as AppendV2, DedupV2 as DedupV2, MergeV2 as MergeV2
    from rbank_es.law.bank_fold import (
        RELEVANT as RELEVANT,
        RESOLVED as RESOLVED,
        LiveState as LiveState,
        evolve as evolve,
        fold as fold,
    )
    from rbank_es.law.forgetting_policies import (
        Bounded as Bounded,
        ForgettingPolicy as ForgettingPolicy,
        LeastProven as LeastProven,
        Never as Never,
    )


__getattr__, __dir__ = exports(
    __name__,
    {
        ".bank_state": (
            "BIRTHS Due ItemState ItemStatus Pair RunState StandingVerdict State active counted_uses counted_uses_of "
            "items_above items_of_task outcomes top_tenth usage wins"
        ),
        ".attribution": "Exposure",
        ".consolidation": "Append ConsolidationPolicy Dedup Merge content_jaccard find_similar title_similarity",
        ".consolidation_2": "AppendV2 DedupV2 MergeV2",
        ".forgetting_policies": "Bounded ForgettingPolicy LeastProven Never",
        ".bank_fold": "RELEVANT RESOLVED LiveState evolve fold",
    },
)
