"""Policies: named, versioned, pure rules by which a bank decides. An event, `policy_set`, puts them in force.

retrieval      bm25-1  bm25-2  bm25-3  hybrid-1
admission      standard-1  open-1  reviewed-1
judging        checks-1  lm-1
extraction     success-failure-1
consolidation  append-1  dedup-1  merge-1  append-2  dedup-2  merge-2
forgetting     never-1  bounded-1  utility-1
selection      best-of-1
attribution    exposure-1
correction     law-1  law-2

`POLICIES` is their registry. A policy is one file with one class; every released version stays beside the newer ones.
Those that decide by the state of a bank (consolidation, forgetting, attribution, correction) are in `rbank_es.law`.
The public names below are imported on first use: a search needs one policy of them.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.policies.admission import (
        AdmissionPolicy as AdmissionPolicy,
        OpenAdmission as OpenAdmission,
        ReviewedAdmission as ReviewedAdmission,
        StandardAdmission as StandardAdmission,
        held_back as held_back,
    )
    from rbank_es.policies.bm25_1 import Bm25V1 as Bm25V1
    from rbank_es.policies.bm25_2 import Bm25V2 as Bm25V2
    from rbank_es.policies.bm25_3 import Bm25V3 as Bm25V3
    from rbank_es.policies.hybrid_1 import HybridV1 as HybridV1
    from rbank_es.policies.policy_registry import (
        POLICIES as POLICIES,
        Policy as Policy,
        PolicyDifference as PolicyDifference,
        changed as changed,
        chosen_policy as chosen_policy,
        default_policies as default_policies,
        governing as governing,
        governing_as as governing_as,
        load_policies as load_policies,
        policy_of as policy_of,
    )
    from rbank_es.policies.retrieval_protocol import (
        Choice as Choice,
        Filters as Filters,
        ItemIndex as ItemIndex,
        RankedItem as RankedItem,
        RetrievalPolicy as RetrievalPolicy,
        WordShare as WordShare,
        retrieval_policy as retrieval_policy,
        weighs_outcomes as weighs_outcomes,
    )
    from rbank_es.policies.judging_and_extraction import (
        CheckJudging as CheckJudging,
        LmJudging as LmJudging,
        SuccessFailure as SuccessFailure,
    )
    from rbank_es.policies.selection import BestOf as BestOf, selection_policy as selection_policy
    from rbank_es.policies.word_relevance import (
        Formula as Formula,
        QueryWord as QueryWord,
        WordHit as WordHit,
        WordRanking as WordRanking,
    )
    from rbank_es.policies.words import query_words as query_words


__getattr__, __dir__ = exports(
    __name__,
    {
        ".admission": "AdmissionPolicy OpenAdmission ReviewedAdmission StandardAdmission held_back",
        ".bm25_1": "Bm25V1",
        ".bm25_2": "Bm25V2",
        ".bm25_3": "Bm25V3",
        ".hybrid_1": "HybridV1",
        ".policy_registry": (
            "POLICIES Policy PolicyDifference changed chosen_policy default_policies governing governing_as "
            "load_policies policy_of"
        ),
        ".retrieval_protocol": (
            "Choice Filters ItemIndex RankedItem RetrievalPolicy WordShare retrieval_policy weighs_outcomes"
        ),
        ".judging_and_extraction": "CheckJudging LmJudging SuccessFailure",
        ".selection": "BestOf selection_policy",
        ".word_relevance": "Formula QueryWord WordHit WordRanking",
        ".words": "query_words",
    },
)
