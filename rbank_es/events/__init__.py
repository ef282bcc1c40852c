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
        BankAbsorbed as BankAbsorbed,
        BankCreated as BankCreated,
        BankForked as BankForked,
        ContentErased as ContentErased,
        ErasedUnit as ErasedUnit,
        OntologyRegistered as OntologyRegistered,
        PolicyChoice as PolicyChoice,
        PolicySet as PolicySet,
    )
    from rbank_es.events.codec import type_of as type_of
    from rbank_es.events.event_envelope import (
        Candidate as Candidate,
        Erased as Erased,
        Event as Event,
        Ref as Ref,
        Text as Text,
    )
    from rbank_es.events.memory_events import (
        ArtifactMaterialised as ArtifactMaterialised,
        ConsolidationProposed as ConsolidationProposed,
        CorrectionCompleted as CorrectionCompleted,
        Decision as Decision,
        DecisionUndone as DecisionUndone,
        ExperimentFinished as ExperimentFinished,
        ExperimentStarted as ExperimentStarted,
        ItemsLinked as ItemsLinked,
        MemoriesAdmitted as MemoriesAdmitted,
        MemoriesConsolidated as MemoriesConsolidated,
        MemoriesExtracted as MemoriesExtracted,
        MemoriesForgotten as MemoriesForgotten,
        MemoriesRestored as MemoriesRestored,
        MemoriesRetracted as MemoriesRetracted,
        MemoryProposed as MemoryProposed,
        Reliance as Reliance,
        WordsEmbedded as WordsEmbedded,
    )
    from rbank_es.events.run_events import (
        ContextBuilt as ContextBuilt,
        Floor as Floor,
        Hit as Hit,
        JudgmentOverruled as JudgmentOverruled,
        LayerUse as LayerUse,
        LmCalled as LmCalled,
        MemoriesRead as MemoriesRead,
        MemoriesRetrieved as MemoriesRetrieved,
        NoteLogged as NoteLogged,
        RunFinished as RunFinished,
        RunJudged as RunJudged,
        RunStarted as RunStarted,
        StepTaken as StepTaken,
        ToolCalled as ToolCalled,
        WithheldHit as WithheldHit,
        given_items as given_items,
    )


__getattr__, __dir__ = exports(
    __name__,
    {
        ".bank_events": (
            "BankAbsorbed BankCreated BankForked ContentErased ErasedUnit OntologyRegistered PolicyChoice PolicySet"
        ),
        ".codec": "type_of",
        ".event_envelope": "Candidate Erased Event Ref Text",
        ".memory_events": (
            "ArtifactMaterialised ConsolidationProposed CorrectionCompleted Decision DecisionUndone ExperimentFinished "
            "ExperimentStarted ItemsLinked MemoriesAdmitted MemoriesConsolidated MemoriesExtracted MemoriesForgotten "
            "MemoriesRestored MemoriesRetracted MemoryProposed Reliance WordsEmbedded"
        ),
        ".run_events": (
            "ContextBuilt Floor Hit JudgmentOverruled LayerUse LmCalled MemoriesRead MemoriesRetrieved NoteLogged "
            "RunFinished RunJudged RunStarted StepTaken ToolCalled WithheldHit given_items"
        ),
    },
)
