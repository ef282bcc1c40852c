"""The cost of a recorded call of a model: an OpenAI client that `run.wrap` returned, beside the client itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai

from benchmarks.measure import NONE, Row, duration, interleave, interval, timed
from benchmarks.sizes import Sizes
from rbank_es import Bank
from tests.models.openai_server import openai_server

CALLS = 20
MESSAGES: list[Any] = [{"role": "user", "content": "Which lamps are lit? " * 200}]


def measure(place: Path, sizes: Sizes) -> Iterator[Row]:
    """Yield a row of calls over the loopback to a server that answers at once."""
    with openai_server(lambda body: "The hall's, and the porch's.") as server, Bank.create(place / "wrapped") as bank:
        client = openai.OpenAI(base_url=server.url, api_key="sk-of-nobody", max_retries=0)
        with bank.record("Which lamps are lit?") as run:
            recording = run.wrap(client)
            contestants = {name: timed(lambda each=each: _ask(each)) for name, each in
                           (("ours", recording), ("bare", client))}  # fmt: skip
            samples = interleave(contestants, sizes.recording_rounds)
            run.finish("the hall's")
    middle, low, high = (each * 1e3 / CALLS for each in interval(samples.differences("ours", "bare")))
    yield Row(
        "wrapped calls",
        f"an OpenAI client over the loopback, {CALLS} calls of {len(MESSAGES[0]['content']):,} characters a round",
        f"{duration(samples.median('ours') / CALLS)} a call; recording {middle:.2f} ms of it ({low:.2f} to {high:.2f})",
        peer=f"the client alone {duration(samples.median('bare') / CALLS)}; ×{samples.ratio('ours', 'bare'):.2f}",
        floor=NONE,
    )


def _ask(client: openai.OpenAI) -> None:
    for _ in range(CALLS):
        client.chat.completions.create(model="stub", messages=MESSAGES)
