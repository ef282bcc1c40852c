"""Rows of an answer as a frame of pandas, polars or Arrow, by a schema that the types of the row's struct give.

So a column has the same type in an empty list as in a full one, and none in it changes no type. A time has its zone, a
whole number has 64 bits, lists and structs stay nested. What has no such type, an object of any form, is its JSON. Each
library is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct

from rbank_es.errors import BadInput
from rbank_es.system.extras import require

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

WHOLE_MOST = 2**63 - 1
"""The largest whole number of a column, as every one of these libraries and SQLite store it."""

Scalar = Literal["text", "whole", "number", "truth", "time", "json"]


class ColumnType(NamedTuple):
    """The type of a column: of a scalar, of a list of `of`, or of a struct of `parts`; `optional`: it may be none."""

    name: Scalar | Literal["list", "struct"]
    optional: bool = False
    of: ColumnType | None = None
    parts: tuple[tuple[str, ColumnType], ...] = ()


Schema = dict[str, ColumnType]


def schema_of(row: type[Struct]) -> Schema:
    """Return the columns of a row by name, in the order of its fields."""
    return {field.encode_name: _column(field.name, field.type) for field in msgspec.structs.fields(row)}


def _column(name: str, kind: Any) -> ColumnType:
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    members = [each for each in get_args(kind) if each is not NoneType]
    if NoneType in get_args(kind) and len(members) == 1:
        return _column(name, members[0])._replace(optional=True)
    if getattr(kind, "__origin__", None) is tuple and get_args(kind)[1:] == (...,):
        return ColumnType("list", of=_column("", members[0]))
    if isinstance(kind, type) and issubclass(kind, Struct):
        return ColumnType("struct", parts=tuple(schema_of(kind).items()))
    return ColumnType(_scalar(name, kind, members))


def _scalar(name: str, kind: Any, members: Sequence[Any]) -> Scalar:
    if kind is str:
        # The glossary's rule for names of times, by which conditions on rows read theirs, too.
        return "time" if name.endswith("_at") else "text"
    if members and all(isinstance(each, str) for each in members):
        return "text"
    scalars: dict[Any, Scalar] = {int: "whole", float: "number", bool: "truth"}
    return scalars.get(kind, "json")


def columns_of(schema: Schema, rows: Sequence[Struct]) -> dict[str, list[Any]]:
    """Return the values of each column. Raises `BadInput` for a whole number of more than 64 bits."""
    plain = [msgspec.to_builtins(row) for row in rows]
    return {name: [_value(name, kind, row[name]) for row in plain] for name, kind in schema.items()}


def flat_rows(schema: Schema, rows: Sequence[Struct]) -> list[tuple[str | int | float | None, ...]]:
    """Return rows as SQL has them: times as texts, lists and objects as JSON, 0 and 1. Raises as `columns_of`."""
    plain = [msgspec.to_builtins(row) for row in rows]
    return [tuple(_flat(name, kind, row[name]) for name, kind in schema.items()) for row in plain]


def _flat(name: str, kind: ColumnType, value: Any) -> str | int | float | None:
    if value is not None and kind.name in ("list", "struct"):
        return msgspec.json.encode(value).decode()
    flat: str | int | float | None = value if kind.name == "time" else _value(name, kind, value)
    return int(flat) if isinstance(flat, bool) else flat


def _value(name: str, kind: ColumnType, value: Any) -> Any:
    match kind.name:
        case _ if value is None:
            return None
        case "json":
            return msgspec.json.encode(value).decode()
        case "time":
            return datetime.fromisoformat(value)
        case "whole" if abs(value) > WHOLE_MOST:
            raise BadInput(f"{name} has a number of more than 64 bits, which no frame stores: {str(value)[:24]}")
        case "list":
            assert kind.of is not None
            return [_value(name, kind.of, each) for each in value]
        case "struct":
            return {part: _value(part, of, value[part]) for part, of in kind.parts}
    return value


def pandas_frame(row: type[Struct], rows: Sequence[Struct]) -> pandas.DataFrame:
    """Return rows as a pandas frame; lists and structs are objects. Raises `MissingExtra`, `BadInput`."""
    require("pandas")
    import pandas as pd

    schema = schema_of(row)
    columns = columns_of(schema, rows)
    return pd.DataFrame({name: pd.Series(columns[name], dtype=_pandas_type(kind)) for name, kind in schema.items()})


def _pandas_type(kind: ColumnType) -> Any:
    plain = {"whole": "int64", "truth": "bool"}
    nullable = {"text": "string", "json": "string", "whole": "Int64", "truth": "boolean"}
    nullable |= {"number": "float64", "time": "datetime64[us, UTC]"}
    return (nullable if kind.optional else {**nullable, **plain}).get(kind.name, "object")


def polars_frame(row: type[Struct], rows: Sequence[Struct]) -> polars.DataFrame:
    """Return rows as a polars frame. Raises `MissingExtra`, `BadInput`."""
    require("polars")
    import polars as pl

    schema = schema_of(row)
    return pl.DataFrame(columns_of(schema, rows), {name: _polars_type(kind) for name, kind in schema.items()})


def _polars_type(kind: ColumnType) -> Any:
    import polars as pl

    if kind.of is not None:
        return pl.List(_polars_type(kind.of))
    if kind.name == "struct":
        return pl.Struct({name: _polars_type(part) for name, part in kind.parts})
    scalars = {"whole": pl.Int64(), "number": pl.Float64(), "truth": pl.Boolean(), "time": pl.Datetime("us", "UTC")}
    return scalars.get(kind.name, pl.String())


def arrow_table(schema: Schema, columns: dict[str, list[Any]]) -> pyarrow.Table:
    """Return columns as an Arrow table, which Parquet is written from. Raises `MissingExtra`."""
    require("pyarrow")
    import pyarrow as pa

    return pa.table(columns, pa.schema({name: _arrow_type(kind) for name, kind in schema.items()}))


def _arrow_type(kind: ColumnType) -> Any:
    import pyarrow as pa

    if kind.of is not None:
        return pa.list_(_arrow_type(kind.of))
    if kind.name == "struct":
        return pa.struct([(name, _arrow_type(part)) for name, part in kind.parts])
    scalars = {"whole": pa.int64(), "number": pa.float64(), "truth": pa.bool_(), "time": pa.timestamp("us", "UTC")}
    return scalars.get(kind.name, pa.string())
