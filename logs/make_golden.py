"""Make the golden log of the present schema: a log with every event type, which every later release must still read.

    python logs/make_golden.py [--force] [DIRECTORY]

Writes logs/golden/vN/bank/ and, beside it, expected.json with what a reader must make of it. The clock and the random
bytes are fixed, so the bytes come out the same every time. Golden logs are only ever added to: a version that exists
is left alone, unless --force is given because it has not been released yet.

The story is invented, and told by a script: a harbour with three boats, an ontology of it, two runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import shake_256
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import asdict

from rbank_es.events import (
    ArtifactMaterialised,
    BankAbsorbed,
    BankCreated,
    BankForked,
    ConsolidationProposed,
    ContextBuilt,
    CorrectionCompleted,
    Decision,
    DecisionUndone,
    Event,
    ExperimentFinished,
    ExperimentStarted,
    Floor,
    Hit,
    ItemsLinked,
    JudgmentOverruled,
    LayerUse,
    LmCalled,
    MemoriesAdmitted,
    MemoriesConsolidated,
    MemoriesExtracted,
    MemoriesForgotten,
    MemoriesRead,
    MemoriesRestored,
    MemoriesRetracted,
    MemoriesRetrieved,
    MemoryProposed,
    NoteLogged,
    OntologyRegistered,
    PolicyChoice,
    PolicySet,
    Reliance,
    RunFinished,
    RunJudged,
    RunStarted,
    StepTaken,
    ToolCalled,
    WithheldHit,
    WordsEmbedded,
    type_of,
)
from rbank_es.events.items import Item
from rbank_es.events.run_events import RunBounds, TaskChoice, Trial
from rbank_es.events.server_traits import ServerTraits
from rbank_es.events.vector_text import text_digest, text_of_item, vector_text
from rbank_es.law import RESOLVED, fold
from rbank_es.law.digests import state_digests
from rbank_es.log import Erasing
from rbank_es.log.file.file_log import FileLog

VERSION = 1
"""The golden log that this script makes. A release that changes the vocabulary raises it, and adds what is new."""

GOLDEN = Path(__file__).resolve().parent / "golden"
RELEASE = "0.1.0"
START_US = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z
PHONE = "the harbour master's telephone is 555-0134"
"""What is erased everywhere by its words."""

ITEMS = (
    Item.make(
        "Ask which classes there are",
        "List the classes with their counts before you write a query about one of them.",
        "success",
        desc="Look at the ontology first.",
        tags=("schema", "first step"),
        role="planner",
        scope="general",
        domain="harbour",
    ),
    Item.make(
        "Don't filter labels without a language",
        'A FILTER on "barge" misses "barge"@en: compare STR(?label), or give the language tag.',
        "failure",
        desc="Labels have language tags. 🏷",
        tags=("labels",),
        scope="exception",
        domain="harbour",
    ),
    Item.make(
        "Walk a long chain of berths with a property path",
        "One step at a time, from the outer mole to the inner basin.\n" + "Use :nextBerth+ and not a loop. " * 90,
        "contrastive",
        polarity="success",
        domain="harbour",
    ),
)


class Fixed:
    """Random bytes that are the same every time, and a clock that stands still between appends."""

    def __init__(self) -> None:
        self.now_us = START_US
        self._draws = 0

    def clock(self) -> int:
        """UTC microseconds since 1970."""
        return self.now_us

    def entropy(self, size: int) -> bytes:
        """So many bytes that no other draw has given."""
        self._draws += 1
        return shake_256(f"golden {VERSION} {self._draws}".encode()).digest(size)


class Teller:
    """Appends the story to a log, a group at a time, each a second later than the one before."""

    def __init__(self, directory: Path) -> None:
        self._same = Fixed()
        self.log = FileLog.create(directory, clock=self._same.clock, entropy=self._same.entropy)

    def tell(self, *events: Event) -> list[str]:
        """Append events as one group; returns their ids."""
        self._same.now_us += 1_000_001
        return [event.id for event in self.log.append(events).events]

    def erase(self, what: Erasing, reason: str, by: str | None = None) -> None:
        """Erase, and record it."""
        self._same.now_us += 1_000_001
        self.log.erase(what, reason=reason, by=by)


def tell_beginnings(teller: Teller) -> None:
    """Return the events of the bank, its policies and its ontology."""
    teller.tell(
        BankCreated(name="golden", release=RELEASE, purpose="Every event type, to be read by every release."),
        PolicySet(
            policies=(
                PolicyChoice(kind="retrieval", name="bm25", version=1, settings={"k": 2, "weights": (1.0, 1, 1, 1)}),
                PolicyChoice(kind="consolidation", name="append", version=1),
            ),
            by="a script",
            why="To begin with.",
        ),
    )
    teller.tell(
        BankForked(
            parent="0" * 32, parent_seq=7, parent_digest="ab" * 32, fork="1" * 32, name="harbour-trial", by="the pilot"
        )
    )
    teller.tell(
        NoteLogged(origin="1" * 32, occurred_at="2026-01-30T07:45:00.000000Z", note='{"tide":"low"}'),
        BankAbsorbed(
            bank="1" * 32,
            lineage="2" * 32,
            upto=12,
            digest="ba" * 32,
            counts={"brought": 1, "known": 4},
            renamed={"run-2-11111111": "run-2"},
            by="a script",
            source="harbour, of the other office",
        ),
    )
    teller.tell(
        OntologyRegistered(
            occurred_at="2026-01-30T08:15:00.000000Z",
            ontology="harbour",
            sha256="cd" * 32,
            format="turtle",
            triples=143,
            namespaces={"": "https://example.org/harbour#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"},
            whole=True,
            terms=("1f0c6d3a", "c4b7e920"),
            source="harbour.ttl, written for this log",
        )
    )


def tell_first_run(teller: Teller) -> None:
    """Return the events of a run with every field set, up to its answer."""
    teller.tell(
        RunStarted(
            run="run-1",
            task_id="boats",
            level=2,
            family="berths",
            suite="02" * 32,
            trial=Trial(experiment="e-1", condition="k2", order=1, repetition=3),
            chosen=TaskChoice(order="curriculum", level=2, why="mastered", won=2, decided=3, rise_won=2, rise_last=3),
            ontology="harbour",
            endpoint="https://example.org/sparql",
            executor="rlm",
            model="scripted/model-1",
            layers=("L0", "L1", "L2"),
            budgets={"L0": 600, "L1": 1000},
            mode="both",
            iterations_max=12,
            bounds=RunBounds(step_calls=100, run_wall_s=600.5, run_tokens=20_000, run_usd=1.5),
            rollout_group="group-1",
            rollout_index=0,
            release=RELEASE,
            commit="0123abc",
            config_digest="ef" * 32,
            servers=(
                ServerTraits(
                    model="scripted/model-1",
                    server="harbour-server 1",
                    served="model-1.gguf",
                    context_tokens=8192,
                    bound="max_tokens",
                    stop=True,
                    stream_usage=True,
                    json_schema=False,
                    tools=True,
                    forms={"step": True, "judgment": False},
                    read_tokens_s=120.5,
                    written_tokens_s=11.25,
                    tried_on="2026-01-31",
                ),
            ),
            overrides={"selection.k": 2, "judging": "lm"},
            scripted=True,
            simulated=True,
            task='Which boats lie in the inner basin?\nAnswer with their names ("Möwe", 🚢 …).',
            settings='{"executor":"rlm","layers":["L0","L1","L2"]}',
            extra='{"seed":7}',
        ),
        ContextBuilt(
            run="run-1",
            chars=88,
            layers=(LayerUse(layer="base", chars=40), LayerUse(layer="L0", chars=48, budget=600, truncated=True)),
            items=(ITEMS[0].id,),
            texts=("You answer questions.", "The harbour: boats, berths, basins; \\ [a], {b}, \u2028 \x01 \x7f"),
            extra="{}",
        ),
    )
    teller.tell(*_retrieval("run-1"), *_calls("run-1"))
    teller.tell(*_finished("run-1"))


def tell_judgments(teller: Teller) -> None:
    """Return a judge's verdict on the run, and the one of a person who knew better."""
    judged = teller.tell(
        RunJudged(
            run="run-1",
            purpose="learning",
            verdict="success",
            judge="judge-1",
            judge_version="1",
            kind="lm",
            sure=True,
            confidence=0.75,
            evidence=("empty_result",),
            supervised=True,
            calls=("01900000-0000-7000-8000-000000000003",),
            precedents=(ITEMS[0].id,),
            suite="02" * 32,
            reason="All three boats are named.",
            extra='{"raw":"success"}',
        )
    )
    teller.tell(
        JudgmentOverruled(
            run="run-1",
            purpose="learning",
            verdict="failure",
            judge="a person",
            judge_version="1",
            kind="check",
            sure=True,
            by="somebody",
            judgment=judged[0],
            confidence=1.0,
            reason="One of them lies outside.",
            why="The judge did not look at the berths.",
            extra="{}",
        )
    )


def _retrieval(run: str) -> Iterator[Event]:
    yield MemoriesRetrieved(
        run=run,
        mode="tool",
        k=2,
        polarity="success",
        ontology="harbour",
        role="planner",
        without_task="other-boats",
        level=2,
        unasked=True,
        policy="bm25-1",
        call="c1",
        as_of=3,
        hits=(
            Hit(id=ITEMS[0].id, rank=1, score=-1.25e-06, coverage=0.75, near="own"),
            Hit(id=ITEMS[2].id, rank=2, score=-0.5),
        ),
        withheld=(WithheldHit(id=ITEMS[1].id, why="coverage", score=-0.25, coverage=0.125, near="none"),),
        floor=Floor(score=0.125, best=1.5, share_of_best=0.5, coverage=0.25),
        fallback="no-query-vector",
        query="which classes are there?",
        extra="{}",
    )
    yield MemoriesRead(run=run, ids=(ITEMS[0].id,), how="get", chars=78, call="c2", extra="{}")


def _calls(run: str) -> Iterator[Event]:
    yield ToolCalled(
        run=run,
        tool="sparql_query",
        call="c3",
        step=1,
        chars=950,
        truncated=True,
        duration_s=0.125,
        error_code="timeout",
        dtype="results",
        alias="res_0",
        previews=("result",),
        arguments='{"query":"SELECT ?boat WHERE { ?boat a :Boat }"}',
        result=_long_text("boat"),
        error="no answer within 10 s; " + PHONE,
        extra="{}",
    )
    yield StepTaken(
        run=run,
        index=1,
        stdout_chars=42,
        prompt_chars=1800,
        variables_n=2,
        variables_chars=160,
        variable_types={"str": 1, "dict": 1},
        error_code="raised",
        previews=("output",),
        reasoning="First the classes, then the boats.",
        code="print(sparql_query('''SELECT ?boat'''))",
        output=_long_text("boat"),  # the same words: stored once
        extra="{}",
    )
    yield LmCalled(
        run=run,
        role="agent",
        model="scripted/model-1",
        step=1,
        attempt=1,
        parameters={"temperature": 0.2, "stop": ("END", "STOP"), "stream": False},
        gave_way=("history", "manual"),
        tokens_in=512,
        tokens_out=64,
        tokens_cached=128,
        cost_usd=0.000123,
        duration_s=1.5,
        error_code="none",
        previews=("response",),
        request_key="12" * 32,
        request=json.dumps({"messages": [{"content": "Who is there? " + PHONE}]}),
        response='{"text":"three boats"}',
        error="none",
        extra="{}",
    )


def _finished(run: str) -> Iterator[Event]:
    yield RunFinished(
        run=run,
        outcome="submitted",
        bound="none",
        iterations=1,
        answer_chars=20,
        lm_calls=1,
        tokens_in=512,
        tokens_out=64,
        cost_usd=0.000123,
        duration_s=2.25,
        error_code="none",
        recall_sent=False,
        recall_unsent=("none",),
        previews=("answer",),
        answer="Möwe, Tern, Heron 🦆",
        sparql="SELECT ?boat WHERE { ?boat :liesIn :InnerBasin }",
        evidence='{"rows":3}',
        error="none",
        extra="{}",
    )
    yield NoteLogged(run=run, by="agent", note='{"seen":["inner basin"]}', extra="{}")


def _long_text(word: str) -> str:
    return "".join(f"{number}: {word} number {number} lies at berth {number % 7}\n" for number in range(80))


def tell_memory(teller: Teller) -> None:
    """Return an extraction, its consolidation, and every way in which an item ends and comes back."""
    proposal = MemoryProposed(
        run="run-1",
        by="mem_add",
        call="c4",
        head=ITEMS[1].head,
        candidate=ITEMS[1].text,
        why="It went wrong twice.",
        extra="{}",
    )
    extracted = teller.tell(
        proposal,
        MemoriesExtracted(
            kind="contrastive",
            runs=("run-1", "run-2"),
            relied=(
                Reliance(run="run-1", verdict="failure", judgment="01900000-0000-7000-8000-000000000001"),
                Reliance(run="run-2", verdict="success"),
            ),
            pending=True,
            extractor="script-1",
            calls=("01900000-0000-7000-8000-000000000004",),
            heads=tuple(item.head for item in ITEMS),
            copy_of=(("01900000-0000-7000-8000-000000000005",), (), ()),
            candidates=tuple(item.text for item in ITEMS),
            reason="Three things to keep.",
            extra="{}",
        ),
    )
    decisions = (
        Decision(candidate=0, action="add", item=ITEMS[0].id),
        Decision(
            candidate=1,
            action="merge",
            item=ITEMS[1].id,
            targets=(ITEMS[0].id,),
            title_similarity=0.5,
            content_similarity=0.25,
            reason="same-class",
        ),
        Decision(candidate=2, action="add", item=ITEMS[2].id, pending=True),
    )
    proposed = ConsolidationProposed(
        extraction=extracted[1],
        candidate=1,
        action="merge",
        targets=(ITEMS[0].id,),
        by="scripted/model-1",
        why="Both say where to look.",
    )
    done = MemoriesConsolidated(extraction=extracted[1], policy="dedup-1", decisions=decisions)
    consolidated = teller.tell(proposed, done)[1:]
    teller.tell(ItemsLinked(source=ITEMS[0].id, target=ITEMS[1].id, how="contradicts", by="somebody"))
    teller.tell(
        MemoriesForgotten(ids=(ITEMS[2].id,), policy="bounded-1", why="Seldom used."),
        MemoriesRestored(ids=(ITEMS[2].id,), by="somebody", because=consolidated[0], why="It was needed after all."),
        MemoriesRetracted(ids=(ITEMS[2].id,), by="somebody", because=consolidated[0], why="It is outdated."),
        MemoriesAdmitted(ids=(ITEMS[0].id,), by="somebody", why="It holds."),
    )
    undone = DecisionUndone(extraction=extracted[1], candidate=1, by="somebody", why="They are not the same.")
    teller.tell(undone)
    tell_correction(teller, extracted[1])


def tell_correction(teller: Teller, extraction: str) -> None:
    """Return a correction of every kind of part, held back until it is completed, and one that never was."""
    again = Decision(extraction=extraction, candidate=2, action="skip", item=ITEMS[2].id, targets=(ITEMS[0].id,))
    [aside] = teller.tell(
        MemoriesRetracted(
            how="tainted", extractions=(extraction,), run="run-1", verdict="undecided", by="somebody", why="Misled."
        )
    )
    parts: tuple[Event, ...] = (
        MemoriesConsolidated(again=True, correction="c-1", policy="canonical-1", decisions=(again,)),
        MemoriesForgotten(ids=(ITEMS[0].id,), policy="bounded-1", correction="c-1"),
        MemoriesRestored(ids=(ITEMS[0].id,), how="supported", correction="c-1"),
    )
    teller.tell(*parts)
    teller.tell(CorrectionCompleted(correction="c-1", rule=1, causes=(aside,), counts={"active": 1}))
    teller.tell(MemoriesForgotten(ids=(ITEMS[0].id,), policy="bounded-1", correction="c-2"))
    teller.tell(MemoriesRetracted(ids=(ITEMS[1].id,), how="rejected", by="somebody", why="It is wrong."))
    for lifted in (False, True):
        teller.tell(DecisionUndone(extraction=extraction, candidate=2, lifted=lifted, by="somebody"))


def tell_the_rest(teller: Teller) -> None:
    """Return an artifact, an experiment, a run that fails, and a run without any known field."""
    [guide, *_] = teller.tell(
        ArtifactMaterialised(
            artifact="guide-1",
            kind="guide",
            ontology="harbour",
            run="run-1",
            chars=len(_long_text("page")),
            lm_calls=4,
            tokens_in=5_200,
            tokens_out=800,
            cost_usd=0.5,
            text=_long_text("page"),
        ),
        WordsEmbedded(
            run="run-1",
            purpose="query",
            model="openai/text-embedding-3-small",
            attempts=3,
            duration_s=7.5,
            error_code="rate_limited",
            error="the provider turned the call away",
            extra='{"region":"north"}',
        ),
        WordsEmbedded(
            purpose="item",
            model="openai/text-embedding-3-small",
            dimensions=3,
            items=(ITEMS[1].id,),
            attempts=1,
            tokens_in=12,
            duration_s=0.25,
            vectors=(vector_text(text_digest(text_of_item(ITEMS[1].text)), (0.5, -0.25, 1.0)),),
        ),
        ExperimentStarted(
            trial=Trial(experiment="e-1", condition="k2", order=1, repetition=3),
            config_digest="01" * 32,
            suite="02" * 32,
            tasks=("t1", "t2"),
            definition="03" * 32,
            environment="04" * 32,
            common="05" * 32,
            earlier=1,
            config='{"k":2}',
        ),
        ExperimentFinished(
            trial=Trial(experiment="e-1", condition="k2", order=1, repetition=3),
            config_digest="01" * 32,
            suite="02" * 32,
            result_digest="03" * 32,
            result='{"passed":1}',
        ),
    )
    teller.tell(
        RunStarted(run="run-2"),
        ContextBuilt(run="run-2", chars=0, artifacts=(guide,)),
        RunFinished(run="run-2", outcome="failed", error="The endpoint is closed."),
    )


def tell_erasures(teller: Teller) -> None:
    """One item of three; then words wherever they stand; then an event that has lost one text already."""
    extracted, finished, step, proposed = (
        next(teller.log.read(types=(type_,))).seq
        for type_ in ("memories_extracted", "run_finished", "step_taken", "memory_proposed")
    )
    teller.erase(Erasing(paths=((extracted, "candidates.1"),)), "its author asked for it", "somebody")
    teller.tell(NoteLogged(note='{"after":"the first erasure"}'))
    teller.erase(Erasing(words=(PHONE,)), "a telephone number")
    teller.erase(Erasing(events=frozenset({step})), "a whole step, with the long text that another event shares")
    teller.erase(Erasing(events=frozenset({finished, proposed})), "all of two events, one of which had lost some")
    teller.tell(NoteLogged(note='{"after":"the last erasure"}'))


STORY: tuple[Callable[[Teller], None], ...] = (
    tell_beginnings,
    tell_first_run,
    tell_judgments,
    tell_memory,
    tell_the_rest,
    tell_erasures,
)


def make(target: Path) -> None:
    """Write the golden log and what is expected of it into `target`, which must not exist."""
    bank = target / "bank"
    teller = Teller(bank)
    for tell in STORY:
        tell(teller)
    expected = expected_of(teller.log)
    teller.log.close()
    (bank / "lock").unlink()
    (target / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def expected_of(log: FileLog) -> dict[str, Any]:
    """Return a reader's expected results: heads at every position, events by type, digests of the state."""
    events = list(log.read(resolve=RESOLVED))
    seen = log.verify()
    return {
        "bank": log.bank_id,
        "heads": [str(log.head(seq)) for seq in range(len(events) + 1)],
        "events": dict(sorted(Counter(type_of(event) for event in events).items())),
        "segments": seen.parts["segments"],
        "texts": seen.texts,
        "erased": seen.erased,
        "states": {str(seq): asdict(state_digests(fold(events[:seq]))) for seq in range(0, len(events) + 1, 5)},
    }


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, default=GOLDEN, help="where golden logs are kept")
    parser.add_argument("--force", action="store_true", help="replace this version, which must not be released yet")
    options = parser.parse_args(arguments)
    target = options.directory / f"v{VERSION}"
    if target.exists() and not options.force:
        print(f"{target} exists; golden logs are only ever added to (--force replaces it)", file=sys.stderr)
        return 2
    if target.exists():
        shutil.rmtree(target)
    # Not in the user's cache: what it notes there of one making would call the next one an older copy.
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, RBANK_CACHE=cache):
        make(target)
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
