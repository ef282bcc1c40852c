"""`guide`: let an agent explore an ontology once and write a guide, whose summary later runs get."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click
import msgspec

from rbank_es import limits
from rbank_es.cli.shared.agent_options import (
    OF_THE_AGENT,
    agent_model_options,
    executor_options,
    known_source,
    named_source,
    parse_models,
    read_constraints,
    refuse_idle,
    server_options,
    source_options,
)
from rbank_es.cli.shared.arguments import open_or_create, parse_bounds, whole_bank
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.interruption import interruptible, kept_of
from rbank_es.cli.shared.loop_progress import LoopDisplay
from rbank_es.cli.shared.output import echo, echo_fields, echo_heading, echo_json, echo_scripted, safe_block, styled
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count, format_cost


@command(
    "guide",
    "rbank-es guide notes --ont model.ttl --lm openai/gpt-4.1-mini",
    "rbank-es guide notes --ont lights --lm script:turns.toml --executor scratchpad",
)
@click.argument("bank")
@source_options
@executor_options
@agent_model_options
@server_options
@click.option("--again", is_flag=True, help="Write another guide, though there is one under the same settings.")
@click.option("-v", "--verbose", is_flag=True, help="Show every event as it is recorded.")
def guide(bank: str, again: bool, verbose: bool, as_json: bool, **given: Any) -> None:
    """Have an agent explore an ontology or an endpoint once, and write a guide to it.

    The whole text is kept in the bank, with its cost; runs with --l3 get its summary, at most 1,000 characters,
    from then on. BANK is made if there is none. After an interruption, the same command resumes.
    """
    from rbank_es.loop.closed_loop import advice
    from rbank_es.loop.guide_run import guide_settings, write_guide
    from rbank_es.loop.resources import check
    from rbank_es.loop.settings import LoopSettings
    from rbank_es.loop.watched_bank import watched

    place = whole_bank(bank)
    if given["lm"] is None:
        raise BadInput("no model is named: give --lm, such as openai/gpt-4.1-mini or script:FILE")
    refuse_idle(click.get_current_context(), given, OF_THE_AGENT)
    models = {name: given[name] for name in ("lm", "sub_lm")}
    with ExitStack() as stack:
        source = named_source(given, stack)
        settings = guide_settings(
            LoopSettings(
                **parse_models(models, given["api_base"], given["lm_args"]),  # type: ignore[arg-type]
                executor=given["executor"],
                iterations=given["iterations"] or limits.GUIDE_ITERATIONS,
                unsafe_local=given["unsafe_local"],
                tool_manual=given["tool_manual"],
                bounds=parse_bounds(given["bounds"]),
                layers=("L0", "L1"),
                constraints=read_constraints(None, given["paths"]),
            )
        )
        # Check before the bank is opened, so that a missing key leaves no empty bank behind.
        check(settings)
        opened = stack.enter_context(open_or_create(place)[0])
        source = known_source(opened, source)
        live = LoopDisplay(verbose=verbose)
        with interruptible(lambda: kept_of(0, 1, live.ends), advice(again)), live:
            made = write_guide(watched(opened, live.events), settings, source, again=again, on_task=live.task)
        facts = {"bank": opened.name, "head": str(opened.head())}
    if as_json:
        echo_json(facts | msgspec.to_builtins(made))
    else:
        _print(made, facts)


def _print(made: Any, facts: dict[str, str]) -> None:
    from rbank_es.context.guide_summary import guide_summary

    summary = guide_summary(made.text)
    echo(styled(f"a guide to {made.ontology}: {count(made.chars, 'character')}", "bold"))
    if made.how == "known":
        echo("written earlier under the same settings; --again writes another")
    echo_heading("summary for runs with --l3")
    echo(safe_block(summary.text))
    echo()
    echo_fields(
        {
            "run": made.run,
            "outcome": made.outcome,
            "calls": made.lm_calls,
            "tokens": made.tokens,
            "cost": format_cost(made.cost_usd),
            "left out": summary.cut,
            **facts,
        }
    )
    if made.scripted:
        echo_scripted()
