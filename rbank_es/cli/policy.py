"""`policy`: show the policies of a bank, and change them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rbank_es.cli.shared.answer_output import opened_reader, print_answer
from rbank_es.cli.shared.arguments import open_whole, read_policy_tables
from rbank_es.cli.shared.command_registry import command
from rbank_es.cli.shared.correction_report import recorded
from rbank_es.cli.shared.difference_report import print_difference
from rbank_es.cli.shared.output import (
    Cell,
    echo,
    echo_heading,
    echo_json,
    echo_paragraph,
    echo_table,
    warn,
)
from rbank_es.errors import BadPolicy

if TYPE_CHECKING:
    from rbank_es.answers.policies import PoliciesAnswer
    from rbank_es.bank.bank_difference import ActDifference
    from rbank_es.bank.policy_record import PolicyInForce
    from rbank_es.policies import Policy


@command(
    "policy",
    "rbank-es policy notes",
    "rbank-es policy notes --set retrieval.k_success=2 --set forgetting=bounded --set forgetting.max_items=500",
    "rbank-es policy notes --set policies.toml --why 'as in experiment 4' --by ann",
    "rbank-es policy --list",
)
@click.argument("bank", metavar="[BANK[@POINT]]", required=False)
@click.option(
    "--set", "given", metavar="FILE|KIND.SETTING=VALUE|KIND=NAME", multiple=True,
    help="Change a setting, or put another policy in force; FILE is TOML or JSON, a table per kind. May be repeated.",
)  # fmt: skip
@click.option("--list", "all_there_are", is_flag=True, help="List all policies that there are, with their settings.")
@click.option("--why", metavar="TEXT", default="", help="The reason, recorded with the change.")
@click.option("--by", metavar="NAME", help="Who changes them, recorded too.")
@click.option("--dry-run", is_flag=True, help="Only report what would change.")
def policy(
    bank: str | None,
    given: tuple[str, ...],
    all_there_are: bool,
    why: str,
    by: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show the policies in force, each with its settings, their defaults and the position since which it holds.

    A policy decides: what is retrieved, what becomes an item at once, who judges, what is extracted, how items are
    consolidated, which are forgotten, which of several rollouts counts, and which runs use an item. With --set, a
    change is recorded as one event; what is not named stays as it is. Later decisions follow it, everywhere; earlier
    points keep their own.
    """
    if all_there_are:
        if bank is not None or given:
            raise click.UsageError("--list shows all policies that there are: leave out BANK and --set.")
        _list(as_json)
    elif bank is None:
        raise click.UsageError("name a bank, or list all policies with --list.")
    elif given:
        _set(bank, given, by, why, dry_run, as_json)
    elif why or by or dry_run:
        raise click.UsageError("--why, --by and --dry-run go with a change: add --set.")
    else:
        _show(bank, as_json)


# ---------------------------------------------------------------- in force


def _show(bank: str, as_json: bool) -> None:
    with opened_reader(bank) as reader:
        found: PoliciesAnswer = reader.ask("policies")
    print_answer(found, "policies", lambda: _print(found), as_json)
    unknown = [each for each in found.policies if each.problem]
    for each in unknown:
        warn(f"{each.problem}. Nothing is decided by another one instead; put one in force with --set {each.kind}=NAME")
    if unknown:
        click.get_current_context().exit(1)


def _rows(one: PolicyInForce) -> list[tuple[str, Any, Any, str]]:
    """Return name, value, default and meaning of each setting; of an unknown policy, names and values alone."""
    if one.problem:
        return [(name, value, None, "") for name, value in one.settings.items()]
    settings = _class_of(one.kind, one.label).described()
    return [(each.name, one.settings[each.name], each.default, each.meaning) for each in settings]


def _print(found: PoliciesAnswer) -> None:
    for each in found.policies:
        _print_policy(each)


def _print_policy(one: PolicyInForce) -> None:
    since = f"since {one.since_seq:,}" if one.since_seq is not None else "by default: no event names one"
    echo_heading(f"{one.kind}: {one.label} ({since})")
    if not one.problem:
        echo_paragraph(_summary(_class_of(one.kind, one.label)))
    rows: list[list[Cell]] = [
        [name, _shown(value), _shown(default) if default is not None else None, meaning]
        for name, value, default, meaning in _rows(one)
    ]
    if rows:
        echo_table(["setting", "value", "default", "meaning"], rows, flexible=["meaning"])


def _class_of(kind: str, label: str) -> type[Policy]:
    from rbank_es.policies import POLICIES

    return POLICIES.get(f"{kind}:{label}")


def _summary(policy_class: type[Policy]) -> str:
    return (inspect.getdoc(policy_class) or "").partition("\n\n")[0].replace("\n", " ")


def _shown(value: Any) -> str:
    """Return a value as `--set` takes it."""
    import msgspec

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# ---------------------------------------------------------------- all there are


def _list(as_json: bool) -> None:
    from rbank_es.policies import POLICIES

    classes = {name: POLICIES.get(name) for name in POLICIES.names()}
    if as_json:
        echo_json([_listed(name, each) for name, each in classes.items()])
        return
    for name, each in classes.items():
        kind, _, label = name.partition(":")
        echo_heading(f"{kind}: {label}")
        echo_paragraph(_summary(each))
        rows: list[list[Cell]] = [[one.name, _shown(one.default), one.meaning] for one in each.described()]
        if rows:
            echo_table(["setting", "default", "meaning"], rows, flexible=["meaning"])


def _listed(name: str, policy_class: type[Policy]) -> dict[str, Any]:
    kind, _, label = name.partition(":")
    settings = [{"name": one.name, "default": one.default, "meaning": one.meaning} for one in policy_class.described()]
    return {"kind": kind, "policy": label, "summary": _summary(policy_class), "settings": settings}


# ---------------------------------------------------------------- a change


def _set(bank: str, given: Sequence[str], by: str | None, why: str, dry_run: bool, as_json: bool) -> None:
    tables = _tables(given)
    with open_whole(bank) as opened:
        done = opened.set_policies(tables, by=by, why=why, dry_run=dry_run)
    print_answer(done, "policies", lambda: _print_change(done), as_json)


def _print_change(done: ActDifference) -> None:
    if done.last_seq is None:
        echo("nothing recorded: these policies are in force already")
        return
    print_difference(done)
    echo()
    echo(recorded(done))


def _tables(given: Sequence[str]) -> dict[str, Any]:
    """Return the changes by kind. Raises `BadPolicy` for two of one setting."""
    from rbank_es.policies.policy_registry import parse_assignments

    tables: dict[str, Any] = parse_assignments(text for text in given if "=" in text)
    for path in (text for text in given if "=" not in text):
        for kind, table in read_policy_tables(path).items():
            if kind in tables:
                raise BadPolicy(f"{kind} is set in {path} and elsewhere: set it once")
            tables[kind] = table
    return tables
