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

from rbank_es.exchange.file_import import (
    FileImport as FileImport,
    ImportReport as ImportReport,
    find_imports as find_imports,
    import_paths as import_paths,
    plan as plan,
)
from rbank_es.exchange.record_identity import Numbers as Numbers, identity as identity, part_id as part_id
from rbank_es.exchange.importer import (
    IMPORTERS as IMPORTERS,
    Importer as Importer,
    ImportUnit as ImportUnit,
    Opening as Opening,
    Parsed as Parsed,
    RecordChange as RecordChange,
    parse as parse,
)
