"""The report of `make real`: what ran with which versions, and how each way ended. Written by the script alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from rbank_es import __version__
from tests.real_models.ways import Ended, ways

HEAD = """\
# Real models

`make real` runs each way into a bank with a real model at a server on this machine, and wrote this page. It is **no
measurement of quality**: a model of 135 million parameters answers next to nothing right. What it shows is that
whatever a model replies, bounds are kept, the log has as many calls as the server got, reruns are identical, nothing is
learned from what can't be read, nobody sees a traceback, and the server is stopped at the end.

    make real                                      installs a server and a small model, by version and digest
    make real MODEL=FILE.gguf                      another model, at the same server
    make real API_BASE=http://localhost:8080/v1    a server of your own; LM=openai/NAME names its model
"""


MEASURED = "\n## Larger models\n"
"""The heading from which on the page is written by hand."""


def written(page: Path, ended: Sequence[Ended], model: str, server: str) -> None:
    """Write the page about the ways that ended, and name the others as not run; keep what was written by hand."""
    _, heading, by_hand = (page.read_text(encoding="utf-8") if page.exists() else "").partition(MEASURED)
    page.write_text(_text(ended, model, server) + heading + by_hand, encoding="utf-8")


def _text(ended: Sequence[Ended], model: str, server: str) -> str:
    left_out = [way.name for way in ways() if way.name not in {each.name for each in ended}]
    wrong = sum(bool(each.wrong) for each in ended)
    facts = {
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "rbank-es": __version__,
        "dspy": version("dspy"),
        "server": server,
        "model": model,
        "ways that held": f"{len(ended) - wrong} of {len(ended)}",
        "not run": ", ".join(left_out) or "none",
        "seconds": f"{sum(each.seconds for each in ended):,.0f}",
        "calls": f"{sum(each.calls for each in ended):,}",
    }
    rows = [f"| {name} | {_cell(value)} |" for name, value in facts.items()]
    table = [
        f"| {each.name} | {'holds' if not each.wrong else 'does **not** hold'} | {each.code} | {each.seconds:,.0f} | "
        f"{each.calls} | {_cell(each.said)} |"
        for each in ended
    ]
    faults = [f"- {each.name}: {_cell(fault)}" for each in ended for fault in each.wrong]
    parts = [
        HEAD,
        "\n".join(["| | |", "|---|---|", *rows]),
        "\n".join(
            [
                "| way | | exit code | seconds | calls | what the bank or the command says |",
                "|---|---|---|---|---|---|",
                *table,
            ]
        ),
        *(["\n".join(["What did not hold:\n", *faults])] if faults else []),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _cell(text: str) -> str:
    line = " ".join(text.replace("|", "/").split())
    return line if len(line) <= 240 else f"{line[:240]}…"
