"""Where the files of a bank in a directory are."""

from pathlib import Path

from rbank_es.log.file.file_log import FileLog


def derived(place: Path) -> Path:
    """The folder of what was derived from a bank, in the cache of the tests."""
    with FileLog.open(place) as log:
        return log.derived_directory
