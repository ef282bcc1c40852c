"""Every setting of every policy, changed, changes an observable outcome.

A scenario makes a bank, puts policies in force, lets something happen, and returns what can be seen of the outcome,
without ids and times. `policy --list` says which settings there are: one without a scenario fails the
test, because a setting that nobody reads is a broken promise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbank_es import Bank, Item
from rbank_es.context.assembly import build_context
from rbank_es.events import ContextBuilt, MemoriesExtracted, RunStarted, WordsEmbedded
from rbank_es.events.memory_events import ConsolidationProposed
from rbank_es.events.vector_text import text_digest, text_of_item, vector_text
from rbank_es.exchange import import_paths
from rbank_es.extraction.candidates import consolidate
from tests.cli.misled import judged, learned, ran
from tests.cli_runner import run
from tests.loop.loops import HEIGHT, TASKS, TOWER, source
from tests.loop.test_closed_loop import of_type
from tests.loop.test_matts import attempt, items
from tests.sandbox.sandboxes import require_dspy

Tables = dict[str, dict[str, Any]]
QUESTION = TASKS[0].question


class Scenario(NamedTuple):
    """Another value of a setting, the life in which it is observed, and what else is set in both lives."""

    value: Any
    observe: Callable[[Path, Tables], Any]
    others: Tables = {}


def made(place: Path, tables: Tables, *held: Item) -> Bank:
    """A bank under these policies, holding these items."""
    bank = Bank.create(place / "bank", unsafe_no_sync=True)
    bank.set_policies(tables)
    if held:
        consolidate(bank, held)
    return bank


# ---------------------------------------------------------------- retrieval

LAMPS = (
    Item.make("Count lamps", "Which lamps: count each lamp once.", id="own", domain="lights"),
    Item.make("Lamps, lamps, lamps", "Lamps are lamps.", id="foreign", domain="nets"),
    Item.make("Lamps in general", "A lamp gives light.", id="general"),
    Item.make("Lamps fail", "Never date a lamp by its report.", "failure", id="guard"),
    Item.make("Lamps lie", "Lamps that are off are lamps too.", "failure", id="other guard"),
    Item.make("Buoys", "No light, which is why there is one word on a lamp's tag.", id="buoys", tags=("lamp",)),
    Item.make("Posts", "Take ex:lampPost.", id="posts"),
)


UNSAID = Item.make("Beacons", "They shine.", id="unsaid")
BY_M: Tables = {"retrieval": {"model": "m"}}


def searched(place: Path, tables: Tables, query: str = "which lamps?") -> Any:
    return hits_of(made(place, tables, *LAMPS), query)


def hits_of(bank: Bank, query: str = "which lamps?") -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 6)) for hit in bank.search(query)]


def given_unasked(place: Path, tables: Tables, task: str = "lamps") -> str:
    return context_of(made(place, tables, *LAMPS), task)


def context_of(bank: Bank, task: str) -> str:
    """The items that a run on the task is given."""
    return build_context(task, source=source(), bank=bank, layers=("L2",)).text


def levelled(place: Path, tables: Tables) -> Any:
    """The hits of a search at the lowest level, after a run of a higher one taught one of the items."""
    bank = made(place, tables, *LAMPS[:3])
    bank.append([RunStarted(run="r", level=3), judged("r", "success")])
    learned(bank, Item.make("Lamps at sea", "Lamps at sea drift.", "success"), ("r", "success"))
    return [hit.id for hit in bank.search("which lamps?", level=1)]


def supported(place: Path, tables: Tables) -> Any:
    """The first hit of a search, after the item that BM25 ranks last was learned again and again."""
    return learned_again(made(place, tables, *LAMPS), 1)


def learned_again(bank: Bank, k: int | None = None) -> list[str]:
    """The hits, after the last one that words find was learned nine times more."""
    last = [hit.id for hit in bank.search("which lamps?") if hit.id != UNSAID.id][-1]
    for _ in range(9):
        consolidate(bank, bank.get([last]))
    return [hit.id for hit in bank.search("which lamps?", k)]


def embedded(place: Path, tables: Tables) -> Bank:
    """A bank in which the model `m` gave a query a vector, and each item one that is less near than the last."""
    bank = made(place, tables, *LAMPS[:4], UNSAID)
    vectors = {text_of_item(item.text): [9.0 - at, at + 1.0] for at, item in enumerate((UNSAID, *LAMPS[:4]))}
    for purpose, texts in (("item", vectors), ("query", {"which lamps?": [1.0, 0.0]})):
        rows = tuple(vector_text(text_digest(text), numbers) for text, numbers in texts.items())
        bank.append(WordsEmbedded(purpose=purpose, model="m", vectors=rows))  # type: ignore[arg-type]
    return bank


def near(place: Path, tables: Tables) -> Any:
    """The hits of a search by vectors."""
    return hits_of(embedded(place, tables))


def near_unasked(place: Path, tables: Tables) -> str:
    """What a run is given by vectors."""
    return context_of(embedded(place, tables), "which lamps?")


def near_supported(place: Path, tables: Tables) -> Any:
    """The hits by vectors, after the item that words rank last was learned again and again."""
    return learned_again(embedded(place, tables))


def used(place: Path, tables: Tables) -> Any:
    """The uses of items that were put into a context."""
    bank = made(place, tables, *LAMPS)
    bank.append(ran("r", "own"))
    return [(row.id, row.uses) for row in bank.items().rows]


# ---------------------------------------------------------------- admission, consolidation, forgetting


def item(id: str, title: str, content: str, src: Any = "success", **facts: Any) -> Item:
    return Item.make(title, content, src, id=id, **facts)


def written(place: Path, name: str, *held: Item) -> Path:
    """A file of items."""
    rows = [{"id": each.id, "title": each.title, "content": each.content, "src": each.src} for each in held]
    (place / name).write_text(json.dumps(rows))
    return place / name


def imported(files: Sequence[Sequence[Item]], place: Path, tables: Tables) -> Any:
    """The states and the support of items after the import of files, in order."""
    bank = made(place, tables)
    import_paths(bank, [written(place, f"{at}.json", *held) for at, held in enumerate(files)])
    return _states(bank)


def full(place: Path, tables: Tables) -> Any:
    """As `imported`, of one item into a bank whose items were all given to a run."""
    bank = made(place, tables, *FOUR[:3])
    bank.append([RunStarted(run="r"), ContextBuilt(run="r", chars=1, items=tuple(each.id for each in FOUR[:3]))])
    import_paths(bank, [written(place, "last.json", FOUR[3])])
    return _states(bank)


def proposed(place: Path, tables: Tables) -> Any:
    """As `imported`, after a model proposed that an imported item takes the place of two."""
    bank = made(place, tables, *FOUR[:2])
    file = written(place, "new.json", item("new", "Count lights and name them", "Use COUNT, and lt:name."))
    with Bank.create("memory:") as scratch:
        # The id of an import's extraction comes from its file, so another bank tells it before.
        import_paths(scratch, [file])
        [known] = of_type(scratch, MemoriesExtracted)
    bank.append(ConsolidationProposed(extraction=known.id, candidate=0, action="supersede", targets=("s1", "s2")))
    import_paths(bank, [file])
    return _states(bank)


def _states(bank: Bank) -> list[tuple[str, str, int]]:
    return sorted((id, entry.state, entry.support) for id, entry in bank.state().items.items())


FOUR = (
    item("s1", "Count lights", "Use COUNT."),
    item("s2", "Name lights", "Use lt:name."),
    item("f1", "Towers", "Never take a tower's height.", "failure"),
    item("f2", "Reports", "Never date by the report.", "failure"),
)
ALIKE = (
    item("a", "Count the lights", "Use COUNT with DISTINCT on lights."),
    item("b", "Count all lights", "Use COUNT with DISTINCT on lights."),
    item("c", "Count the lights", "Use COUNT with DISTINCT on buoys now."),
)
ONE_EACH = [(each,) for each in FOUR]
BOUNDED: Tables = {"forgetting": {"name": "bounded", "max_items": 3, "grace": 0}}


# ---------------------------------------------------------------- loops

ITEM = '[[task.extractor.fields.memory_items]]\ntitle = "Way of {0}"\ndescription = "d"\ncontent = "{0}."\n'
THREE = "".join(map(ITEM.format, ("counting lights", "naming towers", "dating reports")))
ANSWERS = '[[task.extractor]]\ntext = "no list"\n[[task.extractor]]\n' + THREE


def script(answer: str, success: bool) -> str:
    long = f'[[task.agent]]\nreasoning = "{"Look. " * 400}"\ncode = "print(1)"\n'
    return '[[task]]\nid = "height"\n' + long + attempt(0, HEIGHT, answer, success).replace("rollout = 0\n", "")


def looped(answer: str, success: bool, place: Path, tables: Tables) -> Any:
    """What a loop of one task does: who judged how, what the models were asked, and how many items it learned."""
    require_dspy()
    rules = (
        item("p", "Heights above high water", "Metres at which a light stands: judge them by the light.", "principle"),
        item(
            "e", "Heights above high water", "Metres at which a light's tower stands were judged a failure.", "episode"
        ),
    )
    made(place, tables, *rules).close()
    return _ran(place, script(answer, success) + ANSWERS, "--extract")


def compared(place: Path, tables: Tables) -> Any:
    """What a loop with rollouts does: their number, the one that counts, and what is extracted."""
    require_dspy()
    turns = '[[task]]\nid = "height"\n' + attempt(0, HEIGHT, "45 metres", True, steps=2)
    turns += attempt(1, HEIGHT, "It stands 45 metres high.", True) + attempt(2, TOWER, "49 metres", False)
    made(place, tables).close()
    return _ran(place, turns + items("Focal heights", "Use lt:focalHeight.") * 3, "--matts")


def _ran(place: Path, turns: str, *more: str) -> Any:
    (place / "turns.toml").write_text(turns)
    (place / "tasks.json").write_text(json.dumps([{"id": "height", "question": QUESTION, "gold_sparql": HEIGHT}]))
    loop = ("--ont", "lights", "--executor", "scratchpad", "--unsafe-local", "--lm", "script:turns.toml", "--no-l2")
    told = run("run", "./bank", *loop, "--tasks", "tasks.json", *more, "--json", cwd=place, code=None)
    by_type: dict[str, list[Any]] = {"lm_called": [], "memories_extracted": [], "run_judged": [], "run_started": []}
    for event in run("log", "./bank", "--type", ",".join(by_type), "--json", cwd=place).lines:
        by_type[event["type"]].append(event)
    calls = [each for each in by_type["lm_called"] if each["role"] in ("judge", "extractor")]
    asked = [(each["role"], each["parameters"].get("temperature", -1), _chars(each["request"])) for each in calls]
    learned = [each for each in by_type["memories_extracted"] if each.get("runs")]
    return {
        "code": told.code,
        "best": [result["run"].rpartition(".")[2] for result in told.json["results"] if ".r" in result["run"]],
        "runs": len(by_type["run_started"]),
        "verdicts": sorted((e["judge"], e["verdict"]) for e in by_type["run_judged"] if e["purpose"] == "learning"),
        # Sorted, because rollouts end in any order.
        "asked": sorted(asked),
        "learned": [(each["kind"], each.get("pending", False), len(each.get("heads", ()))) for each in learned],
    }


def _chars(text: Any) -> int:
    """The length of a text that is stored in its event or apart from it."""
    return len(text) if isinstance(text, str) else int(text["sz"])


# ---------------------------------------------------------------- the table

CLEAN, GOOD = partial(looped, "45 metres", False), partial(looped, "45 metres", True)
FAULTY = partial(looped, "45 metres, by <https://lights.example/ns#inventedTerm>", True)
SUPERVISED: Tables = {"judging": {"supervised": True}}
RETRIEVAL = {
    "k": Scenario(2, searched),
    "k_success": Scenario(2, given_unasked),
    "k_failure": Scenario(0, given_unasked),
    "domains": Scenario("none", given_unasked),
    "strength": Scenario(0, given_unasked),
    "levels": Scenario("up_to", levelled),
    "floor": Scenario(0.3, searched),
    "weights": Scenario([3, 1, 1, 1], searched),
}
LIKENESS = {
    "title_min": Scenario(0.95, partial(imported, [ALIKE])),
    "content_min": Scenario([1, 2], partial(imported, [ALIKE])),
}
JUDGED = {"supervised": Scenario(True, CLEAN), "grounding": Scenario(False, FAULTY, SUPERVISED)}
UNFLOORED: Tables = {"retrieval": {"coverage": 0, "share_of_best": 0}}
BY_WORDS = (
    RETRIEVAL
    | {"weights": Scenario([1, 1, 1, 1], searched), "parts": Scenario(0, searched)}
    | {"coverage": Scenario(0, partial(searched, query="lamps of harbours")), "strangers": Scenario(0, searched)}
    | {"unknown_names": Scenario(0, partial(searched, query="which lamps of Kalmar?"))}
    | {"share_of_best": Scenario(0, partial(given_unasked, task="count lamps"), {"retrieval": {"coverage": 0}})}
    | {"k": Scenario(2, searched, UNFLOORED), "floor": Scenario(0.3, searched, UNFLOORED)}
    | {"stop_words": Scenario("english-2", searched), "stop_weight": Scenario(1, searched)}
    | {"k1": Scenario(2, searched), "b": Scenario(1, searched), "support": Scenario(2, supported)}
    | {"pool": Scenario(1, supported, {"retrieval": {"support": 99, "coverage": 0, "share_of_best": 0}})}
)
BY_STEMS = BY_WORDS | {
    "stop_words": Scenario("none", searched),
    "typo": Scenario(0.5, partial(searched, query="genreal lamps")),
    "pairs": Scenario(0, partial(searched, query="which lamps count")),
    "shape": Scenario(0, partial(searched, query="lamps in person")),
    "pool": Scenario(1, partial(searched, query="which lamps lie"), UNFLOORED),
    "unknown": Scenario(0, partial(searched, query="lamps of harbours")),
    "support": Scenario(99, supported),
}
SCENARIOS: dict[str, dict[str, Scenario]] = {
    "retrieval:bm25-1": RETRIEVAL | {"stop_words": Scenario("english-2", searched)},
    "retrieval:bm25-2": BY_WORDS,
    "retrieval:bm25-3": BY_STEMS,
    "retrieval:hybrid-1": BY_WORDS
    | {"model": Scenario("m", near), "fusion": Scenario("score", near, BY_M)}
    | {"rank_constant": Scenario(1, near, BY_M), "vector_weight": Scenario(3, near, BY_M)}
    | {"cosine": Scenario(0.9, near, BY_M)}
    | {
        "share_of_best": Scenario(
            0, near_unasked, {"retrieval": BY_M["retrieval"] | {"coverage": 0, "rank_constant": 0}}
        )
    }
    | {"pool": Scenario(1, near_supported, {"retrieval": BY_M["retrieval"] | {"support": 99, "coverage": 0}})},
    "admission:standard-1": {"rollouts": Scenario(False, compared), "queries": Scenario(False, GOOD)},
    "admission:reviewed-1": {"given": Scenario(False, partial(imported, ONE_EACH))},
    "judging:checks-1": JUDGED,
    "judging:lm-1": JUDGED
    | {name: Scenario(value, CLEAN) for name, value in (("principles", 0), ("cases", 0), ("evidence", False))}
    | {"confidence_min": Scenario(0.9, CLEAN), "strictness": Scenario("lenient", CLEAN)},
    "extraction:success-failure-1": {
        "items_max": Scenario(1, CLEAN),
        "extract_from": Scenario("best", compared),
        "temperature": Scenario(0.5, CLEAN),
        "grounded": Scenario(False, FAULTY, SUPERVISED),
        "trajectory_chars": Scenario(1_000, CLEAN),
        "tries": Scenario(1, CLEAN),
    },
    "consolidation:dedup-1": LIKENESS,
    "consolidation:merge-1": LIKENESS | {"targets_max": Scenario(1, proposed)},
    "consolidation:merge-2": {"targets_max": Scenario(1, proposed)},
    "forgetting:bounded-1": {
        "max_items": Scenario(2, partial(imported, ONE_EACH), BOUNDED),
        "floor_success": Scenario(2, partial(imported, ONE_EACH), BOUNDED),
        "floor_failure": Scenario(2, partial(imported, ONE_EACH[2:] + ONE_EACH[:2]), BOUNDED),
        "grace": Scenario(1, full, BOUNDED),
    },
    "forgetting:utility-1": {
        "max_items": Scenario(2, partial(imported, ONE_EACH), BOUNDED),
        "floor_success": Scenario(2, partial(imported, ONE_EACH), BOUNDED),
        "floor_failure": Scenario(2, partial(imported, ONE_EACH[2:] + ONE_EACH[:2]), BOUNDED),
        "grace": Scenario(1, full, BOUNDED),
    },
    "attribution:exposure-1": {"counted": Scenario("read", used)},
    "selection:best-of-1": {"k": Scenario(2, compared), "among": Scenario("first", compared)},
}
OBSERVED = [(name, setting) for name, scenarios in SCENARIOS.items() for setting in scenarios]


@pytest.mark.slow
def test_every_setting_that_is_listed_has_a_scenario(tmp_path: Path) -> None:
    listed = run("policy", "--list", "--json", cwd=tmp_path).json
    settings = [(f"{each['kind']}:{each['policy']}", one["name"]) for each in listed for one in each["settings"]]
    assert sorted(settings) == sorted(OBSERVED)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "setting"), OBSERVED, ids=lambda part: part.partition(":")[2] or part)
def test_another_value_of_a_setting_has_another_outcome(tmp_path: Path, name: str, setting: str) -> None:
    scenario = SCENARIOS[name][setting]
    kind, _, label = name.partition(":")
    chosen = {"name": label.rpartition("-")[0], "version": int(label.rpartition("-")[2])}
    tables = scenario.others | {kind: scenario.others.get(kind, {}) | chosen}
    key = repr(scenario.observe) + json.dumps(tables)
    if key not in USUAL:
        USUAL[key] = _observed(scenario, tmp_path / "usual", tables)
    other = _observed(scenario, tmp_path / "other", tables | {kind: tables[kind] | {setting: scenario.value}})
    assert other != USUAL[key]


USUAL: dict[str, Any] = {}
"""Outcomes under the usual values: most settings of a policy are compared with the same."""


def _observed(scenario: Scenario, place: Path, tables: Tables) -> Any:
    place.mkdir()
    return scenario.observe(place, tables)


@pytest.mark.slow
@pytest.mark.parametrize("observe", [searched, given_unasked, partial(imported, [ALIKE]), CLEAN, compared])
def test_a_scenario_has_the_same_outcome_twice(tmp_path: Path, observe: Callable[[Path, Tables], Any]) -> None:
    """Else a difference would prove nothing."""
    one, two = (_observed(Scenario(None, observe), tmp_path / name, {}) for name in ("one", "two"))
    assert one == two
