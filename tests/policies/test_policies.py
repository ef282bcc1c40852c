"""Policies by example: what is searched for, what is a duplicate, what is forgotten, and what a file may say."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import Item, Source
from rbank_es.policies import (
    Append,
    Bm25V1,
    Bounded,
    CheckJudging,
    Dedup,
    LmJudging,
    Never,
    SuccessFailure,
    content_jaccard,
    default_policies,
    find_similar,
    governing,
    load_policies,
    match_expression,
    policy_of,
    query_words,
)
from rbank_es.policies.words import STOP_WORDS, words_of
from rbank_es.state import ItemState, StandingVerdict, State


def state_of(*items: Item, **changes: dict[str, Any]) -> State:
    """A state with these items, born in this order; `changes` by id."""
    entries = {}
    for seq, item in enumerate(items, 1):
        facts: dict[str, Any] = {"born_seq": seq, "extraction": "e", "support": 1}
        entries[item.id] = ItemState(item=item, **(facts | changes.get(item.id, {})))
    return State(items=entries)


def item(id: str, title: str = "", content: str = "", src: Source = "seed", **facts: Any) -> Item:
    return Item.make(title or f"Title of {id}", content or f"content of {id}", src, id=id, **facts)


# ---------------------------------------------------------------- retrieval


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is the specific class?", '"specific" OR "class"'),
        ("Taxa taxa TAXA", '"taxa"'),
        ("the of and", '"the" OR "of" OR "and"'),
        ('a "quoted" NEAR(x*) -minus col:term', '"quoted" OR "near" OR "x" OR "minus" OR "col" OR "term"'),
        ("foo_bar up:mnemonic", '"foo" OR "bar" OR "mnemonic"'),
        ("nul\x00byte", '"nul" OR "byte"'),
        ("café CAFÉ cafe\u0301", '"café"'),
        ("", None),
        ("?!… 🦉", None),
    ],
)
def test_a_query_becomes_quoted_words_joined_by_or(query: str, expected: str | None) -> None:
    """In lower case, each once, in order, without stop words unless nothing would be left; None without a word."""
    assert match_expression(query) == expected


def test_a_query_is_bounded_in_words_and_in_characters() -> None:
    """What is beyond is ignored."""
    assert len(query_words(" ".join(f"w{n}" for n in range(1_000)))) == limits.QUERY_WORDS
    assert query_words(" " * limits.QUERY_CHARS + "late") == ()
    assert query_words(" ".join(["the"] * 200) + " owl") == ("owl",)


def test_stop_words_are_a_choice() -> None:
    """The list `none` keeps everything; an unknown list is refused."""
    assert match_expression("the owl", "none") == '"the" OR "owl"'
    with pytest.raises(BadPolicy, match="english-1, english-2, none"):
        match_expression("the owl", "klingon-1")


def test_a_list_of_stop_words_never_changes() -> None:
    """Recorded retrievals name it, and must stay checkable. A better list gets a new name."""
    text = " ".join(sorted(STOP_WORDS["english-1"]))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "c3780bbfc071297307ea64b8bfd7d34ec1cee585c703ba251527d717aea33fa1"
    )
    assert all(words_of(word) == [word] for word in STOP_WORDS["english-1"])


@given(st.text(max_size=60) | st.text(alphabet='"*()^-:+ \x00ANDORNEAT{}', max_size=40))
def test_no_query_breaks_the_search(query: str) -> None:
    """Whatever is asked, FTS5 takes the expression, and a document that holds the query's text is found."""
    expression = match_expression(query)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE docs USING fts5(body, tokenize = 'porter unicode61')")
    connection.execute("INSERT INTO docs VALUES ('owl')")
    if expression is not None:
        assert connection.execute("SELECT count(*) FROM docs WHERE docs MATCH ?", (expression,)).fetchone()[0] <= 1
    connection.close()


@pytest.mark.parametrize(
    "text", ["İstanbul", "caf\u00e9", "cafe\u0301", "हिन्दी", "foo_bar", "Straße", "Ελλάς", "x²y 1½"]
)
def test_a_text_is_found_by_a_search_for_itself(text: str) -> None:
    """The words of a query are cut as the index cuts them, in any script."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE docs USING fts5(body, tokenize = 'porter unicode61')")
    connection.execute("INSERT INTO docs VALUES (?)", (text,))
    assert connection.execute("SELECT body FROM docs WHERE docs MATCH ?", (match_expression(text),)).fetchall()
    connection.close()


# ---------------------------------------------------------------- consolidation


@pytest.mark.parametrize("policy", [Append(), Dedup()])
@pytest.mark.parametrize("standing", ["active", "forgotten"])
def test_a_known_id_is_skipped_and_supports_the_item(policy: Append | Dedup, standing: str) -> None:
    """Under every policy; an ended item stays ended."""
    state = state_of(item("owl"), owl={"state": standing})
    (decision,) = policy.decide(state, [item("owl", "Other words")])
    assert (decision.action, decision.item, decision.targets, decision.reason) == ("skip", "owl", ("owl",), "same-id")


def test_append_adds_every_new_id_once() -> None:
    """Also one that repeats an active item word for word; a second one of the same id supports the first."""
    state = state_of(item("owl", "Same", "words"))
    decisions = Append().decide(state, [item("elk", "Same", "words"), item("elk", "Same", "words")])
    assert [(decision.candidate, decision.action, decision.reason) for decision in decisions] == [
        (0, "add", "new"),
        (1, "skip", "same-id"),
    ]


def test_dedup_skips_a_near_duplicate_and_says_how_near() -> None:
    """Case and punctuation don't part what belongs together."""
    state = state_of(item("owl", "Bound the query first", "Add a LIMIT, then count."))
    (decision,) = Dedup().decide(state, [item("elk", "bound the query FIRST!", "add a limit; then count")])
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
    (decision,) = Dedup().decide(state, [item("elk", title, content)])
    assert (decision.action == "skip") == duplicate


def test_contents_without_a_word_are_alike() -> None:
    """Two empty sets have similarity 1; the titles decide."""
    state = state_of(item("owl", "Same title", "—"))
    same, other = Dedup().decide(state, [item("elk", "Same title", "…"), item("doe", "Wholly else", "…")])
    assert (same.reason, same.content_similarity, other.action) == ("near-duplicate", 1.0, "add")


@pytest.mark.parametrize(
    ("old", "change"),
    [
        (item("owl", "Same", "words", "success"), {}),
        (item("owl", "Same", "words", polarity="failure"), {}),
        (item("owl", "Same", "words", "failure", polarity="success"), {}),
        (item("owl", "Same", "words"), {"state": "retracted"}),
        (item("owl", "Same", "words"), {"erased": True}),
    ],
    ids=["other source", "other polarity", "other source, same polarity", "ended", "erased"],
)
def test_dedup_compares_only_with_live_items_of_the_same_kind(old: Item, change: dict[str, Any]) -> None:
    """Same source and polarity, active, and with words."""
    (decision,) = Dedup().decide(state_of(old, owl=change), [item("elk", "Same", "words")])
    assert decision.action == "add"


@pytest.mark.parametrize(("new", "old"), [("success", "failure"), ("failure", "success")])
def test_polarities_never_merge(new: Any, old: Any) -> None:
    """Neither what to do into what to avoid, nor the other way; and each finds its own kind behind the other."""
    held = (item("owl", "Same", "words", polarity=old), item("elk", "Same", "words", polarity=new))
    (first,) = Dedup().decide(state_of(held[0]), [item("doe", "Same", "words", polarity=new)])
    (second,) = Dedup().decide(state_of(*held), [item("doe", "Same", "words", polarity=new)])
    assert (first.action, second.targets) == ("add", ("elk",))


def test_the_earliest_duplicate_is_the_target() -> None:
    """By position of birth, then by id; what the same extraction added comes last."""
    state = state_of(item("b", "Same", "words"), item("a", "Same", "words"), item("c", "Same", "words"))
    (decision,) = Dedup().decide(state, [item("elk", "Same", "words")])
    assert decision.targets == ("b",)
    together = state_of(*(entry.item for entry in state.items.values()), a={"born_seq": 1}, b={"born_seq": 1})
    (decision,) = Dedup().decide(together, [item("elk", "Same", "words")])
    assert decision.targets == ("a",)


def test_candidates_of_one_extraction_are_weighed_against_each_other() -> None:
    """An added one counts as active for those after it; a skipped one does not."""
    batch = [item("x", "Same", "words"), item("y", "Same", "words"), item("y", "Same", "words")]
    decisions = Dedup().decide(State(), batch)
    assert [(decision.action, decision.targets) for decision in decisions] == [
        ("add", ()),
        ("skip", ("x",)),
        ("skip", ("x",)),
    ]


def test_the_thresholds_are_settings() -> None:
    """So an experiment can change them, and the change is recorded."""
    state = state_of(item("owl", "abcdefghij", "a b c d"))
    loose = Dedup(title_min=0.5, content_min=(1, 2))
    (decision,) = loose.decide(state, [item("elk", "abcdefgXYZ", "a b c e")])
    assert decision.reason == "near-duplicate"
    assert loose.choice.settings == {"title_min": 0.5, "content_min": (1, 2)}


def test_where_no_content_need_be_common_the_titles_decide() -> None:
    """The first item with a similar title is the target, of the bank or of the same extraction."""
    state = state_of(item("owl", "Same", "a b"), item("doe", "Same", "c"), item("hen", "Apart", "x"))
    batch = [item("elk", "Same", "x y"), item("fox", "Unlike any", "z"), item("cat", "Unlike any", "u v")]
    decisions = Dedup(content_min=(0, 1)).decide(state, batch)
    assert [(decision.action, decision.targets) for decision in decisions] == [
        ("skip", ("owl",)),
        ("add", ()),
        ("skip", ("fox",)),
    ]


# ---------------------------------------------------------------- forgetting


def test_never_forgets_nothing() -> None:
    """However many there are."""
    assert Never().to_forget(state_of(*(item(f"i{n}") for n in range(50)))) == ()


def test_bounded_gives_up_the_least_worth_first() -> None:
    """Fewest wins, then fewest uses, then least support, then earliest born."""
    state = state_of(*(item(id) for id in "abcde"), c={"born_seq": 3, "support": 2})
    used = {"a": {"r1": 1, "r2": 2, "r4": 4}, "b": {"r1": 1, "r3": 3}}
    won = StandingVerdict(success=True, judge="j", judge_version="1", kind="lm", seq=9)
    state = State(items=state.items, uses=used, verdicts={("r3", "learning"): won})
    assert Bounded(max_items=1).to_forget(state) == ("d", "e", "c", "a")
    assert Bounded(max_items=3).to_forget(state) == ("d", "e")
    assert Bounded(max_items=5).to_forget(state) == ()
    once = State(items=state_of(item("a"), item("b")).items, uses={"a": {"r1": 1}}, verdicts={})
    assert Bounded(max_items=1).to_forget(once) == ("b",)


def test_floors_keep_items_of_each_polarity() -> None:
    """An item that would take its polarity below the floor is passed over."""
    state = state_of(item("f1", src="failure"), item("f2", src="failure"), item("s1"), item("s2"), item("s3"))
    assert Bounded(max_items=3, floor_failure=2).to_forget(state) == ("s1", "s2")
    assert Bounded(max_items=2, floor_failure=1, floor_success=1).to_forget(state) == ("f1", "s1", "s2")


def test_ended_items_and_those_of_the_judge_are_left_alone() -> None:
    """Neither counted nor forgotten."""
    state = state_of(item("p", src="principle"), item("e", src="episode"), item("a"), item("b"), a={"state": "merged"})
    assert Bounded(max_items=1).to_forget(state) == ()


# ---------------------------------------------------------------- files and records


def test_the_defaults_are_whole() -> None:
    """One policy per kind, with every setting, each of which can be read back."""
    assert [(choice.kind, choice.name) for choice in default_policies()] == [
        ("retrieval", "bm25"),
        ("consolidation", "dedup"),
        ("forgetting", "never"),
    ]
    assert [policy_of(choice).choice for choice in default_policies()] == list(default_policies())
    assert Bm25V1.of(default_policies()[0]) == Bm25V1()
    assert Dedup().label == "dedup-1"


def test_toml_and_json_say_the_same() -> None:
    """What a file leaves out keeps its default."""
    toml = '[retrieval]\nk = 3\nweights = [2, 1, 1.5, 0]\n[forgetting]\nname = "bounded"\nmax_items = 9\n'
    as_json = json.dumps(
        {
            "retrieval": {"k": 3, "weights": [2, 1, 1.5, 0]},
            "forgetting": {"name": "bounded", "version": 1, "max_items": 9},
        }
    )
    retrieval, consolidation, forgetting = load_policies(toml)
    assert load_policies(as_json) == (retrieval, consolidation, forgetting)
    assert Bm25V1.of(retrieval) == Bm25V1(k=3, weights=(2.0, 1.0, 1.5, 0.0))
    assert (consolidation, policy_of(forgetting)) == (default_policies()[1], Bounded(max_items=9))
    assert load_policies("") == load_policies("{}") == default_policies()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "neither TOML nor a JSON object"),
        ("k ==", "neither TOML nor a JSON object"),
        ("{}" * 2, "neither TOML nor a JSON object"),
        ("[retreival]", "did you mean 'retrieval'"),
        ('[ranking]\nname = "lm"', "there are: consolidation, extraction, forgetting, judging, retrieval"),
        ("retrieval = 3", "must be a table of name, version and settings, not int"),
        ("[retrieval]\nname = 3", "name must be a string, not int"),
        ('[retrieval]\nname = "bm26"', "did you mean 'bm25'"),
        ('[forgetting]\nname = "zzz"', "there are: bounded, never"),
        ("[retrieval]\nversion = 9", "bm25 has no version 9 in this release; there are: 1, 2"),
        ("[retrieval]\nversion = true", "has no version True in this release; there are: 1, 2"),
        ("[retrieval]\nlimit = 3", "no setting 'limit'; its settings: k, weights, stop_words"),
        ("[forgetting]\ndays = 3", "no setting 'days'; its settings: none"),
        ("[retrieval]\nk = 0", "Expected `int` >= 1 - at `k`"),
        ("[retrieval]\nk = true", "Expected `int`, got `bool` - at `k`"),
        ("[retrieval]\nweights = [1, 1, 1]", "length 4, got 3 - at `weights`"),
        ("[retrieval]\nweights = [1, nan, 1, 1]", "at `weights[1]`"),
        ('[retrieval]\nstop_words = "klingon-1"', "there are: english-1, english-2, none"),
        ("[consolidation]\ntitle_min = nan", "at `title_min`"),
        ("[consolidation]\ncontent_min = [5, 4]", "content_min 5/4 is not from 0 to 1"),
        ("[consolidation]\ncontent_min = [0, 0]", "content_min 0/0 is not from 0 to 1"),
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
    with pytest.raises(BadPolicy, match="no policies of kind 'selection'"):
        policy_of(PolicyChoice(kind="selection", name="best", version=1))


# ---------------------------------------------------------------- extraction


def test_a_new_bank_records_no_extraction_policy_and_a_file_may_set_one() -> None:
    """One kind of extraction, at the paper's temperature; from the best of rollouts, unless told otherwise."""
    assert "extraction" not in {choice.kind for choice in default_policies()}
    [*_, chosen] = load_policies('[extraction]\nextract_from = "contrastive"\nitems_max = 2')
    assert (chosen.kind, chosen.name, chosen.version) == ("extraction", "success-failure", 1)
    assert policy_of(chosen) == SuccessFailure(extract_from="contrastive", items_max=2)
    assert (SuccessFailure().temperature, SuccessFailure().extract_from) == (1.0, "best")


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


def test_a_new_bank_records_no_judging_policy_and_a_file_may_set_one() -> None:
    """Runs may choose how they are judged; a file that names the kind alone means the checks."""
    assert "judging" not in {choice.kind for choice in default_policies()}
    [*_, chosen] = load_policies('[judging]\nname = "lm"\nsupervised = true\ncases = 1')
    assert (chosen.name, chosen.version) == ("lm", 1)
    assert policy_of(chosen) == LmJudging(supervised=True, cases=1)
    [*_, plain] = load_policies("[judging]\ngrounding = false")
    assert policy_of(plain) == CheckJudging(grounding=False)


@pytest.mark.parametrize("wrong", ["cases = -1", 'supervised = "yes"', "cases = 1_000", "temperature = 1"])
def test_a_judging_policy_with_wrong_settings_is_refused(wrong: str) -> None:
    with pytest.raises(BadPolicy, match="judging policy lm"):
        load_policies(f'[judging]\nname = "lm"\n{wrong}')


def test_where_no_event_names_a_policy_the_same_one_governs_for_ever() -> None:
    """Old banks verify by these; another default for new banks is another line."""
    kinds: tuple[PolicyKind, ...] = get_args(PolicyKind)
    assert {kind: governing(kind, None).label for kind in kinds if kind != "selection"} == {
        "retrieval": "bm25-1",
        "consolidation": "append-1",
        "forgetting": "never-1",
        "judging": "checks-1",
        "extraction": "success-failure-1",
    }
    assert all(governing(choice.kind, choice).choice == choice for choice in default_policies())
