"""What is learnt of runs: trajectories as text, the models that draw items from them, and what becomes of these.

The public names below are found on first use. `find_similar`, `title_similarity` and `content_jaccard` are those by
which the consolidation policy `dedup` decides.
"""

from typing import TYPE_CHECKING

from rbank_es.registry import exports

if TYPE_CHECKING:
    from rbank_es.extraction.candidates import Consolidated, consolidate
    from rbank_es.extraction.extractors import (
        Extraction,
        contrastive_extract,
        extract,
        extract_common_patterns,
        extract_from_rollouts,
    )
    from rbank_es.extraction.judged_run import Judgment, PastRun, RunStep, format_trajectory, past_run, trajectory_of
    from rbank_es.extraction.prompts import ContrastiveExtractor, FailureExtractor, PatternExtractor, SuccessExtractor
    from rbank_es.extraction.proposals import from_proposals, proposals_of
    from rbank_es.policies.consolidation import content_jaccard, find_similar, title_similarity

__all__ = [
    "PastRun",
    "Consolidated",
    "ContrastiveExtractor",
    "Extraction",
    "FailureExtractor",
    "Judgment",
    "PatternExtractor",
    "RunStep",
    "SuccessExtractor",
    "past_run",
    "consolidate",
    "content_jaccard",
    "contrastive_extract",
    "extract",
    "extract_common_patterns",
    "extract_from_rollouts",
    "find_similar",
    "format_trajectory",
    "from_proposals",
    "proposals_of",
    "title_similarity",
    "trajectory_of",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "PastRun": "rbank_es.extraction.judged_run",
        "Consolidated": "rbank_es.extraction.candidates",
        "ContrastiveExtractor": "rbank_es.extraction.prompts",
        "Extraction": "rbank_es.extraction.extractors",
        "FailureExtractor": "rbank_es.extraction.prompts",
        "Judgment": "rbank_es.extraction.judged_run",
        "PatternExtractor": "rbank_es.extraction.prompts",
        "RunStep": "rbank_es.extraction.judged_run",
        "SuccessExtractor": "rbank_es.extraction.prompts",
        "past_run": "rbank_es.extraction.judged_run",
        "consolidate": "rbank_es.extraction.candidates",
        "content_jaccard": "rbank_es.policies.consolidation",
        "contrastive_extract": "rbank_es.extraction.extractors",
        "extract": "rbank_es.extraction.extractors",
        "extract_common_patterns": "rbank_es.extraction.extractors",
        "extract_from_rollouts": "rbank_es.extraction.extractors",
        "find_similar": "rbank_es.policies.consolidation",
        "format_trajectory": "rbank_es.extraction.judged_run",
        "from_proposals": "rbank_es.extraction.proposals",
        "proposals_of": "rbank_es.extraction.proposals",
        "title_similarity": "rbank_es.policies.consolidation",
        "trajectory_of": "rbank_es.extraction.judged_run",
    },
)
