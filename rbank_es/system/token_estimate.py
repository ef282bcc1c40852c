"""An estimate of the tokens of a text, where nobody counted them."""

from __future__ import annotations


def estimated_tokens(text: str) -> int:
    """Return the tokens that a text has at most, but for rare scripts: three ASCII characters a token, else two bytes.

    English and SPARQL have about four, IRIs and numbers about three; other scripts one to three bytes a token.
    """
    encoded = len(text.encode("utf-8", "surrogatepass"))
    ascii_chars = encoded if text.isascii() else sum(map(str.isascii, text))
    return -(-ascii_chars // 3) + -(-(encoded - ascii_chars) // 2)
