"""`schema`: the event types, and the answers that a bank gives, as JSON Schema."""

from __future__ import annotations

import inspect

import click

from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.output import echo, echo_json, echo_table, on_terminal


@command(
    "schema",
    "rbank-es schema run_started",
    "rbank-es schema --json > events.schema.json",
    "rbank-es schema --answers runs",
)
@click.argument("type_", metavar="[TYPE]", required=False)
@click.option("--answers", is_flag=True, help="Of answers: TYPE is the name of a question.")
def schema(type_: str | None, answers: bool, as_json: bool) -> None:
    """Print the JSON Schema of one event type or of all, or with --answers of what a bank can be asked.

    On a terminal and without TYPE, the types are listed instead, with a sentence about each. New events leave out the
    fields that the log's writer sets: seq, at, more, dur, crc and salt; id and v may be left out too.
    """
    from rbank_es.events.codec import event_types, schema_of

    if answers:
        _print_answers(type_)
        return
    if type_ is not None:
        from rbank_es.answers.events import check_types

        check_types([type_])
    # The schema of all types is 5,800 lines: on a terminal, a list helps more.
    if type_ is not None or as_json or not on_terminal():
        echo_json(schema_of(type_))
        return
    rows = [[name, (inspect.getdoc(cls) or "").split("\n\n")[0]] for name, cls in event_types().items()]
    echo_table(["type", "meaning"], rows, flexible=["meaning"])
    echo("\nrbank-es schema TYPE prints one as JSON Schema, --json all")


def _print_answers(name: str | None) -> None:
    from rbank_es.answers import QUESTIONS
    from rbank_es.answers.shared.answer_schema import answer_schema

    echo_json(answer_schema(name) if name is not None else {each: answer_schema(each) for each in QUESTIONS.names()})
