"""The report of `whatif`, for people: what would differ, and how much a model would have to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import unified_diff
from itertools import islice
from typing import TYPE_CHECKING

from rbank_es import limits
from rbank_es.cli.shared.output import (
    Cell,
    count,
    echo,
    echo_heading,
    echo_section,
    echo_table,
    safe_block,
    styled,
    warn,
)

if TYPE_CHECKING:
    from rbank_es.bank.supposed_differences import PromptDifference, SupposedItem, WhatIf
    from rbank_es.events.memory_events import Action

FIRST_ORDER = "first order: what agents, models and people did is taken as recorded"


def print_what_if(found: WhatIf) -> None:
    """Print what would differ under one supposition."""
    echo(f"from position {found.since:,} to {found.until:,}; {FIRST_ORDER}")
    if not found.differs:
        echo("nothing would differ")
    _print_items(found)
    _print_decisions(found)
    _print_usage(found)
    _print_retrievals(found)
    _print_prompts(found.prompts)
    _print_counted("a model would have to say", _needs(found))
    _print_counted(
        "can't be told, because texts were erased, or settings or searches aren't recorded", _unknowable(found)
    )
    _warn(found)


def print_what_ifs(names: Sequence[str], found: Sequence[WhatIf]) -> None:
    """Print several suppositions beside one another, a column each."""
    echo(f"from position {found[0].since:,} to {found[0].until:,}; {FIRST_ORDER}")
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


def _left(found: WhatIf) -> list[SupposedItem]:
    return [each for each in found.items if each.before == "active"]


def _came(found: WhatIf) -> list[SupposedItem]:
    return [each for each in found.items if each.after == "active"]


def _chars(found: WhatIf) -> int:
    return sum(len(each.after or "") - len(each.before or "") for each in found.prompts)


_MEASURES: tuple[tuple[str, Callable[[WhatIf], int]], ...] = (
    ("decisions", lambda found: len(found.decisions)),
    ("items that would not be active", lambda found: len(_left(found))),
    ("items that would be active", lambda found: len(_came(found))),
    ("items forgotten, more or fewer", lambda found: sum(_forgotten(each) for each in found.items)),
    ("items with other uses or wins", lambda found: len(found.usage)),
    ("retrievals", lambda found: len(found.retrievals)),
    ("prompts", lambda found: len(found.prompts)),
    ("characters in prompts, more or fewer", _chars),
)


def _forgotten(item: SupposedItem) -> int:
    return (item.after == "forgotten") - (item.before == "forgotten")


def _print_items(found: WhatIf) -> None:
    left, came = _left(found), _came(found)
    seen = {each.id for each in (*left, *came)}
    others = [each for each in found.items if each.id not in seen]
    for title, some in (("would not be active", left), ("would be active", came), ("would be otherwise", others)):
        rows: list[list[Cell]] = [[each.id, each.before, each.after, each.title or "[erased]"] for each in some]
        _print_rows(f"{title}: {count(len(rows), 'item')}", ["item", "recorded", "supposed", "title"], rows, "title")


def _print_decisions(found: WhatIf) -> None:
    rows: list[list[Cell]] = [
        [each.item, _shown(each.before), _shown(each.after), each.title or "[erased]"] for each in found.decisions
    ]
    title = f"other decisions: {count(len(found.decisions), 'candidate')}"
    _print_rows(title, ["candidate", "recorded", "supposed", "title"], rows, "title")


def _shown(decision: tuple[Action, tuple[str, ...]] | None) -> str:
    if decision is None:
        return "does not count"
    action, targets = decision
    return f"{action} {', '.join(targets)}" if targets else action


def _print_usage(found: WhatIf) -> None:
    rows: list[list[Cell]] = [
        [each.id, each.uses_before, each.uses_after, each.wins_before, each.wins_after] for each in found.usage
    ]
    title = f"other uses or wins: {count(len(rows), 'item')}"
    _print_rows(title, ["item", "uses", "supposed uses", "wins", "supposed wins"], rows)


def _print_retrievals(found: WhatIf) -> None:
    rows: list[list[Cell]] = [
        [each.seq, each.run, each.mode, ", ".join(each.before) or "nothing", ", ".join(each.after) or "nothing"]
        for each in found.retrievals
    ]
    title = f"would find other items: {count(len(rows), 'retrieval')}"
    _print_rows(title, ["seq", "run", "asked by", "found", "would find"], rows, "found", "would find")


def _print_rows(title: str, headers: Sequence[str], rows: list[list[Cell]], *flexible: str) -> None:
    echo_section(title, headers, rows[: limits.TABLE_ROWS], flexible=flexible)
    _print_rest(len(rows))


def _print_rest(total: int) -> None:
    if total > limits.TABLE_ROWS:
        echo(f"and {total - limits.TABLE_ROWS:,} more: --json lists all")


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
    _print_rest(len(prompts))


def _print_counted(title: str, facts: list[tuple[str, int]]) -> None:
    echo_section(title, ["what", "number"], [[name, number] for name, number in facts if number])
