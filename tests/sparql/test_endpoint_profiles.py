"""Profiles of endpoints: those that are shipped, files of one's own, and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es.errors import BadInput
from rbank_es.sparql.endpoint_profiles import names, profile_named
from rbank_es.sparql.lint import CODES

GOOD = """
name = "lab"
url = "https://lab.example/sparql"
timeout_s = 5
notes = "Small."
[prefixes]
lab = "https://lab.example/ns#"
[refuses]
graph_scan = "name the graph"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "lab.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["uniprot", "wikidata"])
def test_a_shipped_profile_is_whole(name: str) -> None:
    profile = profile_named(name)
    assert profile.name == name
    assert profile.url.startswith("https://")
    assert profile.refuses.keys() <= CODES.keys()
    assert all(len(alternative) > 20 for alternative in profile.refuses.values())
    assert profile.notes
    assert all("://" in namespace for namespace in profile.prefixes.values())
    assert name in names()


@pytest.mark.parametrize("url", ["ftp://x/sparql", "file:///etc/passwd", "http://", "https://[bad/"])
def test_a_url_that_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="URL"):
        profile_named(url)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("timeout_s = 5", "timeout = 5"), "timeout"),
        (("timeout_s = 5", "timeout_s = 'long'"), "timeout_s"),
        (("timeout_s = 5", "timeout_s = 0"), "timeout_s"),
        (("timeout_s = 5", "timeout_s = 1e9"), "timeout_s"),
        (("timeout_s = 5", "timeout_s = nan"), "timeout_s"),
        (('name = "lab"', ""), "name"),
        (('name = "lab"', "name = 'unclosed"), "no endpoint profile"),
        (("graph_scan", "graph_scam"), "graph_scam"),
        (('"name the graph"', "true"), "refuses"),
        (("https://lab.example/sparql", "lab.example"), "http"),
        (('"https://lab.example/ns#"', "7"), "prefixes"),
    ],
)
def test_a_broken_file_is_refused_with_its_place_and_reason(tmp_path: Path, change: tuple[str, str], told: str) -> None:
    path = written(tmp_path, GOOD.replace(*change))
    with pytest.raises(BadInput) as refused:
        profile_named(path)
    assert str(path) in str(refused.value)
    assert told in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_bytes(b"name = '\xff'")
    with pytest.raises(BadInput, match="no endpoint profile"):
        profile_named(path)
    path.write_bytes(b"#" * 2_000_000)
    with pytest.raises(BadInput, match="over the limit"):
        profile_named(path)


@pytest.mark.parametrize("name", ["unprot", "", "missing.toml", "."])
def test_a_name_that_is_none_is_refused_with_those_that_are(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        profile_named(name)
    assert "uniprot" in str(refused.value) or "can't be read" in str(refused.value)
