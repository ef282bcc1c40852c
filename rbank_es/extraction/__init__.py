"""Extraction: candidates drawn from judged runs, and their consolidation into the bank.

The public names below are imported on first use. `find_similar`, `title_similarity` and `content_jaccard` are those by
which the consolidation policy `dedup` decides.
"""

from typing import TYPE_CHECKING

from rbank_es.system.registry import exports

if TYPE_CHECKING:
    from rbank_es.extraction.candidates import (
        Consolidated as Consolidated,
        Extraction as Extraction,
        consolidate as consolidate,
    )
    from rbank_es.extraction.conversation import (
        ContrastiveExtractor as ContrastiveExtractor,
        FailureExtractor as FailureExtractor,
        PatternExtractor as PatternExtractor,
        SuccessExtractor as SuccessExtractor,
    )
    from rbank_es.extraction.extractors import (
        contrastive_extract as contrastive_extract,
        extract as extract,
        extract_common_patterns as extract_common_patterns,
        extract_from_rollouts as extract_from_rollouts,
    )
    from rbank_es.extraction.judged_run import (
        Judgment as Judgment,
        PastRun as PastRun,
        PastStep as PastStep,
        format_trajectory as format_trajectory,
        past_run as past_run,
    )
    from rbank_es.extraction.proposals import from_proposals as from_proposals, proposals_of as proposals_of
    from rbank_es.law.consolidation import (
        content_jaccard as content_jaccard,
        find_similar as find_similar,
        title_similarity as title_similarity,
    )


__getattr__, __dir__ = exports(
    __name__,
    {
        ".candidates": "Consolidated Extraction consolidate",
        ".extractors": "contrastive_extract extract extract_common_patterns extract_from_rollouts",
        ".judged_run": "Judgment PastRun PastStep format_trajectory past_run",
        ".conversation": "ContrastiveExtractor FailureExtractor PatternExtractor SuccessExtractor",
        ".proposals": "from_proposals proposals_of",
        "..law.consolidation": "content_jaccard find_similar title_similarity",
    },
)
