"""`python -m tests.real_models`: serve a real model, run each way with it, write the report. Exit code 1: one fails."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

from rbank_es.models.model_choice import LmChoice
from rbank_es.models.server_properties import known_traits
from tests.real_models import report
from tests.real_models.counting_proxy import Proxy
from tests.real_models.server import MODEL, ROOT, SERVER, installed, served
from tests.real_models.ways import CALL_S, Ended, Ways, ways

PAGE = ROOT / "docs" / "real-models.md"


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_models", description="Runs a real model: robustness.")
    parser.add_argument("--model", type=Path, help="weights in GGUF, instead of the small model that is installed")
    parser.add_argument("--api-base", help="the address of a running server, instead of the one that is installed")
    parser.add_argument("--lm", default="openai/real", help="the model's name at a server of your own")
    parser.add_argument("--minutes", type=float, default=45.0, help="after which no other way is begun (45)")
    parser.add_argument("--only", help="ways whose name holds this; no report is written then")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the report goes")
    given = parser.parse_args()
    # Python would leave without stopping the server.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # The caches of the trial are its own: what was found of another model must not decide anything.
    folder = Path(mkdtemp(prefix="rbank-es-real-"))
    with ExitStack() as stack:
        address, model = given.api_base, given.lm
        if address is None:
            program, weights = installed(_cache(), given.model)
            address = stack.enter_context(served(program, weights, folder / "server.log"))
            model = (
                weights.name if given.model else f"{MODEL.package} {MODEL.version}: {weights.name} ({MODEL.licence})"
            )
        proxy = stack.enter_context(Proxy(address, CALL_S).running())
        traits = known_traits(LmChoice(model=given.lm, api_base=proxy.url))
        server = f"{traits.server or 'unknown'}{'' if given.api_base else f' ({SERVER.package} {SERVER.version})'}"
        print(f"{model} at {server}; banks in {folder}", flush=True)
        trial = Ways(folder, proxy, given.lm, time.monotonic() + given.minutes * 60)
        ended, left_out = list[Ended](), list[str]()
        for made in _run(trial, given.only, left_out):
            ended.append(made)
            # After each way, because a person may have seen enough.
            if given.only is None:
                report.written(given.page, ended, model, server)
    wrong = [each for each in ended if each.wrong]
    print(f"{len(ended) - len(wrong)} of {len(ended)} ways hold; it is no measurement of quality")
    return 1 if wrong or left_out else 0


def _run(trial: Ways, only: str | None, left_out: list[str]) -> Iterator[Ended]:
    """Run the ways in turn, and yield how each ended; note in `left_out` those for which no time was left."""
    for way in ways():
        if only is not None and only not in way.name:
            continue
        if time.monotonic() > trial.ends:
            left_out.append(way.name)
            continue
        print(f"{way.name:<28}", end="", flush=True)
        made = way.run(trial)
        held = "holds" if not made.wrong else f"does NOT hold: {'; '.join(made.wrong)}"
        print(f"{made.seconds:7.1f} s  {made.calls:3} calls  {held}", flush=True)
        yield made


def _cache() -> Path:
    return Path(os.environ.get("REAL_CACHE") or Path.home() / ".cache" / "rbank-es-real")


if __name__ == "__main__":
    raise SystemExit(main())
