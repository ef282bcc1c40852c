"""Extraction: candidates drawn from judged runs, and their consolidation into the bank.

The public names below are imported on first use. `find_similar`, `title_similarity` and `content_jaccard` are those by
which the consolidation policy `dedup` decides.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.extraction.candidates import Consolidated, Extraction, consolidate
    from rbank_es.extraction.conversation import (
        ContrastiveExtractor,
        FailureExtractor,
        PatternExtractor,
        SuccessExtractor,
    )
    from rbank_es.extraction.extractors import (
        contrastive_extract,
        extract,
        extract_common_patterns,
        extract_from_rollouts,
    )
    from rbank_es.extraction.judged_run import (
        Judgment,
        PastRun,
        PastStep,
        format_trajectory,
        past_run,
    )
    from rbank_es.extraction.proposals import from_proposals, proposals_of
    from rbank_es.law.consolidation import content_jaccard, find_similar, title_similarity

__all__ = [
    "Consolidated",
    "ContrastiveExtractor",
    "Extraction",
    "FailureExtractor",
    "Judgment",
    "PastRun",
    "PatternExtractor",
    "PastStep",
    "SuccessExtractor",
    "consolidate",
    "content_jaccard",
    "contrastive_extract",
    "extract",
    "extract_common_patterns",
    "extract_from_rollouts",
    "find_similar",
    "format_trajectory",
    "from_proposals",
    "past_run",
    "proposals_of",
    "title_similarity",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        ".candidates": ("Consolidated", "Extraction", "consolidate"),
        ".extractors": ("contrastive_extract", "extract", "extract_common_patterns", "extract_from_rollouts"),
        ".judged_run": ("Judgment", "PastRun", "PastStep", "format_trajectory", "past_run"),
        ".conversation": ("ContrastiveExtractor", "FailureExtractor", "PatternExtractor", "SuccessExtractor"),
        ".proposals": ("from_proposals", "proposals_of"),
        "..law.consolidation": ("content_jaccard", "find_similar", "title_similarity"),
    },
)
