"""Exchange: recordings of other tools as events of a bank, and a bank in forms that others read.

    items           a list of items
    trajectory      the lines of one recorded run
    reasoningbank   ReasoningBank memories, in its three forms
    atif, gemini-cli, claude-code, codex, chat
                    transcripts of coding agents, read by `rbank_es.agents.transcripts`
    events          another bank's events, as `export --format events` writes them

`IMPORTERS` is their registry: an importer is one file. `parse` is pure: from a file's bytes to units of events whose
ids follow from the identity of their records: `identity` has the rule. `known_records` compares them with a log. `plan`
is pure: it decides about candidates in a given state. `import_paths` reads, checks, compares, plans and appends.
`exporters` writes banks.
"""

from rbank_es.exchange.file_import import FileImport, ImportReport, find_imports, import_paths, plan
from rbank_es.exchange.identity import Numbers, identity, part_id
from rbank_es.exchange.importer import IMPORTERS, Importer, ImportUnit, Opening, Parsed, RecordChange, parse

__all__ = [
    "IMPORTERS",
    "FileImport",
    "ImportReport",
    "ImportUnit",
    "Importer",
    "Opening",
    "Numbers",
    "Parsed",
    "RecordChange",
    "identity",
    "find_imports",
    "import_paths",
    "parse",
    "part_id",
    "plan",
]
