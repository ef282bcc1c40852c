"""Files that are imported as they grow: whenever one of them changes, it is imported again, which adds what is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from rbank_es.bank.bank import Bank
from rbank_es.errors import BadInput
from rbank_es.exchange.file_import import ImportReport, files_below, import_paths
from rbank_es.system.files import kind_of

_WAIT_S = 60.0
"""How long one wait lasts, after which files are looked at again: some file systems notify nobody."""

_SHARE = 4
"""An import that took a second is followed by a pause of so many: a large file that grows is read whole each time."""

_Seen = dict[Path, tuple[int, int]]


def follow_paths(
    bank: Bank,
    paths: Sequence[Path],
    on_import: Callable[[ImportReport], None],
    on_failure: Callable[[BadInput], None],
    seen: _Seen,
) -> None:
    """Import what changes below the paths until Ctrl-C.

    `seen` is what `states_of` returned before the first import. A file that can't be read is reported, and tried again
    when it changes.
    """
    from watchfiles._rust_notify import RustNotify  # slow to load

    watched = sorted({str(path if path.is_dir() else path.parent) for path in paths})
    with RustNotify(watched, False, False, 300, True, True) as watcher:
        while True:
            # Compare after the watcher was made: a change in between would wake nobody.
            now = dict(states_of(paths))
            changed = [path for path, state in now.items() if seen.get(path) != state]
            seen.update(now)
            began = monotonic()
            for path in changed:
                try:
                    on_import(import_paths(bank, [path]))
                except BadInput as failure:
                    on_failure(failure)
            pause_ms = int((monotonic() - began) * _SHARE * 1000)
            if watcher.watch(max(pause_ms, 500), 100, int(_WAIT_S * 1000), None) == "signal":
                raise KeyboardInterrupt


def states_of(paths: Sequence[Path]) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Yield the regular files of the paths, with size and time of change."""
    for path in paths:
        for file in files_below(path)[0] if path.is_dir() else [path]:
            with suppress(OSError):  # removed meanwhile
                status = file.lstat()
                if kind_of(file) == "a file":
                    yield file, (status.st_size, status.st_mtime_ns)
