"""TOML that people write."""

import pytest

from rbank_es.system.toml_input import parse_toml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a =", "Invalid value"),
        (f"a = {'9' * 5000}", "^a whole number has thousands of digits$"),
        (f"a = {'[' * 20_000}", "^it is nested too deeply$"),
    ],
)
def test_anything_else_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_toml(text)
