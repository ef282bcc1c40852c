"""The command line. `main` is the entry point of `rbank-es`; each command is loaded when it runs."""

from __future__ import annotations

from rbank_es.cli.shared.main import main

__all__ = ["main"]
