"""Exchange: recordings of other tools as events of a bank, and a bank in forms that others read.

    items           a JSON list of items
    trajectory      JSON Lines of one recorded run
    reasoningbank   JSON Lines of ReasoningBank memories, in its three forms
    events          JSON Lines of another bank's events, as `export --format events` writes them

`IMPORTERS` is their registry: an importer is one file. `parse` is pure: from a file's bytes to units of events whose
ids follow from the source. `plan` is pure: it decides about candidates in a given state. `import_paths` reads, checks,
plans and appends. `exporters` writes banks.
"""

from rbank_es.events.derived_ids import derived_id
from rbank_es.exchange.file_import import FileImport, ImportReport, files_in, import_paths, plan
from rbank_es.exchange.importer import IMPORTERS, Importer, ImportUnit, Opening, Parsed, parse

__all__ = [
    "IMPORTERS",
    "FileImport",
    "ImportReport",
    "ImportUnit",
    "Importer",
    "Opening",
    "Parsed",
    "derived_id",
    "files_in",
    "import_paths",
    "parse",
    "plan",
]
