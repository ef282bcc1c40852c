"""The vocabulary: all types of events, as the contract between all parts and all releases.

bank        bank_created  policy_set  bank_forked  bank_absorbed  ontology_registered
run         run_started  context_built  memories_retrieved  memories_read  tool_called  step_taken  lm_called
            run_finished  note_logged
judgment    run_judged  judgment_overruled
memory      memories_extracted  memories_consolidated  memory_proposed  items_linked  memories_forgotten
            memories_retracted  memories_restored  memories_admitted  consolidation_proposed
            decision_undone  correction_completed  words_embedded
artifact    artifact_materialised
experiment  experiment_started  experiment_finished
erasure     content_erased

The names below are imported on first use, because a search or an append needs few of them.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.events.bank_events import (
        BankAbsorbed,
        BankCreated,
        BankForked,
        ContentErased,
        ErasedUnit,
        OntologyRegistered,
        PolicyChoice,
        PolicySet,
    )
    from rbank_es.events.codec import type_of
    from rbank_es.events.event import Candidate, Erased, Event, Ref, Text
    from rbank_es.events.memory_events import (
        ArtifactMaterialised,
        ConsolidationProposed,
        CorrectionCompleted,
        Decision,
        DecisionUndone,
        ExperimentFinished,
        ExperimentStarted,
        ItemsLinked,
        MemoriesAdmitted,
        MemoriesConsolidated,
        MemoriesExtracted,
        MemoriesForgotten,
        MemoriesRestored,
        MemoriesRetracted,
        MemoryProposed,
        Reliance,
        WordsEmbedded,
    )
    from rbank_es.events.run_events import (
        ContextBuilt,
        Floor,
        Hit,
        JudgmentOverruled,
        LayerUse,
        LmCalled,
        MemoriesRead,
        MemoriesRetrieved,
        NoteLogged,
        RunFinished,
        RunJudged,
        RunStarted,
        StepTaken,
        ToolCalled,
        WithheldHit,
        given_items,
    )

__all__ = [
    "ArtifactMaterialised",
    "BankAbsorbed",
    "BankCreated",
    "BankForked",
    "Candidate",
    "ConsolidationProposed",
    "ContentErased",
    "ContextBuilt",
    "CorrectionCompleted",
    "Decision",
    "DecisionUndone",
    "Erased",
    "ErasedUnit",
    "Event",
    "ExperimentFinished",
    "ExperimentStarted",
    "Floor",
    "Hit",
    "ItemsLinked",
    "JudgmentOverruled",
    "LayerUse",
    "LmCalled",
    "MemoriesAdmitted",
    "MemoriesConsolidated",
    "MemoriesExtracted",
    "MemoriesForgotten",
    "MemoriesRead",
    "MemoriesRestored",
    "MemoriesRetracted",
    "MemoriesRetrieved",
    "MemoryProposed",
    "NoteLogged",
    "OntologyRegistered",
    "PolicyChoice",
    "PolicySet",
    "Ref",
    "Reliance",
    "RunFinished",
    "RunJudged",
    "RunStarted",
    "StepTaken",
    "Text",
    "WordsEmbedded",
    "ToolCalled",
    "WithheldHit",
    "given_items",
    "type_of",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        ".bank_events": (
            "BankAbsorbed",
            "BankCreated",
            "BankForked",
            "ContentErased",
            "ErasedUnit",
            "OntologyRegistered",
            "PolicyChoice",
            "PolicySet",
        ),
        ".codec": ("type_of",),
        ".event": (
            "Candidate",
            "Erased",
            "Event",
            "Ref",
            "Text",
        ),
        ".memory_events": (
            "ArtifactMaterialised",
            "ConsolidationProposed",
            "CorrectionCompleted",
            "Decision",
            "DecisionUndone",
            "ExperimentFinished",
            "ExperimentStarted",
            "ItemsLinked",
            "MemoriesAdmitted",
            "MemoriesConsolidated",
            "MemoriesExtracted",
            "MemoriesForgotten",
            "MemoriesRestored",
            "MemoriesRetracted",
            "MemoryProposed",
            "Reliance",
            "WordsEmbedded",
        ),
        ".run_events": (
            "ContextBuilt",
            "Floor",
            "Hit",
            "JudgmentOverruled",
            "LayerUse",
            "LmCalled",
            "MemoriesRead",
            "MemoriesRetrieved",
            "NoteLogged",
            "RunFinished",
            "RunJudged",
            "RunStarted",
            "StepTaken",
            "ToolCalled",
            "WithheldHit",
            "given_items",
        ),
    },
)
