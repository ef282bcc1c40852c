"""Simulate the studies again, and draw their plots and tables.

    python docs/studies/make_studies.py run poisoned-bank --jobs 2   writes poisoned-bank.json: 10 minutes
    python docs/studies/make_studies.py run repair --jobs 2          5 minutes
    python docs/studies/make_studies.py run assumptions --jobs 2     3 minutes
    python docs/studies/make_studies.py draw                         plots and tables of all: seconds

SIMULATED: no language model takes part. A test simulates a part of each study again, and draws everything again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec

from rbank_es.lab.simulated.poisoned_bank import (
    BANKS,
    CHECKED_BANKS,
    CHECKED_JUDGES,
    CHECKS,
    ERRING,
    FALSE_FAILURE,
    FALSE_SUCCESS,
    PICKS,
)
from rbank_es.lab.simulated.repair import AT, REPAIRS
from rbank_es.lab.simulated.repair import BANKS as REPAIRED_BANKS
from rbank_es.lab.simulated.study import CellResult, StudyResult
from rbank_es.lab.simulated.study_run import run_study, study_named
from rbank_es.lab.simulated.swept_assumptions import JUDGES, LEFT_OUT_JUDGES, SAME_TASK
from rbank_es.lab.statistics import differences, holm, interval, paired_permutation, within

PLACE = Path(__file__).resolve().parent
NAMES = ("poisoned-bank", "repair", "assumptions")
JUDGE = {"false_success": 0.5, "false_failure": 0.3}
"""The judge of the declared contrasts."""


def result_of(name: str) -> StudyResult:
    """Return the results that are kept beside this file."""
    return msgspec.json.decode((PLACE / f"{name}.json").read_bytes(), type=StudyResult)


def simulated(name: str, jobs: int) -> None:
    """Live a study and keep its results."""

    def progress(done: int, total: int) -> None:
        print(f"\r{name}: {done} of {total} simulations", end="", file=sys.stderr)

    (PLACE / f"{name}.json").write_text(written(run_study(study_named(name), jobs=jobs, progress=progress)))


def written(result: StudyResult) -> str:
    """Return results as JSON with a line for each cell."""
    head = msgspec.json.encode(msgspec.structs.replace(result, cells=())).decode()
    rows = ",\n".join(msgspec.json.encode(cell).decode() for cell in result.cells)
    return head.removesuffix("[]}") + f"[\n{rows}\n]}}\n"


# ---------------------------------------------------------------- numbers in words


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def spread(values: Sequence[float]) -> str:
    """Return a mean with the half-width of its 95 % t interval."""
    found = interval(values)
    assert found is not None
    assert found.high is not None
    return f"{found.mean:+.3f} ± {found.high - found.mean:.3f}"


def share(values: Sequence[float]) -> str:
    """Return the mean of shares in percent, with its interval; without one where all repetitions have the same."""
    found = within(interval(values), 0, 1)
    assert found is not None
    if found.low is None or found.high is None:
        return f"{100 * found.mean:.0f} % in all"
    return f"{100 * found.mean:.0f} ({100 * found.low:.0f} to {100 * found.high:.0f}) %"


def is_clear(values: Sequence[float]) -> bool:
    """Return whether the 95 % t interval of a mean leaves out 0."""
    found = interval(values)
    assert found is not None
    return found.low is not None and found.high is not None and (found.low > 0 or found.high < 0)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ---------------------------------------------------------------- the poisoned bank: tables


def grid_table(result: StudyResult) -> str:
    """Return the gain over no memory under `append`, by the errors of the judge."""
    rows = [
        [f"{wrong:g}", *(spread(grid_cell(result, "append", wrong, missed).gain) for missed in FALSE_FAILURE)]
        for wrong in FALSE_SUCCESS
    ]
    return table(
        ["failures called a success", *(f"successes called a failure: {each:g}" for each in FALSE_FAILURE)], rows
    )


def grid_cell(result: StudyResult, bank: str, false_success: float, false_failure: float) -> CellResult:
    """Return the cell of a bank and a judge without checks."""
    return result.cell(bank=bank, false_success=false_success, false_failure=false_failure, checks=0)


def banks_table(result: StudyResult) -> str:
    """Return gain, that of the hardest third, and the share of families hurt, by bank and judge."""
    rows = []
    for wrong in FALSE_SUCCESS:
        for bank in BANKS:
            cell = grid_cell(result, bank, wrong, 0.3)
            gains = spread(cell.gain), spread(cell.hardest)
            rows.append([f"{wrong:g}", bank, *gains, share(cell.hurt), f"{mean(cell.items):.0f}"])
    head = ["failures called a success", "bank", "gain", "gain, hardest third", "families hurt", "items"]
    return table(head, rows)


def even_table(result: StudyResult) -> str:
    """Return the share of failures called a success at which the mean gain is 0, and where its interval holds 0."""
    rows = [[bank, *(even_range(result, bank, missed) for missed in FALSE_FAILURE)] for bank in BANKS]
    return table(["bank", *(f"successes called a failure: {each:g}" for each in FALSE_FAILURE)], rows)


def even_range(result: StudyResult, bank: str, false_failure: float) -> str:
    """Return where the mean gain is 0, with the range in which 0 is in its 95 % interval."""
    found = [interval(grid_cell(result, bank, wrong, false_failure).gain) for wrong in FALSE_SUCCESS]
    gains = [(each.mean, each.low, each.high) for each in found if each and each.low is not None and each.high]
    even, first, last = (break_even(each) for each in zip(*gains, strict=True))
    ends = [f"{each:.2f}" if each is not None else "over 1" for each in (even, first, last)]
    return "{} ({} to {})".format(*ends) if first is not None else "over 1"


def break_even(gains: Sequence[float]) -> float | None:
    """Return where gains cross 0, by a straight line between two shares of praised failures; None if they don't."""
    for number in range(1, len(gains)):
        if gains[number] < 0:
            before, after = gains[number - 1], gains[number]
            step = FALSE_SUCCESS[number] - FALSE_SUCCESS[number - 1]
            return FALSE_SUCCESS[number - 1] + step * before / (before - after)
    return None


def checks_table(result: StudyResult) -> str:
    """Return the gain by the verdicts that a person checks."""
    rows = []
    for (wrong, missed), bank in ((judge, bank) for judge in CHECKED_JUDGES for bank in CHECKED_BANKS):
        judge = {"bank": bank, "false_success": wrong, "false_failure": missed}
        rows.append([f"{wrong:g} / {missed:g}", bank, "0", "", "", *checked(result.cell(**judge, checks=0))])
        for cell in result.where(**judge):
            if cell.factors["checks"]:
                people = "err in a fifth" if cell.factors["people"] else "never err"
                shown = [f"{cell.factors['checks']:g}", str(cell.factors["pick"]), people]
                rows.append([f"{wrong:g} / {missed:g}", bank, *shown, *checked(cell)])
    return table(["judge", "bank", "checks", "picked", "people", "gain", "families hurt", "overruled"], rows)


def checked(cell: CellResult) -> list[str]:
    """Return the last columns of the table of checks."""
    return [spread(cell.gain), share(cell.hurt), f"{mean(cell.overruled):.0f} of {mean(cell.checked):.0f}"]


def contrasts_table(result: StudyResult) -> str:
    """Return the declared contrasts, paired by repetition, with p values corrected by Holm."""
    some = {"bank": "append", "checks": CHECKS[1], **JUDGE}
    careful = result.cell(**some, pick="review", people=0.0).gain
    append = grid_cell(result, "append", **JUDGE).gain
    pairs = {
        "dedup less append": (grid_cell(result, "dedup", **JUDGE).gain, append),
        "dedup ranked by support less append": (grid_cell(result, "dedup, by support", **JUDGE).gain, append),
        "append bounded less append": (grid_cell(result, "append, bounded", **JUDGE).gain, append),
        f"{CHECKS[1]} checks by review less as many at random": (
            careful,
            result.cell(**some, pick="random", people=0.0).gain,
        ),
        f"{CHECKS[1]} checks by people who err less by people who don't": (
            result.cell(**some, pick="review", people=ERRING).gain,
            careful,
        ),
    }
    return contrast_rows(pairs)


def contrast_rows(pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Return a table of paired differences."""
    raw = [paired_permutation(*pair, key=name) for name, pair in pairs.items()]
    rows = [
        [name, spread(differences(*pair)), f"{p:.3f}", f"{corrected:.3f}"]
        for (name, pair), p, corrected in zip(pairs.items(), raw, holm(raw), strict=True)
    ]
    return table(["contrast", "difference", "p", "p, corrected"], rows)


# ---------------------------------------------------------------- repair: tables


def before_after(cell: CellResult) -> tuple[list[float], list[float], list[float]]:
    """Return the skill by repetition before the repair, just after it, and at the end."""
    after = 1 if cell.at[1] == AT else 0
    return tuple([curve[place] for curve in cell.curve] for place in (0, after, -1))  # type: ignore[return-value]


def repair_table(result: StudyResult, bank: str) -> str:
    """Return what each repair gives back, at once and at the end."""
    nothing = before_after(result.cell(bank=bank, repair="nothing"))
    right = before_after(result.cell(bank=bank, repair="right from the start"))
    gap = mean(differences(right[1], nothing[1]))
    rows = []
    for repair in REPAIRS:
        cell = result.cell(bank=bank, repair=repair)
        before, after, end = before_after(cell)
        gained = differences(after, before)
        repaired = repair != "right from the start" and any(gained)
        back = [spread(gained), f"{mean(gained) / gap:.0%}"] if repaired else ["", ""]
        overruled = f"{mean(cell.overruled):.0f}" if any(cell.overruled) else ""
        skill = spread(end).removeprefix("+")
        rows.append([repair, overruled, *back, spread(differences(end, after)), skill, *beside_rival(result, cell)])
    head = ["repair", "overruled", "at once", "of the gap", "from then on", "at the end", "less the rival", "rival"]
    return table(head, rows)


def beside_rival(result: StudyResult, cell: CellResult) -> tuple[str, str]:
    """Return how much better a bank is at the end than the emptied one, and after how many tasks that is better."""
    repair = str(cell.factors["repair"])
    if repair in ("right from the start", "emptied", "emptied, better judge"):
        return "", ""
    name = "emptied, better judge" if repair.endswith("better judge") else "emptied"
    other = result.cell(bank=cell.factors["bank"], repair=name)
    return spread(differences(before_after(cell)[2], before_after(other)[2])), overtaken(
        means_at(cell), means_at(other)
    )


def overtaken(own: Mapping[int, float], emptied: Mapping[int, float]) -> str:
    """Return after how many tasks the emptied bank, with the same judge from the repair on, does better for good."""
    ahead = [done for done in own if done > AT and emptied[done] > own[done]]
    # Ahead for good, because curves may touch.
    since = next((done for done in ahead if all(later in ahead for later in own if later >= done)), None)
    return "behind to the end" if since is None else f"ahead after {since - AT}"


def means_at(cell: CellResult) -> dict[int, float]:
    """Return the mean skill by tasks done; just after the repair where there are two."""
    return {done: mean([curve[place] for curve in cell.curve]) for place, done in enumerate(cell.at)}


def repair_contrasts(result: StudyResult) -> str:
    """Return the declared contrasts of the study of repair, at its end."""
    ends = {repair: before_after(result.cell(bank="append", repair=repair))[2] for repair in REPAIRS}
    after = {repair: before_after(result.cell(bank="append", repair=repair))[1] for repair in REPAIRS}
    return contrast_rows(
        {
            "at once: all checked less nothing": (after["all checked"], after["nothing"]),
            "at once: 24 by review less 24 at random": (after["24 checked by review"], after["24 checked at random"]),
            "at the end: all checked less emptied, better judge": (
                ends["all checked, better judge"],
                ends["emptied, better judge"],
            ),
            "at the end: emptied less kept, better judge": (ends["emptied, better judge"], ends["better judge"]),
            "at the end: people err less people don't, better judge": (
                ends["all checked, people err, better judge"],
                ends["all checked, better judge"],
            ),
        }
    )


# ---------------------------------------------------------------- assumptions: tables


def swept_table(result: StudyResult) -> str:
    """Return gain and share of families hurt under each judge, by the assumption that is changed."""
    rows = []
    for name in dict.fromkeys(cell.factors.get("assumption") for cell in result.cells):
        if name is not None:
            cells = [result.cell(judge=judge, assumption=name) for judge in JUDGES]
            rows.append([str(name), *(f"{spread(cell.gain)}, {share(cell.hurt)}" for cell in cells)])
    return table(["assumption", *(f"judge {judge}" for judge in JUDGES)], rows)


def same_task_table(result: StudyResult) -> str:
    """Return the skill on tasks that were learned from, with leave-one-out and without, by what the own lesson adds."""
    rows = []
    for judge, bonus in product(LEFT_OUT_JUDGES, SAME_TASK):
        on, off = (result.cell(judge=judge, same_task=bonus, leave_one_out=each).again for each in ("on", "off"))
        rows.append([judge, f"{bonus:g}", f"{mean(on):.3f}", f"{mean(off):.3f}", spread(differences(off, on))])
    return table(["judge", "own lesson adds", "leave-one-out on", "off", "off less on"], rows)


# ---------------------------------------------------------------- plots

FONT = 'font-family="system-ui, sans-serif"'
INK, MUTED, RULE, PAPER = "#1c2023", "#565e66", "#dcdfdd", "#ffffff"
LINES = ("#1f5f99", "#b3331f", "#2c7f74", "#a67c2e", "#84578f", "#7f8890", "#1c2023", "#6d96bd")
LOW, HIGH = (179, 51, 31), (31, 95, 153)
STAMP = "SIMULATED: says nothing about any language model"


def svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return a picture with its title and the mark that it is simulated."""
    body = "\n".join([text(12, 22, title, 15, INK, weight=600), text(12, 40, STAMP, 11, "#b3331f"), *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'{FONT} role="img" aria-label="{title}. {STAMP}.">\n<rect width="{width}" height="{height}" fill="{PAPER}"/>\n'
        f"{body}\n</svg>\n"
    )


def text(
    x: float, y: float, words: str, size: int = 11, fill: str = MUTED, anchor: str = "start", weight: int = 400
) -> str:
    """Return a line of words."""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"'
    return f'<text {place} text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


def blended(share: float) -> str:
    """Return a colour from red (-1) over white (0) to blue (1)."""
    end, part = (HIGH if share > 0 else LOW), min(1.0, abs(share)) * 0.85
    return "#" + "".join(f"{round(255 + (one - 255) * part):02x}" for one in end)


def poisoned_plot(result: StudyResult) -> str:
    """Draw gain and families hurt, for each bank a map over the errors of the judge."""
    parts, wide, high = [], 36, 26
    for column, bank in enumerate(BANKS):
        x = 70 + column * (len(FALSE_SUCCESS) * wide + 18)
        parts.append(text(x, 66, bank, 12, INK, weight=600))
        for top, what in ((76, "gain"), (196, "hurt")):
            for row, missed in enumerate(FALSE_FAILURE):
                for place, wrong in enumerate(FALSE_SUCCESS):
                    values = getattr(grid_cell(result, bank, wrong, missed), what)
                    parts += heat_cell(x + place * wide, top + row * high, wide, high, what, values)
            for place, wrong in enumerate(FALSE_SUCCESS):
                parts.append(text(x + (place + 0.5) * wide, top + 3 * high + 14, f"{wrong:g}", 10, anchor="middle"))
    for top, what in ((76, "gain"), (196, "hurt, %")):
        parts.append(text(12, top - 2, what, 12, INK, weight=600))
        for row, missed in enumerate(FALSE_FAILURE):
            parts.append(text(62, top + row * high + 17, f"{missed:g}", 10, anchor="end"))
    note = "across: failures called a success; down: successes called a failure; gain in points of skill, "
    note += "grey where 0 is in its 95 % interval"
    parts.append(text(70, 310, note, 11))
    return svg(
        70 + len(BANKS) * (len(FALSE_SUCCESS) * wide + 18),
        322,
        "What a judge that errs makes of a bank: gain over no memory, and families hurt",
        parts,
    )


def heat_cell(x: float, y: float, wide: int, high: int, what: str, values: Sequence[float]) -> list[str]:
    """Draw one cell of a map with its number."""
    found = mean(values)
    fill = blended(found / 0.25) if what == "gain" else blended(-found / 0.8)
    ink = INK if what == "hurt" or is_clear(values) else "#9aa1a8"
    words = f"{100 * found:+.0f}" if what == "gain" else f"{100 * found:.0f}"
    return [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide - 1}" height="{high - 1}" fill="{fill}"/>',
        text(x + wide / 2 - 0.5, y + 17, words, 11, ink, "middle"),
    ]


def checks_plot(result: StudyResult) -> str:
    """Draw the gain over the number of checks, for each judge and bank."""
    parts = []
    for number, (wrong, missed) in enumerate(CHECKED_JUDGES):
        left = 60 + number * 270
        box = Box(left, 76, 220, 190, (0, CHECKS[-1]), (-0.02, 0.24))
        parts += box.frame((0, *CHECKS), (0, 0.05, 0.1, 0.15, 0.2), f"judge {wrong:g} / {missed:g}", "verdicts checked")
        for colour, (bank, pick) in zip(LINES, [(b, p) for b in CHECKED_BANKS for p in PICKS], strict=False):
            judge = {"bank": bank, "false_success": wrong, "false_failure": missed}
            cells = [result.cell(**judge, checks=0)]
            cells += [result.cell(**judge, checks=each, pick=pick, people=0.0) for each in CHECKS]
            parts += box.curve([(float(cell.factors["checks"]), mean(cell.gain)) for cell in cells], colour)
            erring = mean(result.cell(**judge, checks=CHECKS[1], pick=pick, people=ERRING).gain)
            parts.append(box.ring(CHECKS[1], erring, colour))
            if not number:
                row = [(b, p) for b in CHECKED_BANKS for p in PICKS].index((bank, pick))
                parts.append(text(60 + row * 150, 316, f"{bank}, {pick}", 11, colour, weight=600))
    parts.append(text(660, 316, "rings: people who err in a fifth", 11))
    return svg(860, 330, "What checks by people save: gain over no memory by verdicts checked, of 120", parts)


SHOWN = (
    "right from the start",
    "all checked, better judge",
    "all checked, people err, better judge",
    "24 checked by review, better judge",
    "emptied, better judge",
    "better judge",
    "all checked",
    "nothing",
)
"""The repairs that are drawn."""


def repair_plot(result: StudyResult) -> str:
    """Draw the skill from the repair on, for both banks."""
    parts = []
    for number, bank in enumerate(REPAIRED_BANKS):
        box = Box(60 + number * 330, 76, 290, 250, (AT, result.assumptions.tasks), (0.34, 0.66))
        parts += box.frame((120, 150, 180, 210, 240), (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65), bank, "tasks done")
        for colour, repair in zip(LINES, SHOWN, strict=True):
            cell = result.cell(bank=bank, repair=repair)
            points = [(float(done), mean([curve[at] for curve in cell.curve])) for at, done in enumerate(cell.at)]
            parts += box.curve(points, colour)
    for row, (colour, repair) in enumerate(zip(LINES, SHOWN, strict=True)):
        parts.append(text(70 + len(REPAIRED_BANKS) * 330 - 20, 96 + row * 20, repair, 11, colour, weight=600))
    return svg(
        300 + len(REPAIRED_BANKS) * 330,
        380,
        f"Repairing a poisoned bank after {AT} tasks: skill on unseen tasks",
        parts,
    )


class Box(msgspec.Struct, frozen=True):
    """The area of one diagram, and what it shows."""

    left: float
    top: float
    wide: float
    high: float
    xs: tuple[float, float]
    ys: tuple[float, float]

    def x(self, value: float) -> float:
        """Return the place of a value across."""
        return self.left + (value - self.xs[0]) / (self.xs[1] - self.xs[0]) * self.wide

    def y(self, value: float) -> float:
        """Return the place of a value up."""
        return self.top + (self.ys[1] - value) / (self.ys[1] - self.ys[0]) * self.high

    def frame(self, across: Sequence[float], up: Sequence[float], title: str, below: str) -> Iterator[str]:
        """Draw title, grid and numbers."""
        yield text(self.left, self.top - 8, title, 12, INK, weight=600)
        for value in up:
            y, colour = self.y(value), MUTED if value == 0 else RULE
            yield f'<path d="M{self.left:.1f} {y:.1f}h{self.wide:.1f}" stroke="{colour}" fill="none"/>'
            yield text(self.left - 6, y + 4, f"{value:g}", 10, anchor="end")
        for value in across:
            yield text(self.x(value), self.top + self.high + 16, f"{value:g}", 10, anchor="middle")
        yield text(self.left + self.wide / 2, self.top + self.high + 32, below, 11, anchor="middle")

    def curve(self, points: Sequence[tuple[float, float]], colour: str) -> Iterator[str]:
        """Draw a line through points."""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'

    def ring(self, x: float, y: float, colour: str) -> str:
        """Draw a ring at a point."""
        at = f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}"'
        return f'<circle {at} r="4" fill="{PAPER}" stroke="{colour}" stroke-width="2"/>'


# ---------------------------------------------------------------- the documents


def drawn() -> dict[str, str]:
    """Return plots and documents by file name, as the kept results say."""
    poisoned, repair, swept = results = [result_of(name) for name in NAMES]
    tables = {
        "grid": grid_table(poisoned),
        "even": even_table(poisoned),
        "banks": banks_table(poisoned),
        "checks": checks_table(poisoned),
        "contrasts": contrasts_table(poisoned),
        "repair append": repair_table(repair, "append"),
        "repair contrasts": repair_contrasts(repair),
        "swept": swept_table(swept),
        "same task": same_task_table(swept),
    }
    files = {
        "poisoned-bank.svg": poisoned_plot(poisoned),
        "poisoned-bank-checks.svg": checks_plot(poisoned),
        "repair.svg": repair_plot(repair),
    }
    return files | {
        f"{result.study}.md": with_tables((PLACE / f"{result.study}.md").read_text(), tables, result.repetitions)
        for result in results
    }


def with_tables(document: str, tables: Mapping[str, str], repetitions: int) -> str:
    """Return a document with its tables replaced, each between two comments, and marked as simulated."""
    interval = "± the half of a 95 % t interval; of shares the interval itself, within 0 and 100 %"
    mark = f"*SIMULATED: means over {repetitions} worlds, {interval}.*\n\n"

    def replaced(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n{mark}{tables[found[1]]}<!-- end of table -->"

    return re.sub(r"<!-- table: ([\w ]+) -->\n.*?<!-- end of table -->", replaced, document, flags=re.DOTALL)


def main(arguments: Sequence[str]) -> None:
    """Live a study, or draw all."""
    match arguments:
        case ["run", name]:
            simulated(name, 1)
        case ["run", name, "--jobs", jobs]:
            simulated(name, int(jobs))
        case ["draw"]:
            for name, content in drawn().items():
                (PLACE / name).write_text(content)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
