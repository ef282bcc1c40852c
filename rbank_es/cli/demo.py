"""`demo`: a live run of an agent that learns, and the recorded sample bank."""

from __future__ import annotations

import lzma
from importlib.resources import files
from pathlib import Path

import click
import msgspec

from rbank_es.bank import Bank
from rbank_es.cli.dashboard import print_page, write_dashboard
from rbank_es.cli.shared.arguments import lasting, writable
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json, program_name
from rbank_es.errors import BadInput
from rbank_es.system.files import temporary

SAMPLE = "sample"
FIRST_SEGMENT = "00000000000000000001.jsonl"


@command("demo", "rbank-es demo", "rbank-es demo --into lesson", "rbank-es demo --sample ./sample")
@click.option("--sample", metavar="BANK", help="Keep the recorded sample bank here, which must be new; run nothing.")
@click.option("--into", metavar="BANK", help="Keep the bank of the live tasks here; it must be new.")
@click.option("-o", "output", metavar="FILE.html", default="./rbank-demo.html", show_default=True, help="The page.")
def demo(sample: str | None, into: str | None, output: str, as_json: bool) -> None:
    """Watch an agent learn: six tasks in the real sandbox, with a script in place of a model.

    One task fails, a guardrail is extracted from it, and later tasks that get it succeed. Then the bank is searched as
    it was before and as it is now, a run is re-executed from its own events, and a page is written. No model, key or
    network is used. Without --into, only the page is left behind.

    Where the sandbox can't run, --sample still gives a recorded bank, in which a judge was wrong.
    """
    page = writable(Path(output))
    if sample is None:
        _live(into, page, as_json=as_json)
    elif into is not None:
        raise BadInput("--into keeps the bank of a live run, --sample a recorded one: leave one out")
    else:
        _keep_sample(sample, page, as_json=as_json)


def _live(into: str | None, page: Path, *, as_json: bool) -> None:
    from rbank_es.cli.shared import live_demo

    problem = live_demo.sandbox_problem()
    if problem is not None:
        raise problem
    if not as_json:
        live_demo.print_introduction()
    with live_demo.demo_bank(into) as bank:
        result = live_demo.run_tasks(bank, aloud=not as_json)
        if as_json:
            facts = msgspec.to_builtins(result) | {"page": write_dashboard(bank, None, page).path}
            echo_json({"bank": bank.name, "live": True, "scripted": True} | facts)
        else:
            name = into or bank.name
            live_demo.print_result(result, name)
            print_page(bank, name, page)
            live_demo.print_next_steps(into)


def _keep_sample(place: str, page: Path, *, as_json: bool) -> None:
    with (
        temporary("demo") as unpacked,
        Bank.open(_sample(unpacked)) as recorded,
        recorded.copy(into=lasting(place)) as bank,
    ):
        if as_json:
            facts = {"bank": bank.name, "live": False, "scripted": True, "position": bank.position}
            echo_json(facts | {"page": write_dashboard(bank, None, page).path})
            return
        echo(f"kept {place}: {bank.position:,} events. Its runs are scripted; in some of them a judge was wrong.")
        print_page(bank, place, page)
        echo(f"Go on with: {program_name()} review {place}")


def _sample(empty: Path) -> Path:
    """Return the place of the sample bank: in a clone its own, else made in `empty` of the package's compressed log."""
    clone = Path(__file__).resolve().parents[2] / "logs" / SAMPLE
    if clone.is_dir():
        return clone
    packed = files("rbank_es.cli.shared").joinpath(f"{SAMPLE}.jsonl.xz").read_bytes()
    (empty / FIRST_SEGMENT).write_bytes(lzma.decompress(packed))
    return empty
