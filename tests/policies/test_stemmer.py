"""The stemmer of bm25-3: with another release installed, a search is refused by name, and older policies go on."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.errors import BadPolicy
from rbank_es.extraction.candidates import consolidate
from rbank_es.policies import Bm25V2, Bm25V3
from rbank_es.projections import stem_tables
from rbank_es.text import stems
from rbank_es.text.stems import Stems, language_of, require_stemmer

MIDDLES = [f"{one}{two}" for one in ("tion", "lamp", "vari", "count") for two in ("al", "er", "if", "ous", "at")]
ENDINGS = ("", "s", "ing", "ed", "ization", "fulness", "ational", "ies", "ement", "ously")


@pytest.mark.parametrize("installed", [None, "3.0.1"])
def test_with_another_stemmer_a_search_is_refused_by_name_and_older_policies_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    require_stemmer.cache_clear()
    for module in (stems, stem_tables):
        monkeypatch.setattr(module, "installed_stemmer", lambda: installed)
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        consolidate(bank, [Item.make("Count lamps", "Which lamps: count each once.", id="lamps")])
        with bank.as_of() as view:
            assert [hit.id for hit in view.search("count lamps", policy=Bm25V2())] == ["lamps"]
            with pytest.raises(
                BadPolicy, match=rf"snowballstemmer {stems.STEMMER}, and {installed or 'none'} is installed"
            ):
                view.search("count lamps", policy=Bm25V3())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("wo liegt der hafen", "german"),
        ("cuantos faros hay", "spanish"),
        ("tower heights", None),
        ("which towers", "english"),
        ("сколько маяков", "russian"),
    ],
)
def test_a_text_is_of_the_language_whose_stop_words_it_has(text: str, language: str | None) -> None:
    assert language_of(text.split()) == language


@pytest.mark.slow
def test_threads_that_read_at_once_find_the_stems_that_one_alone_finds() -> None:
    """A stemmer holds the word that it is at: shared by rollouts, it gave stems of other words, or raised."""
    words = [f"{start}{middle}{end}" for start in ("na", "ex", "or") for middle in MIDDLES for end in ENDINGS]
    alone = [*map(Stems("english").__getitem__, words)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = [*pool.map(lambda _: [*map(Stems("english").__getitem__, words)], range(8))]
    finally:
        sys.setswitchinterval(before)
    assert found == [alone] * 8
