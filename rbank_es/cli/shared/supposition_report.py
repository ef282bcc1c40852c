"""The report of `whatif`, for people: what would differ, and how much a model would have to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rbank_es import limits
from rbank_es.cli.shared.difference_report import print_difference, print_rest, print_rows
from rbank_es.cli.shared.output import Cell, echo, echo_heading, echo_section, echo_table, safe_block, styled, warn
from rbank_es.events.readable_text import count

if TYPE_CHECKING:
    from rbank_es.bank.bank_difference import ItemDifference
    from rbank_es.bank.supposed_differences import PromptDifference, WhatIf
    from rbank_es.events.memory_events import Action

FIRST_ORDER = "first order: what agents, models and people did is taken as recorded"


def print_what_if(found: WhatIf) -> None:
    """Print what would differ under one supposition."""
    echo(f"from position {found.since_seq:,} to {found.position:,}; {FIRST_ORDER}")
    if not found.differs:
        echo("nothing would differ")
    print_difference(replace(found, runs=(), policies=()))  # these are what was supposed
    _print_decisions(found)
    _print_retrievals(found)
    _print_prompts(found.prompts)
    _print_counted("a model would have to say", _needs(found))
    _print_counted(
        "can't be told, because texts were erased, or settings or searches aren't recorded", _unknowable(found)
    )
    _warn(found)


def print_what_ifs(names: Sequence[str], found: Sequence[WhatIf]) -> None:
    """Print several suppositions beside one another, a column each."""
    echo(f"from position {found[0].since_seq:,} to {found[0].position:,}; {FIRST_ORDER}")
    rows: list[list[Cell]] = [[title, *(measure(each) for each in found)] for title, measure in _MEASURES]
    for facts in (_needs, _unknowable):
        columns = [dict(facts(each)) for each in found]
        rows += [[title, *(column[title] for column in columns)] for title in columns[0]]
    echo_table(["would differ", *names], [row for row in rows if any(row[1:])], none="nothing would differ")
    _warn(found[0])


def _warn(found: WhatIf) -> None:
    if found.overdue:
        warn(
            f"the bank isn't canonical: {count(found.overdue, 'decision')} already differ from what its own policies "
            "and verdicts lead to, and are among the differences; `rbank-es correct` would record them"
        )


def _needs(found: WhatIf) -> list[tuple[str, int]]:
    needs = found.needs
    return [
        ("runs that might behave otherwise", needs.runs),
        ("items drawn from such runs", needs.items),
        ("runs to extract from under another verdict", needs.extractions),
        ("judgments that might be others", needs.judgments),
        ("extractions under another policy", needs.drawn),
        ("proposals for decisions", needs.proposals),
    ]


def _unknowable(found: WhatIf) -> list[tuple[str, int]]:
    return [("unknowable retrievals", found.unknowable.retrievals), ("unknowable prompts", found.unknowable.prompts)]


def _chars(found: WhatIf) -> int:
    return sum(len(each.after or "") - len(each.before or "") for each in found.prompts)


_MEASURES: tuple[tuple[str, Callable[[WhatIf], int]], ...] = (
    ("decisions", lambda found: len(found.decisions)),
    ("items that would not be active", lambda found: len(found.left)),
    ("items that would be active", lambda found: len(found.came)),
    ("items forgotten, more or fewer", lambda found: sum(_forgotten(each) for each in found.items)),
    ("items changed otherwise", lambda found: len(found.items) - len(found.left) - len(found.came)),
    ("retrievals", lambda found: len(found.retrievals)),
    ("prompts", lambda found: len(found.prompts)),
    ("characters in prompts, more or fewer", _chars),
)


def _forgotten(item: ItemDifference) -> int:
    before, after = (side is not None and side.state == "forgotten" for side in (item.before, item.after))
    return after - before


def _print_decisions(found: WhatIf) -> None:
    rows: list[list[Cell]] = [
        [each.item, _shown(each.before), _shown(each.after), each.title or "[erased]"] for each in found.decisions
    ]
    title = f"other decisions: {count(len(found.decisions), 'candidate')}"
    print_rows(title, ["candidate", "recorded", "supposed", "title"], rows, "title")


def _shown(decision: tuple[Action, tuple[str, ...]] | None) -> str:
    if decision is None:
        return "does not count"
    action, targets = decision
    return f"{action} {', '.join(targets)}" if targets else action


def _print_retrievals(found: WhatIf) -> None:
    rows: list[list[Cell]] = [
        [each.seq, each.run, each.mode, ", ".join(each.before) or "nothing", ", ".join(each.after) or "nothing"]
        for each in found.retrievals
    ]
    title = f"would find other items: {count(len(rows), 'retrieval')}"
    print_rows(title, ["seq", "run", "asked by", "found", "would find"], rows, "found", "would find")


def _print_prompts(prompts: Sequence[PromptDifference]) -> None:
    if not prompts:
        return
    echo_heading(f"would be given other procedures: {count(len(prompts), 'run')}")
    for each in prompts[: limits.TABLE_ROWS]:
        before, after = each.before, each.after or ""
        was = "erased" if before is None else f"{len(before):,}"
        echo(f"{each.run}: {was} → {len(after):,} characters")
        # Behind the two lines that name files.
        for line in islice(unified_diff((before or "").splitlines(), after.splitlines(), lineterm="", n=0), 2, None):
            if not line.startswith("@@"):
                echo(styled(safe_block(f"{line[0]} {line[1:]}"), "green" if line[0] == "+" else "red"), hang=2)
    print_rest(len(prompts))


def _print_counted(title: str, facts: list[tuple[str, int]]) -> None:
    echo_section(title, ["what", "number"], [[name, number] for name, number in facts if number])
