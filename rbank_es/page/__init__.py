"""The page about a bank: one app, exported as a file or served, which shows the bank at any position.

    with bank.as_of("HEAD~5") as view:
        write_page(bank, view, "page.html")

The app is in `app/`, readable as it ships. It asks a source for answers about the bank as of a position: an exported
file holds them, a served page fetches them.
"""

from __future__ import annotations

from rbank_es.page.exported_page import ExportOptions, WrittenPage, write_page

__all__ = ["ExportOptions", "WrittenPage", "write_page"]
