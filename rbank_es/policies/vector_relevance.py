"""Relevance by vectors: the cosine of a query's vector with those of items, exact whatever computes it.

A vector is rounded to 16-bit integers, its largest number to 32,767. Sums of products of such integers are below 2**53,
so they are the same in any order, in Python as in numpy; root, product and quotient are rounded once each, by IEEE 754.
So a cosine is the same bit for bit live, as of a position and replayed. It differs from that of the unrounded vectors
by less than 1e-4.
"""

from __future__ import annotations

import base64
import heapq
import math
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import mul

from msgspec import Struct

_PRODUCTS_IN_PYTHON = 2_000_000
"""Products of numbers that take plain Python as long as numpy takes to load, 0.1 s."""

# The largest of 16 bits: a number loses less than 1/65,534 of the largest one of its vector.
_LARGEST = 2**15 - 1
_ROWS = 1_024
"""Vectors that numpy multiplies at once: of 8,192 dimensions, 64 MiB as doubles."""


class VectorRanking(Struct, frozen=True):
    """The cosine of a query with each item that has a usable vector, by id, from -1 to 1, and the number of items."""

    cosines: dict[str, float]
    items: int


def rounded(numbers: Sequence[float]) -> bytes:
    """Return a vector that has a direction as 16-bit integers, native, its largest number as ±32,767."""
    largest = max(map(abs, numbers))
    return array("h", [round(number / largest * _LARGEST) for number in numbers]).tobytes()


def stored(vector: bytes) -> str:
    """Return a rounded vector as read models keep it: base64 of little-endian integers."""
    return base64.b64encode(_little_endian(vector)).decode()


def loaded(text: str) -> bytes:
    """Return the rounded vector of a text of `stored`."""
    return _little_endian(base64.b64decode(text))


def dimensions(text: str) -> int:
    """Return the number of dimensions of a vector in a text of `stored`."""
    return len(loaded(text)) // array("h").itemsize


def compared(query: bytes, vectors: Iterable[tuple[str, bytes]], most: int) -> dict[str, float]:
    """Return the cosine of a query with each vector of its size, by name. At most `most` are expected.

    Vectors are taken as they come, because those of a large bank would fill the memory.
    """
    # Two bytes a number, as many products for each vector.
    import_numpy = most * len(query) // 2 > _PRODUCTS_IN_PYTHON
    found: dict[str, float] = {}
    fit = ((name, vector) for name, vector in vectors if len(vector) == len(query))
    while block := list(islice(fit, _ROWS)):
        scored = cosines(query, [vector for _, vector in block], import_numpy=import_numpy)
        found.update(zip((name for name, _ in block), scored, strict=True))
    return found


def nearest(cosines: Mapping[str, float], k: int) -> list[tuple[str, float]]:
    """Return the `k` items of the greatest cosines, those first; ties are broken by id."""
    return heapq.nsmallest(k, cosines.items(), key=lambda hit: (-hit[1], hit[0]))


def cosines(query: bytes, vectors: Sequence[bytes], *, import_numpy: bool = False) -> list[float]:
    """Return the cosine of a rounded vector with each of others of its size, by numpy where it is loaded or wanted."""
    numpy = import_numpy or "numpy" in sys.modules
    return (numpy and by_numpy(query, vectors)) or by_python(query, vectors)


def by_python(query: bytes, vectors: Sequence[bytes]) -> list[float]:
    """Return the cosines without numpy."""
    wanted = array("h", query)
    length = math.sqrt(sum(map(mul, wanted, wanted)))
    found: list[float] = []
    for vector in vectors:
        numbers = array("h", vector)
        found.append(sum(map(mul, wanted, numbers)) / (length * math.sqrt(sum(map(mul, numbers, numbers)))))
    return found


def by_numpy(query: bytes, vectors: Sequence[bytes]) -> list[float] | None:
    """Return the cosines; None where numpy is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    wanted = numpy.frombuffer(query, dtype=numpy.int16).astype(numpy.float64)
    rows = numpy.frombuffer(b"".join(vectors), dtype=numpy.int16).reshape(len(vectors), -1).astype(numpy.float64)
    lengths = numpy.sqrt(wanted @ wanted) * numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
    found: list[float] = ((rows @ wanted) / lengths).tolist()
    return found


def _little_endian(vector: bytes) -> bytes:
    if sys.byteorder == "little":
        return vector
    numbers = array("h", vector)
    numbers.byteswap()
    return numbers.tobytes()
