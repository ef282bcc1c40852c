"""The full-text index: its columns, and how SQLite makes tokens of their words."""

from __future__ import annotations

FTS_COLUMNS = ("title", "desc", "content", "tags")
"""The columns of the full-text index, in the order of a retrieval policy's weights."""

TOKENIZER = "porter unicode61"


def fts_ddl(name: str, content: str) -> str:
    """Return the statement that creates a full-text index like the live one; `content` names its text table, if any."""
    columns = ", ".join(f'"{column}"' for column in FTS_COLUMNS)
    rowid = ", content_rowid='text'" if content else ""
    return f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, content='{content}'{rowid}, tokenize='{TOKENIZER}')"
