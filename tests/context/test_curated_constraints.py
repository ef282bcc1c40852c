"""Curated constraints: the form of their file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import limits
from rbank_es.context.constraints import curated_beside, load_curated, parse_curated
from rbank_es.errors import BadContextFile

WHOLE = """
[[rubric]]
text = "Every light in the answer has a name."

[[anti_pattern]]
text = "Don't ask for lights as such."
terms = ["lt:Light"]

[[constraint]]
text = "A watch has one keeper."
priority = 9

[[constraint]]
text = "Heights are in metres."
priority = 1
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[constraint]\n", "not TOML"),
        ('[[constraints]]\ntext = "x"', "unknown key 'constraints'"),
        ('[constraint]\ntext = "x"', r"begin each entry with \[\[constraint\]\]"),
        ("constraint = [1]", "constraint 1 must be a table"),
        ("[[rubric]]\nterms = []", "rubric 1: .*text"),
        ('[[rubric]]\ntext = ""', "rubric 1: .*length >= 1"),
        ('[[rubric]]\ntext = " \\n "', "rubric 1: .*length >= 1"),
        ("[[rubric]]\ntext = 3", "rubric 1: .*str.*int"),
        ('[[rubric]]\ntext = "x"\n[[rubric]]\ntext = "y"\nweight = 2', "rubric 2: .*weight"),
        ('[[rubric]]\ntext = "x"\nkind = "constraint"', "unknown key 'kind'"),
        ('[[rubric]]\ntext = "x"\npriority = 0', "rubric 1: .*>= 1"),
        ('[[rubric]]\ntext = "x"\npriority = 10', "rubric 1: .*<= 9"),
        ('[[rubric]]\ntext = "x"\npriority = "high"', "rubric 1: .*int"),
        ('[[rubric]]\ntext = "x"\nterms = "lt:Light"', "rubric 1: .*array"),
        (f'[[rubric]]\ntext = "x"\nterms = {["a"] * 21}', "rubric 1: .*length <= 20"),
        (f'[[rubric]]\ntext = "{"x" * (limits.CURATED_TEXT_CHARS + 1)}"', f"rubric 1: .*{limits.CURATED_TEXT_CHARS}"),
        ('[[rubric]]\ntext = "x"\n' * (limits.CURATED_LINES + 1), f"at most {limits.CURATED_LINES}"),
    ],
)
def test_what_is_not_of_the_form_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(BadContextFile, match=reason):
        parse_curated(text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    latin, large = tmp_path / "latin.toml", tmp_path / "large.toml"
    latin.write_bytes(b'[[rubric]]\ntext = "caf\xe9"')
    large.write_bytes(b"#" * (limits.CONTEXT_FILE_BYTES + 1))
    refused: dict[str | Path, str] = {
        tmp_path / "missing.toml": "No such file",
        tmp_path: "directory",
        latin: "not UTF-8",
        large: "larger than",
        "nul\0": "no file can have a name with",
    }
    for path, reason in refused.items():
        with pytest.raises(BadContextFile, match=reason):
            load_curated(path)


def test_the_file_beside_an_ontology_is_found_its_own_before_that_of_the_folder(tmp_path: Path) -> None:
    ontology = tmp_path / "lights.ttl"
    assert curated_beside(ontology) is None
    for name in ("constraints.toml", "lights_constraints.toml", "lights.constraints.toml"):
        (tmp_path / name).write_text("")
        found = curated_beside(ontology)
        assert found is not None
        assert found.name == name
    assert curated_beside(tmp_path) == tmp_path / "constraints.toml"
