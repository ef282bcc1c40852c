"""`transcripts`: find the transcripts of coding agents on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import Cell, Progress, echo, echo_json, echo_table, format_time
from rbank_es.events.readable_text import count
from rbank_es.limits import MIB


@command("transcripts", "rbank-es transcripts", "rbank-es transcripts --json")
def transcripts(as_json: bool) -> None:
    """Find what coding agents left on this machine, and say how much: files, turns of users, size, last change.

    Looked at are the folders of Claude Code (CLAUDE_CONFIG_DIR, ~/.claude), Codex (CODEX_HOME, ~/.codex) and the Gemini
    CLI (~/.gemini). Nothing is imported or written; `import` brings a folder in.
    """
    from rbank_es.agents.transcripts.found_transcripts import files_of, find_transcripts, transcript_places

    places = transcript_places(os.environ, Path.home())
    whole = sum(path.stat().st_size for place in places for path in files_of(place))
    done = 0
    with Progress("reading") as progress:

        def on_file(size: int) -> None:
            nonlocal done
            done += size
            progress(done, whole)

        found = list(find_transcripts(places, on_file))
    if as_json:
        echo_json({"transcripts": msgspec.to_builtins(found)})
        return
    if not found:
        echo("no transcripts of Claude Code, Codex or the Gemini CLI are on this machine")
        return
    rows: list[list[Cell]] = [
        [
            each.agent,
            each.folder,
            each.files,
            each.turns,
            f"{each.bytes / MIB:.1f}",
            format_time(each.last)[:16] or None,
            each.unreadable or None,
            each.compressed or None,
        ]
        for each in found
    ]
    headers = ["agent", "folder", "files", "turns", "MiB", "last change (UTC)", "unreadable", "compressed"]
    echo_table(headers, rows, flexible=["folder"], optional=["unreadable", "compressed"])
    turns = sum(each.turns for each in found)
    echo(f"\n{count(turns, 'turn')}; nothing was imported. To bring a folder in: rbank-es import BANK FOLDER --create")
