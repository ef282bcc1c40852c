"""Words for files of a folder that can't be read: all are counted, some are named, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from rbank_es import limits


def refused_files(failures: Sequence[Exception], files: int) -> str:
    """Return the message for files that can't be read beside `files` that can: a line each, and how to go on."""
    advice = "Mend or remove them, or go on without them: --skip-unreadable, in Python skip_unreadable=True."
    return f"{_listed(failures, files)}\n{advice if files else 'No other file is there.'}"


def left_out_files(failures: Sequence[Exception], files: int) -> str:
    """Return the notice that files are left out, and what is read are `files` others."""
    return f"{_listed(failures, files)}\nThey are left out."


def _listed(failures: Sequence[Exception], files: int) -> str:
    # A line each, whatever their names hold.
    shown = [" ".join(str(each).splitlines()) for each in failures[: limits.BAD_FILES_LISTED]]
    left = len(failures) - len(shown)
    more = [f"and {left:,} more"] if left else []
    return "\n  ".join([f"{len(failures):,} of {len(failures) + files:,} files can't be read:", *shown, *more])
