"""Policies by example: what is searched for, what is a duplicate, what is forgotten, and what a file may say."""

from __future__ import annotations

import hashlib
from typing import Any, get_args

import pytest

from rbank_es import limits
from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.events.items import Item, Source
from rbank_es.law import (
    Append,
    Dedup,
    Merge,
)
from rbank_es.law.bank_state import Proposal
from rbank_es.law.similar_items import KnownItems
from rbank_es.policies import (
    Bm25V1,
    default_policies,
    governing,
    load_policies,
    policy_of,
    query_words,
)
from rbank_es.policies.words import STOP_WORDS, words_of
from tests.consolidations import decisions, state_of


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


# ---------------------------------------------------------------- consolidation


@pytest.mark.parametrize("action", ["supersede", "merge"])
def test_a_model_proposes_and_the_policy_decides(action: str) -> None:
    """Only active items of the same source, polarity and domain are put aside, and no more than the policy allows."""
    state = state_of(*(item(id) for id in "abcd"), item("p", src="success"), item("f"), forgotten=["f"])
    known = KnownItems.of(state)

    def proposed(policy: Merge, *targets: str) -> tuple[str, tuple[str, ...], str]:
        made = policy.decide(0, item("new"), known, Proposal(action=action, targets=targets))  # type: ignore[arg-type]
        return made.action, made.targets, made.reason

    assert proposed(Merge(), "a", "p", "f", "nobody", "b", "a") == (action, ("a", "b"), "proposed")
    assert proposed(Merge(), "p", "f", "nobody") == ("add", (), "new")
    assert proposed(Merge(), "a", "b", "c", "d") == ("add", (), "new"), "a proposal may not empty the bank"
    assert proposed(Merge(targets_max=4), "a", "b", "c", "d")[1] == ("a", "b", "c", "d")


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


# ---------------------------------------------------------------- files and records


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
        ('[extraction]\nextract_from = "all"', "extraction policy success-failure"),
        ("[extraction]\nitems_max = 4", "extraction policy success-failure"),
        ("[extraction]\nitems_max = 0", "extraction policy success-failure"),
        ("[extraction]\ntemperature = 3", "extraction policy success-failure"),
        ('[judging]\nname = "lm"\ncases = -1', "judging policy lm"),
        ('[judging]\nname = "lm"\nsupervised = "yes"', "judging policy lm"),
        ('[judging]\nname = "lm"\ncases = 1_000', "judging policy lm"),
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


# ---------------------------------------------------------------- judging


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
