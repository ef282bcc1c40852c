"""Policies by example: what is searched for, what is a duplicate, what is forgotten, and what a file may say."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Any, get_args

import pytest

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events import Decision, MemoriesConsolidated, MemoriesExtracted, MemoriesForgotten, PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import Item, Source
from rbank_es.law import (
    Append,
    Bounded,
    Dedup,
    DedupV2,
    Merge,
    Never,
    StandingVerdict,
    State,
    content_jaccard,
    find_similar,
    fold,
)
from rbank_es.law.bank_state import Proposal
from rbank_es.law.known_items import KnownItems
from rbank_es.policies import (
    Bm25V1,
    Bm25V3,
    CheckJudging,
    LmJudging,
    SuccessFailure,
    changed,
    default_policies,
    governing,
    load_policies,
    policy_of,
    query_words,
)
from rbank_es.policies.policy_registry import policy_class
from rbank_es.policies.words import STOP_WORDS, any_of, words_of
from tests.consolidations import decisions, state_of
from tests.pools import extraction_id
from tests.strategies import stamped


def item(id: str, title: str = "", content: str = "", src: Source = "seed", **facts: Any) -> Item:
    return Item.make(title or f"Title of {id}", content or f"content of {id}", src, id=id, **facts)


# ---------------------------------------------------------------- retrieval


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is the specific class?", ("specific", "class")),
        ("Taxa taxa TAXA", ("taxa",)),
        ("the of and", ("the", "of", "and")),
        ('a "quoted" NEAR(x*) -minus col:term', ("quoted", "near", "x", "minus", "col", "term")),
        ("foo_bar up:mnemonic", ("foo", "bar", "mnemonic")),
        ("nul\x00byte", ("nul", "byte")),
        ("café CAFÉ cafe\u0301", ("café",)),
        ("", ()),
        ("?!… 🦉", ()),
    ],
)
def test_a_query_becomes_words(query: str, expected: tuple[str, ...]) -> None:
    """In lower case, each once, in order, without stop words unless nothing would be left."""
    assert query_words(query) == expected


def test_a_query_is_bounded_in_words_and_in_characters() -> None:
    """What is beyond is ignored."""
    assert len(query_words(" ".join(f"w{n}" for n in range(1_000)))) == limits.QUERY_WORDS
    assert query_words(" " * limits.QUERY_CHARS + "late") == ()
    assert query_words(" ".join(["the"] * 200) + " owl") == ("owl",)


def test_stop_words_are_a_choice() -> None:
    """The list `none` keeps everything; an unknown list is refused."""
    assert query_words("the owl", "none") == ("the", "owl")
    with pytest.raises(BadPolicy, match="english-1, english-2, none"):
        query_words("the owl", "klingon-1")


def test_a_list_of_stop_words_never_changes() -> None:
    """Recorded retrievals name it, and must stay checkable. A better list gets a new name."""
    text = " ".join(sorted(STOP_WORDS["english-1"]))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "c3780bbfc071297307ea64b8bfd7d34ec1cee585c703ba251527d717aea33fa1"
    )
    assert all(words_of(word) == [word] for word in STOP_WORDS["english-1"])


@pytest.mark.parametrize(
    "text", ["İstanbul", "caf\u00e9", "cafe\u0301", "हिन्दी", "foo_bar", "Straße", "Ελλάς", "x²y 1½"]
)
def test_a_text_is_found_by_a_search_for_itself(text: str) -> None:
    """The words of a query are cut as the index cuts them, in any script."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE docs USING fts5(body, tokenize = 'porter unicode61')")
    connection.execute("INSERT INTO docs VALUES (?)", (text,))
    assert connection.execute("SELECT body FROM docs WHERE docs MATCH ?", (any_of(query_words(text)),)).fetchall()
    connection.close()


# ---------------------------------------------------------------- consolidation


@pytest.mark.parametrize("policy", [Append(), Dedup()])
@pytest.mark.parametrize(
    ("change", "action", "targets", "reason"),
    [
        ("active", "skip", ("owl",), "same-id"),
        ("pending", "skip", ("owl",), "same-id"),
        ("forgotten", "add", (), "new"),
        ("withdrawn", "discard", (), "withdrawn"),
        ("rejected", "discard", (), "rejected"),
    ],
)
def test_what_becomes_of_a_known_id(
    policy: Append | Dedup, change: str, action: str, targets: tuple[str, ...], reason: str
) -> None:
    """It supports what is there, revives what was forgotten, and stays out where somebody said so."""
    state = state_of(item("owl"), owl=change)
    (decision,) = decisions(policy, state, [item("owl", "Other words")])
    assert (decision.action, decision.item, decision.targets, decision.reason) == (action, "owl", targets, reason)


@pytest.mark.parametrize("policy", [Append(), Dedup()])
@pytest.mark.parametrize(
    "content", ["Bound it first; then count.", "THEN count! Bound it first", "bound it first then count"]
)
def test_rejected_words_never_come_back_under_another_id(policy: Append | Dedup, content: str) -> None:
    """Whatever the title, the source, the case, the order and the punctuation."""
    state = state_of(item("owl", "Title", "Bound it first, then count."), owl="rejected")
    (decision,) = decisions(policy, state, [item("elk", "Another title", content, "success")])
    assert (decision.action, decision.reason) == ("discard", "rejected")


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (item("elk", "Title", "Never bound it first, then count it up.", "success"), "new"),
        (item("elk", "Title", "Bound it first, then count it up.", polarity="failure"), "new"),
        (item("elk", "Title", "Bound it first, then count it up.", domain="b"), "new"),
        (item("elk", "Title", "Bound it first, then count it up.", domain="a"), "rejected"),
        (item("elk", "Title", "Bound it first, then count it up."), "rejected"),
        (item("elk", "Title", "Bound it last, and count nothing."), "new"),
    ],
    ids=["the opposite", "other polarity", "other domain", "same domain", "no domain", "other words"],
)
def test_a_rejection_bars_near_duplicates_and_nothing_else(new: Item, reason: str) -> None:
    """Of the same polarity, in the same domain or where either has none; never what says the opposite."""
    state = state_of(item("owl", "Title", "Bound it first, then count it up.", domain="a"), owl="rejected")
    (decision,) = decisions(Append(), state, [new])
    assert decision.reason == reason


def test_opposites_contradict_and_are_never_duplicates() -> None:
    """Both are kept, and the decision names the one that the candidate contradicts."""
    state = state_of(
        item("owl", "Never write COUNT(DISTINCT ?x)", "Write it without DISTINCT, as the graph has no doubles.")
    )
    new = item("elk", "Write COUNT(DISTINCT ?x)", "Write it without DISTINCT, as the graph has no doubles.")
    (decision,) = decisions(Dedup(), state, [new])
    assert (decision.action, decision.targets, decision.reason) == ("add", ("owl",), "contradicts")


def test_duplicates_are_of_one_domain_and_an_id_confirmed_elsewhere_has_both() -> None:
    """The same words of another ontology are another item, unless they have the same id."""
    state = state_of(item("owl", "Same", "words", domain="a"), item("doe", "Same", "words", domain="b"))
    (decision,) = decisions(Dedup(), state, [item("elk", "Same", "words", domain="b")])
    assert decision.targets == ("doe",)
    batch = [item("owl", "Same", "words", domain="c"), item("elk", "Same", "words", domain="c")]
    assert [made.targets for made in decisions(Dedup(), state, batch)] == [("owl",), ("owl",)]


@pytest.mark.parametrize("action", ["supersede", "merge"])
def test_a_model_proposes_and_the_policy_decides(action: str) -> None:
    """Only active items of the same source, polarity and domain are put aside, and no more than the policy allows."""
    state = state_of(*(item(id) for id in "abcd"), item("p", src="success"), item("f"), f="forgotten")
    known = KnownItems.of(state)

    def proposed(policy: Merge, *targets: str) -> tuple[str, tuple[str, ...], str]:
        made = policy.decide(0, item("new"), known, Proposal(action=action, targets=targets))  # type: ignore[arg-type]
        return made.action, made.targets, made.reason

    assert proposed(Merge(), "a", "p", "f", "nobody", "b", "a") == (action, ("a", "b"), "proposed")
    assert proposed(Merge(), "p", "f", "nobody") == ("add", (), "new")
    assert proposed(Merge(), "a", "b", "c", "d") == ("add", (), "new"), "a proposal may not empty the bank"
    assert proposed(Merge(targets_max=4), "a", "b", "c", "d")[1] == ("a", "b", "c", "d")


def test_what_took_the_place_of_an_item_is_supported_by_its_words() -> None:
    """As long as that is active."""
    state = state_of(item("owl"))
    event = MemoriesExtracted(
        id=extraction_id(9), kind="manual", heads=(item("elk").head,), candidates=(item("elk").text,)
    )
    took = Decision(candidate=0, action="supersede", item="elk", targets=("owl",))
    done = MemoriesConsolidated(extraction=event.id, policy="by-hand-1", decisions=(took,))
    state = fold(stamped([event, done], start=state.position + 1), state)
    (decision,) = decisions(Append(), state, [item("owl")])
    assert (decision.action, decision.targets, decision.reason) == ("skip", ("elk",), "superseded")
    gone = fold(stamped([MemoriesForgotten(ids=("elk",), policy="by-hand-1")], start=state.position + 1), state)
    (decision,) = decisions(Append(), gone, [item("owl")])
    assert (decision.action, decision.reason) == ("add", "new")


def test_append_adds_every_new_id_once() -> None:
    """Also one that repeats an active item word for word; a second one of the same id supports the first."""
    state = state_of(item("owl", "Same", "words"))
    made = decisions(Append(), state, [item("elk", "Same", "words"), item("elk", "Same", "words")])
    assert [(decision.candidate, decision.action, decision.reason) for decision in made] == [
        (0, "add", "new"),
        (1, "skip", "same-id"),
    ]


def test_dedup_skips_a_near_duplicate_and_says_how_near() -> None:
    """Case and punctuation don't part what belongs together."""
    state = state_of(item("owl", "Bound the query first", "Add a LIMIT, then count."))
    (decision,) = decisions(Dedup(), state, [item("elk", "bound the query FIRST!", "add a limit; then count")])
    assert (decision.action, decision.targets, decision.reason) == ("skip", ("owl",), "near-duplicate")
    assert decision.title_similarity == pytest.approx(42 / 43)
    assert decision.content_similarity == 1.0


@pytest.mark.parametrize(
    ("title", "content", "duplicate"),
    [
        ("abcdefghij", "a b c d", True),
        ("abcdefghXY", "a b c d", True),  # ratio exactly 0.8
        ("abcdefgXYZ", "a b c d", False),  # 0.7
        ("abcdefghijKLMNO", "a b c d", True),  # exactly 0.8, all of it due to length
        ("abcdefghijKLMNOP", "a b c d", False),
        ("abcdefghij", "a b c", True),  # Jaccard exactly 3/4
        ("abcdefghij", "a b c e", False),  # 3/5
        ("abcdefghij", "D C B A a b", True),  # words are a set, in lower case
        ("abcdefghij", "…", False),  # no word against four
    ],
)
def test_the_thresholds_of_dedup_are_inclusive(title: str, content: str, duplicate: bool) -> None:
    """Both must be reached."""
    state = state_of(item("owl", "abcdefghij", "a b c d"))
    (decision,) = decisions(Dedup(), state, [item("elk", title, content)])
    assert (decision.action == "skip") == duplicate


def test_contents_without_a_word_are_alike() -> None:
    """Two empty sets have similarity 1; the titles decide."""
    state = state_of(item("owl", "Same title", "—"))
    same, other = decisions(Dedup(), state, [item("elk", "Same title", "…"), item("doe", "Wholly else", "…")])
    assert (same.reason, same.content_similarity, other.action) == ("near-duplicate", 1.0, "add")


@pytest.mark.parametrize(
    ("old", "change"),
    [
        (item("owl", "Same", "words", "success"), ""),
        (item("owl", "Same", "words", polarity="failure"), ""),
        (item("owl", "Same", "words", "failure", polarity="success"), ""),
        (item("owl", "Same", "words"), "withdrawn"),
        (item("owl", "Same", "words"), "erased"),
    ],
    ids=["other source", "other polarity", "other source, same polarity", "ended", "erased"],
)
def test_dedup_compares_only_with_live_items_of_the_same_kind(old: Item, change: str) -> None:
    """Same source and polarity, active, and with words."""
    (decision,) = decisions(Dedup(), state_of(old, owl=change), [item("elk", "Same", "words")])
    assert decision.action == "add"


@pytest.mark.parametrize(("new", "old"), [("success", "failure"), ("failure", "success")])
def test_polarities_never_merge(new: Any, old: Any) -> None:
    """Neither what to do into what to avoid, nor the other way; and each finds its own kind behind the other."""
    held = (item("owl", "Same", "words", polarity=old), item("elk", "Same", "words", polarity=new))
    (first,) = decisions(Dedup(), state_of(held[0]), [item("doe", "Same", "words", polarity=new)])
    (second,) = decisions(Dedup(), state_of(*held), [item("doe", "Same", "words", polarity=new)])
    assert (first.action, second.targets) == ("add", ("elk",))


def test_the_earliest_duplicate_is_the_target() -> None:
    """By the order of the first decisions about them."""
    state = state_of(item("b", "Same", "words"), item("a", "Same", "words"), item("c", "Same", "words"))
    (decision,) = decisions(Dedup(), state, [item("elk", "Same", "words")])
    assert decision.targets == ("b",)


def test_candidates_of_one_extraction_are_weighed_against_each_other() -> None:
    """An added one counts as active for those after it; a skipped one does not."""
    batch = [item("x", "Same", "words"), item("y", "Same", "words"), item("y", "Same", "words")]
    made = decisions(Dedup(), State(), batch)
    assert [(decision.action, decision.targets) for decision in made] == [
        ("add", ()),
        ("skip", ("x",)),
        ("skip", ("x",)),
    ]


def test_the_thresholds_are_settings() -> None:
    """So an experiment can change them, and the change is recorded."""
    state = state_of(item("owl", "abcdefghij", "a b c d"))
    loose = Dedup(title_min=0.5, content_min=(1, 2))
    (decision,) = decisions(loose, state, [item("elk", "abcdefgXYZ", "a b c e")])
    assert decision.reason == "near-duplicate"
    assert loose.choice.settings == {"title_min": 0.5, "content_min": (1, 2)}


def test_where_no_content_need_be_common_the_titles_decide() -> None:
    """The first item with a similar title is the target, of the bank or of the same extraction."""
    state = state_of(item("owl", "Same", "a b"), item("doe", "Same", "c"), item("hen", "Apart", "x"))
    batch = [item("elk", "Same", "x y"), item("fox", "Unlike any", "z"), item("cat", "Unlike any", "u v")]
    made = decisions(Dedup(content_min=(0, 1)), state, batch)
    assert [(decision.action, decision.targets) for decision in made] == [
        ("skip", ("owl",)),
        ("add", ()),
        ("skip", ("fox",)),
    ]


# ---------------------------------------------------------------- forgetting


def test_never_forgets_nothing() -> None:
    """However many there are."""
    assert Never().to_forget(state_of(*(item(f"i{n}") for n in range(50)))) == ()


def test_bounded_gives_up_the_least_worth_first() -> None:
    """Fewest wins, then fewest uses, then least support, then earliest decided on."""
    state = state_of(*(item(id) for id in "abcde"), c="supported")
    used = {"a": {"r1": 1, "r2": 2, "r4": 4}, "b": {"r1": 1, "r3": 3}}
    won = StandingVerdict(verdict="success", judge="j", judge_version="1", kind="lm", rank=2, seq=9)
    state = State(items=state.items, uses=used, verdicts={("r3", "learning"): won})
    assert Bounded(max_items=1, grace=0).to_forget(state) == ("d", "e", "c", "a")
    assert Bounded(max_items=3, grace=0).to_forget(state) == ("d", "e")
    assert Bounded(max_items=5, grace=0).to_forget(state) == ()
    once = State(items=state_of(item("a"), item("b")).items, uses={"a": {"r1": 1}}, verdicts={})
    assert Bounded(max_items=1, grace=0).to_forget(once) == ("b",)


def test_newborn_items_go_after_all_others() -> None:
    """A full bank whose items were all used gives up one of these, not the one that no run could be given yet."""
    state = state_of(*(item(id) for id in "abcd"))
    state = State(items=state.items, uses={id: {"r1": 1} for id in "abc"})
    assert Bounded(max_items=3, grace=0).to_forget(state) == ("d",)
    assert Bounded(max_items=3, grace=1).to_forget(state) == ("a",)
    assert Bounded(max_items=3, grace=4).to_forget(state) == ("d",), "all are newborn, so worth decides"
    assert Bounded(max_items=1, grace=2).to_forget(state) == ("a", "b", "d"), "the bound holds in any case"


def test_floors_keep_items_of_each_polarity() -> None:
    """An item that would take its polarity below the floor is passed over."""
    state = state_of(item("f1", src="failure"), item("f2", src="failure"), item("s1"), item("s2"), item("s3"))
    assert Bounded(max_items=3, floor_failure=2, grace=0).to_forget(state) == ("s1", "s2")
    assert Bounded(max_items=2, floor_failure=1, floor_success=1, grace=0).to_forget(state) == ("f1", "s1", "s2")


def test_ended_items_and_those_of_the_judge_are_left_alone() -> None:
    """Neither counted nor forgotten."""
    state = state_of(item("p", src="principle"), item("e", src="episode"), item("a"), item("b"), a="forgotten")
    assert Bounded(max_items=1).to_forget(state) == ()


# ---------------------------------------------------------------- files and records


def test_the_defaults_are_whole() -> None:
    """One policy per kind, with every setting, each of which can be read back."""
    assert [(choice.kind, choice.name) for choice in default_policies()] == [
        ("retrieval", "bm25"),
        ("admission", "standard"),
        ("judging", "lm"),
        ("extraction", "success-failure"),
        ("consolidation", "dedup"),
        ("forgetting", "never"),
        ("selection", "best-of"),
        ("attribution", "exposure"),
        ("correction", "law"),
    ]
    assert [policy_of(choice).choice for choice in default_policies()] == list(default_policies())
    assert Bm25V3.of(default_policies()[0]) == Bm25V3()
    assert Dedup().label == "dedup-1" and default_policies()[4] == DedupV2().choice


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", ["append", "dedup", "merge"])
def test_a_name_without_a_version_means_the_one_beside_that_in_force(name: str, version: int) -> None:
    present = policy_class("consolidation", "dedup", version)().choice
    [found] = changed((present,), {"consolidation": {"name": name}})
    assert (found.name, found.version) == (name, version)


def test_toml_and_json_say_the_same() -> None:
    """What a file leaves out keeps its default."""
    toml = '[retrieval]\nk = 3\nweights = [2, 1, 1.5, 0]\n[forgetting]\nname = "bounded"\nmax_items = 9\n'
    as_json = json.dumps(
        {
            "retrieval": {"k": 3, "weights": [2, 1, 1.5, 0]},
            "forgetting": {"name": "bounded", "version": 1, "max_items": 9},
        }
    )
    retrieval, *others, forgetting, _, _, _ = load_policies(toml)
    assert load_policies(as_json) == load_policies(toml)
    assert Bm25V3.of(retrieval) == Bm25V3(k=3, weights=(2.0, 1.0, 1.5, 0.0))
    assert (tuple(others), policy_of(forgetting)) == (default_policies()[1:5], Bounded(max_items=9))
    assert load_policies("") == load_policies("{}") == default_policies()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "neither TOML nor a JSON object"),
        ("k ==", "neither TOML nor a JSON object"),
        ("{}" * 2, "neither TOML nor a JSON object"),
        ("[retreival]", "did you mean 'retrieval'"),
        (
            '[ranking]\nname = "lm"',
            "there are: admission, attribution, consolidation, correction, extraction, forgetting, judging, retrieval, "
            "selection",
        ),
        ("retrieval = 3", "must be a table of name, version and settings, not int"),
        ("[retrieval]\nname = 3", "name must be a string, not int"),
        ('[retrieval]\nname = "bm26"', "did you mean 'bm25'"),
        ('[forgetting]\nname = "zzz"', "there are: bounded, never"),
        ("[retrieval]\nversion = 9", "bm25 has no version 9 in this release; there are: 1, 2, 3"),
        ("[retrieval]\nversion = true", "has no version True in this release; there are: 1, 2, 3"),
        (
            "[retrieval]\nlimit = 3",
            "bm25-3 has no setting 'limit'; there are: b, coverage, domains, floor, k, k1, k_failure, "
            "k_success, levels, pairs, parts, pool, shape, share_of_best, stop_weight, stop_words, strangers, "
            "strength, support, typo, unknown, unknown_names, weights",
        ),
        ("[forgetting]\ndays = 3", "no setting 'days'; there are: none"),
        ("[retrieval]\nk_succes = 3", "did you mean 'k_success'"),
        ("[retrieval]\nk = 0", "Expected `int` >= 1 - at `k`"),
        ("[retrieval]\nk = true", "Expected `int`, got `bool` - at `k`"),
        ("[retrieval]\nweights = [1, 1, 1]", "length 4, got 3 - at `weights`"),
        ("[retrieval]\nweights = [1, nan, 1, 1]", "at `weights[1]`"),
        ('[retrieval]\nstop_words = "klingon-1"', "there are: languages-1, none"),
        ("[consolidation]\ntitle_min = 0.5", "dedup-2 has no setting 'title_min'"),
        ("[consolidation]\nversion = 1\ntitle_min = nan", "at `title_min`"),
        ("[consolidation]\nversion = 1\ncontent_min = [5, 4]", "content_min 5/4 is not from 0 to 1"),
        ("[consolidation]\nversion = 1\ncontent_min = [0, 0]", "content_min 0/0 is not from 0 to 1"),
        (
            '[forgetting]\nname = "bounded"\nmax_items = 1\nfloor_success = 2',
            "the floors keep 2 items, max_items allows 1",
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused(text: str, message: str) -> None:
    """The message names the culprit and what would be right."""
    with pytest.raises(BadPolicy) as refused:
        load_policies(text)
    assert message in str(refused.value)


def test_a_record_of_another_policy_is_refused() -> None:
    """Of another kind, name or version, or with settings that this one doesn't have."""
    for wrong in (Append().choice, PolicyChoice(kind="retrieval", name="bm25", version=2)):
        with pytest.raises(BadPolicy, match="is not bm25-1"):
            Bm25V1.of(wrong)
    with pytest.raises(BadPolicy, match="no selection policy 'best'; did you mean 'best-of'"):
        policy_of(PolicyChoice(kind="selection", name="best", version=1))


# ---------------------------------------------------------------- extraction


def test_a_file_may_change_the_extraction_policy() -> None:
    """At the paper's temperature, and by comparing rollouts, unless told otherwise."""
    chosen = load_policies('[extraction]\nextract_from = "best"\nitems_max = 2')[3]
    assert (chosen.kind, chosen.name, chosen.version) == ("extraction", "success-failure", 1)
    assert policy_of(chosen) == SuccessFailure(extract_from="best", items_max=2)
    assert (SuccessFailure().temperature, SuccessFailure().extract_from) == (1.0, "contrastive")


@pytest.mark.parametrize(
    "wrong", ['extract_from = "all"', "items_max = 4", "items_max = 0", "temperature = 3", "k = 1"]
)
def test_an_extraction_policy_with_wrong_settings_is_refused(wrong: str) -> None:
    """More than three items, no items, no such source, too hot."""
    with pytest.raises(BadPolicy, match="extraction policy success-failure"):
        load_policies(f"[extraction]\n{wrong}")


# ---------------------------------------------------------------- similarity


def test_what_is_similar_is_found_as_dedup_finds_it() -> None:
    """The first of the same source and polarity whose title and content are both near; others are not asked."""
    old = [item("a", "Count with DISTINCT", "one two three four", "success")]
    old.append(item("b", "Count with distinct!", "one two three four", "success"))
    new = item("c", "Count with DISTINCT.", "One, two; THREE four", "success")
    assert find_similar(new, old) == old[0]
    assert find_similar(new, old[1:]) == old[1]
    assert find_similar(item("c", new.title, new.content, "seed"), old) is None
    assert find_similar(item("c", "Another title altogether", new.content, "success"), old) is None
    assert find_similar(item("c", new.title, "one two", "success"), old) is None
    assert find_similar(item("c", new.title, "one two", "success"), old, Dedup(content_min=(1, 2))) == old[0]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [("a b c", "c b a", 1.0), ("A, b", "a c", 1 / 3), ("", "", 1.0), ("a", "", 0.0), ("a b c d", "a b c", 0.75)],
)
def test_contents_are_as_similar_as_their_sets_of_words(new: str, old: str, expected: float) -> None:
    """Jaccard: common words by all words."""
    assert content_jaccard(new, old) == pytest.approx(expected)


# ---------------------------------------------------------------- judging


def test_a_file_may_change_the_judging_policy() -> None:
    """A model judges, unless the file names the checks."""
    chosen = load_policies("[judging]\nsupervised = true\ncases = 1")[2]
    assert (chosen.name, chosen.version) == ("lm", 1)
    assert policy_of(chosen) == LmJudging(supervised=True, cases=1)
    plain = load_policies('[judging]\nname = "checks"\ngrounding = false')[2]
    assert policy_of(plain) == CheckJudging(grounding=False)


@pytest.mark.parametrize("wrong", ["cases = -1", 'supervised = "yes"', "cases = 1_000", "temperature = 1"])
def test_a_judging_policy_with_wrong_settings_is_refused(wrong: str) -> None:
    with pytest.raises(BadPolicy, match="judging policy lm"):
        load_policies(f'[judging]\nname = "lm"\n{wrong}')


def test_where_no_event_names_a_policy_the_same_one_governs_for_ever() -> None:
    """Old banks verify by these; another default for new banks is another line."""
    kinds: tuple[PolicyKind, ...] = get_args(PolicyKind)
    assert {kind: governing(kind, None).label for kind in kinds} == {
        "retrieval": "bm25-1",
        "consolidation": "append-1",
        "forgetting": "never-1",
        "judging": "lm-1",
        "extraction": "success-failure-1",
        "admission": "standard-1",
        "selection": "best-of-1",
        "attribution": "exposure-1",
        "correction": "law-1",
    }
    assert all(governing(choice.kind, choice).choice == choice for choice in default_policies())
