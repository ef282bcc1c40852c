"""What is left of erased words: derived files are removed; then all that is stored is searched, and every cache."""

from __future__ import annotations

import mmap
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from rbank_es import limits
from rbank_es.log.escaped_words import SoughtWords
from rbank_es.log.protocol import Residue, Searched
from rbank_es.system.files import opened

_SQLITE = b"SQLite format 3\0"
_ROWS = 1_000
"""Rows of a table that are searched at once."""


def clear_derived(folder: Path, *, but: Iterable[str] = ()) -> None:
    """Remove what was derived from a log into a folder, save files of some names. The caller holds its lock.

    Lock files stay: a lock on a removed file would exclude nobody. What others remove meanwhile, or removed before, as
    the sweep of caches does for banks that are gone, is no error.
    """
    kept = frozenset(but)
    found = list[Path]()
    with suppress(FileNotFoundError):
        found += folder.iterdir()
    for path in found:
        if path.is_dir() and not path.is_symlink():
            while path.exists():
                with suppress(FileNotFoundError):
                    shutil.rmtree(path)
        elif path.suffix != ".lock" and path.name not in kept:
            path.unlink(missing_ok=True)


class ResidueSearch:
    """A search for words in all that is stored of a bank. Follows no link, and opens regular files only."""

    def __init__(self, sought: SoughtWords) -> None:
        self._sought = sought
        self._size = Counter({"parts": 0, "lines": 0, "bytes": 0})
        self._found: dict[str, Counter[str]] = {}
        self._unread: list[str] = []

    def look_through_lines(self, name: str, blocks: Iterable[bytes]) -> None:
        """Search lines of JSON, given in blocks."""
        self._size["parts"] += 1
        for block in blocks:
            self._size.update(lines=block.count(b"\n") + 1, bytes=len(block) + 1)
            if self._sought.may_be_in(block):
                for line in block.split(b"\n"):
                    self._count(name, self._sought.form_in(line, levels=1))

    def look_through_files(self, folder: Path, *, but: Iterable[str] = ()) -> None:
        """Search all files under a folder, save those of some names in the folder itself."""
        left_out = {folder / name for name in but}
        for path in sorted(_files_under(folder)):
            if path not in left_out:
                self._size["parts"] += 1
                try:
                    self._look_through_file(path)
                except OSError as error:
                    self._unread.append(f"{path}: {error.strerror or error}")

    def _look_through_file(self, path: Path) -> None:
        with opened(path) as fd:
            size = os.fstat(fd).st_size
            self._size["bytes"] += size
            if not size:
                return
            with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as whole:
                is_database = whole[: len(_SQLITE)] == _SQLITE
                # The bytes of a database matter for what was deleted in it; its values are searched in every form.
                form_in = self._sought.plain_form_in if is_database else self._sought.form_in
                for block in self._overlapping(whole):
                    self._count(str(path), form_in(block))
        if is_database:
            self._look_through_tables(path)

    def _overlapping(self, whole: mmap.mmap) -> Iterator[bytes]:
        """Yield a file in blocks that overlap by more than the words can take, because it need not have lines."""
        overlap = self._sought.longest_bytes
        size = max(limits.SEARCH_BLOCK_BYTES, 4 * overlap)
        for begin in range(0, len(whole), size - overlap):
            yield whole[begin : begin + size]

    def _look_through_tables(self, path: Path) -> None:
        """Search the values of a database: a long one is in pieces in the file."""
        import sqlite3  # loads a library that only a bank with read models needs

        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
                database.text_factory = bytes
                tables = database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
                ).fetchall()
                for (table,) in tables:
                    quoted = table.decode().replace('"', '""')
                    rows = database.execute(f'SELECT * FROM "{quoted}"')
                    while some := rows.fetchmany(_ROWS):
                        self._look_through_values(
                            f"{path} ({table.decode()})",
                            [value for row in some for value in row if isinstance(value, bytes)],
                        )
        except sqlite3.Error as error:
            self._unread.append(f"{path}: {error}")

    def _look_through_values(self, name: str, values: list[bytes]) -> None:
        self._size["lines"] += len(values)
        if self._sought.may_be_in(b"\n".join(values)):
            for value in values:
                self._count(name, self._sought.form_in(value))

    def _count(self, name: str, form: str | None) -> None:
        if form is not None:
            self._found.setdefault(name, Counter())[form] += 1

    def residue(self) -> Residue:
        """Return the findings so far."""
        forms = sum(self._found.values(), Counter[str]())
        return Residue(
            Searched(**self._size, forms=dict(sorted(forms.items()))),
            {name: dict(sorted(found.items())) for name, found in self._found.items()},
            tuple(self._unread),
        )


def _files_under(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)
