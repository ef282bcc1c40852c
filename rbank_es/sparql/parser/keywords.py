"""The words of SPARQL 1.1: its forms, its functions with the number of arguments that they take, its aggregates."""

from __future__ import annotations

FORMS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
"""The words with which a query begins."""

UPDATES = frozenset({"INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "COPY", "MOVE", "ADD", "WITH"})
"""The words with which an update begins."""

AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
_MANY = 1_000_000
_COUNTS = {
    (0, 0): "NOW RAND UUID STRUUID",
    (0, 1): "BNODE",
    (
        1,
        1,
    ): "STR LANG DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY "
    "HOURS MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC",
    (2, 2): "LANGMATCHES CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRLANG STRDT SAMETERM",
    (2, 3): "REGEX SUBSTR",
    (3, 3): "IF",
    (3, 4): "REPLACE",
    (0, _MANY): "COALESCE CONCAT",
}
FUNCTIONS = {name: count for count, names in _COUNTS.items() for name in names.split()}
"""Every built-in function in capitals, and how many arguments it takes, at least and at most."""

NAMES = frozenset(FUNCTIONS) | AGGREGATES | {"EXISTS", "NOT"}
"""Every word that an expression can begin with, but true and false."""
