"""Checks of reports: everything is computed again from logs, suite and definition, and compared with what is there.

Logs come first: each is verified byte by byte, and its head compared with the one that the report names. A log whose
checksums were all computed again is found by that. If the report was made again as well, recorded scores differ from
those that the answers get now, provided that the source is there. Else only a digest of the report noted before shows
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.bank import Bank
from rbank_es.errors import BadInput, JudgeFailed, LogError, RBankError
from rbank_es.judging.gold_answers import gold_of
from rbank_es.judging.gold_judge import judge_by_gold
from rbank_es.judging.run_outcome import outcome_of
from rbank_es.lab.experiment_definition import BASE
from rbank_es.lab.experiment_folder import ExperimentData, FolderHead, read_experiment
from rbank_es.lab.experiment_plan import trials
from rbank_es.lab.ratings import ratings_place
from rbank_es.lab.report import CONDITIONS, ROWS, report_files
from rbank_es.lab.run_rows import TrialRun
from rbank_es.lab.tamper_evidence import beginning_faults, changed_parts
from rbank_es.lab.trial_place import (
    BANKS,
    DEFINITION,
    ENVIRONMENT,
    RATINGS,
    TrialPlace,
    base_place,
    directory,
    read_part,
)
from rbank_es.limits import experiment_limits
from rbank_es.log import Head
from rbank_es.loop.resources import origin
from rbank_es.system.error_messages import message_of
from rbank_es.system.files import kind_of
from rbank_es.system.progress import OnProgress, reported

if TYPE_CHECKING:
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.data_source import Source


class ReportDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as computed: the file, the place in it, what is there, and what should be there."""

    file: str
    place: str = ""
    found: str = ""
    computed: str = ""

    def __str__(self) -> str:
        where = f"{self.file}, {self.place}" if self.place else self.file
        return f"{where}: {self.found}" + (f", computed again: {self.computed}" if self.computed else "")


class ReportCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check: all differences, logs first; how much was compared; the digest of the whole report.

    `other_code` names the code of the runs where this is other code: by it alone, files may have another form.
    """

    differences: tuple[ReportDifference, ...]
    logs: int
    runs: int
    files: int
    digest: str
    other_code: str = ""

    @property
    def holds(self) -> bool:
        """Whether every log is sound and every number is as computed."""
        return not self.differences


def check_report(folder: Path, source: Source | None = None, progress: OnProgress | None = None) -> ReportCheck:
    """Verify the logs of an experiment's folder, compute its report again, and compare; no model is asked.

    Raises `BadInput` for a folder that holds no experiment or no report, and for a source that the agents didn't ask.
    """
    if kind_of(folder / DEFINITION) is None:
        raise BadInput(f"{folder} is no folder of an experiment: it has no {DEFINITION}")
    if kind_of(folder / CONDITIONS) is None:
        raise BadInput(f"{folder} holds no report: make one first: rbank-es experiment report {folder}")
    try:
        head = FolderHead.of(folder)
    except BadInput as error:
        return _failed([ReportDifference(file="the files beside the banks", found=message_of(error))])
    head.require_source(source)
    recorded = _recorded(folder)
    if recorded.source is not None and source is None:
        raise BadInput(
            f"the report was made with the ontology {recorded.source[:12]}, by which queries were checked: name its "
            "files with --ont"
        )
    # A report that was made without the ontology has no values that depend on it.
    source = source if recorded.source is not None else None
    logs = [*_log_differences(folder, head, recorded, progress)]
    if any(not each.place for each in logs):  # damaged: nothing can be computed from it
        return _failed(logs)
    logs += _beginning_differences(folder, head)
    try:
        data = read_experiment(folder, source)
    except (BadInput, LogError) as error:
        return _failed([*logs, ReportDifference(file="banks", found=message_of(error))])
    files = report_files(data)
    found = [
        *logs,
        *_definition_differences(data),
        *_result_differences(data),
        *(_score_differences(folder, data, source) if source is not None else ()),
        *(each for name, content in files.items() for each in _compared(folder, name, content)),
    ]
    # Of digests: bytes that moved from one file to the next would not change a digest of all bytes.
    digest = sha256(b"".join(sha256(content).digest() for content in files.values())).hexdigest()
    sound = sum(bool(each.head) for each in data.trials)
    return ReportCheck(
        differences=tuple(found),
        logs=sound,
        runs=len(data.rows),
        files=len(files),
        digest=digest,
        other_code=_other_code(data),
    )


def _other_code(data: ExperimentData) -> str:
    own = origin()
    ran = tuple(own[name] or "" for name in ("release", "commit"))
    return "" if data.code == ran else f"{data.code[0]} ({data.code[1][:12] or 'no commit'})"


def _failed(differences: list[ReportDifference]) -> ReportCheck:
    return ReportCheck(differences=tuple(differences), logs=0, runs=0, files=0, digest="")


# ---------------------------------------------------------------- logs


def _log_differences(
    folder: Path, head: FolderHead, recorded: _Recorded, progress: OnProgress | None
) -> Iterator[ReportDifference]:
    """Yield the faults of the logs: a damaged one has no place, a changed one that of the head."""
    heads = {each.place: each.head for each in recorded.trials}
    planned = trials(head.experiment)
    yield from _log_difference(lambda: ratings_place(folder), RATINGS, recorded.ratings)
    # The report names no head of the common bank: the logs of the trials do (`_beginning_differences`).
    yield from _log_difference(lambda: directory(folder / BANKS, base_place(folder)), f"{BANKS}/{BASE}", "")
    for trial in reported(planned, progress):
        place = TrialPlace(folder, trial)
        name = str(place.bank.relative_to(folder))
        yield from _log_difference(lambda place=place: place.found_bank, name, heads.get(name, ""))  # type: ignore[misc]


def _log_difference(find: Callable[[], Path | None], name: str, recorded: str) -> Iterator[ReportDifference]:
    noted: Head | None = None
    with suppress(BadInput):
        noted = Head.parse(recorded)
    try:
        path = find()
        if path is None:
            if recorded:
                yield ReportDifference(
                    file=name, place="the log", found="it is missing", computed=f"the report names {recorded}"
                )
            return
        with Bank.open(path) as bank:
            seen = bank.log.verify()
            torn = f"; {seen.torn.size_bytes:,} bytes in {seen.torn.where} are no whole group" if seen.torn else ""
            if recorded and str(seen.head) != recorded:
                where = _changed_at(bank, noted) + torn
                yield ReportDifference(file=name, place=where, found=str(seen.head), computed=recorded)
    except (RBankError, OSError) as error:
        # Damage is a finding of the check, and does not end it.
        yield ReportDifference(file=name, found=message_of(error) if isinstance(error, RBankError) else str(error))


def _beginning_differences(folder: Path, head: FolderHead) -> list[ReportDifference]:
    """Return what doesn't fit between the common bank and the beginnings of its trials."""
    faults = beginning_faults(folder, trials(head.experiment))
    return [ReportDifference(file=each.place, place="its beginning", found=each.said) for each in faults]


def _definition_differences(data: ExperimentData) -> Iterator[ReportDifference]:
    """Yield the parts of the definition that were changed after the trials recorded it, and another environment."""
    recorded, now = data.recorded, data.experiment
    for name in changed_parts(recorded, now):
        is_now, was = (_value(msgspec.to_builtins(getattr(each, name))) for each in (now, recorded))
        said = f"{is_now}, where the trials recorded {was} as they began"
        yield ReportDifference(file=DEFINITION, place=f"{name}, changed after the runs", found=said)
    if data.original not in (None, data.files[ENVIRONMENT]):
        said = f"it was changed after the trials began: they recorded the digest {str(data.original)[:12]}"
        yield ReportDifference(file=ENVIRONMENT, found=said)


def _result_differences(data: ExperimentData) -> Iterator[ReportDifference]:
    """Yield the trials whose results are not those that they recorded at their end."""
    for trial in data.trials:
        if trial.altered_rows:
            yield ReportDifference(file=trial.place, place="its results", found=trial.why)


def _changed_at(bank: Bank, noted: Head | None) -> str:
    """Return where a log departs from a head that was noted for it."""
    if noted is None:
        return "the head, which the report gives in no form that a head has"
    if noted.seq > bank.position:
        return f"its end: {noted.seq - bank.position:,} events are missing"
    if bank.log.head(noted.seq) == noted:
        return f"its end: {bank.position - noted.seq:,} events came later"
    return f"a position up to {noted.seq:,}: it is another history"


class _RecordedTrial(msgspec.Struct):
    place: str
    head: str


class _Recorded(msgspec.Struct):
    """The facts of a report that a check needs before it computes anything: its ontology and its logs."""

    source: str | None = None
    ratings: str = ""
    trials: list[_RecordedTrial] = []


def _recorded(folder: Path) -> _Recorded:
    """Return the names in a report; none of one that can't be read."""
    with suppress(BadInput, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(read_part(folder, CONDITIONS, experiment_limits.REPORT_FILE_BYTES), type=_Recorded)
    return _Recorded()


# ---------------------------------------------------------------- files


def _compared(folder: Path, name: str, computed: bytes) -> Iterator[ReportDifference]:
    """Yield the differences of a file from its content as computed."""
    if kind_of(folder / name) is None:
        yield ReportDifference(file=name, found="it is missing")
        return
    try:
        there = read_part(folder, name, experiment_limits.REPORT_FILE_BYTES)
    except BadInput as error:
        yield ReportDifference(file=name, found=message_of(error))
        return
    if there == computed:
        return
    found = [*_inside(name, there, computed)]
    yield from found or [ReportDifference(file=name, found="other bytes, such as blanks between values")]


def _inside(name: str, there: bytes, computed: bytes) -> Iterator[ReportDifference]:
    if name.endswith(".json"):
        yield from _of_json(name, "", _decoded(there), msgspec.json.decode(computed))
        return
    lines = zip_longest(there.splitlines(), computed.splitlines())
    for at, (found, wanted) in enumerate(lines, 1):
        if found == wanted:
            continue
        if name == ROWS and found is not None and wanted is not None:
            yield from _of_json(name, f"line {at:,}", _decoded(found), msgspec.json.decode(wanted))
        else:
            yield ReportDifference(file=name, place=f"line {at:,}", **_beside(_line(found), _line(wanted)))


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"no JSON: {error}"


def _line(line: bytes | None) -> str:
    return "no line" if line is None else line.decode(errors="replace")


def _of_json(file: str, place: str, found: Any, computed: Any) -> Iterator[ReportDifference]:
    """Yield the values in which two documents differ, each by its path."""
    # Types too, because 1, 1.0 and true are equal in Python.
    if found == computed and type(found) is type(computed):
        return
    if isinstance(found, dict) and isinstance(computed, dict):
        for key in [*computed, *(key for key in found if key not in computed)]:
            inner = f"{place}.{key}" if place else str(key)
            yield from _of_json(file, inner, found.get(key, _NOTHING), computed.get(key, _NOTHING))
    elif isinstance(found, list) and isinstance(computed, list):
        for at, (one, other) in enumerate(zip_longest(found, computed, fillvalue=_NOTHING)):
            yield from _of_json(file, f"{place}[{at}]", one, other)
    else:
        yield ReportDifference(file=file, place=place, **_beside(_value(found), _value(computed)))


_NOTHING = object()


def _value(value: Any) -> str:
    return "nothing" if value is _NOTHING else msgspec.json.encode(value).decode()


def _beside(found: str, computed: str) -> Mapping[str, str]:
    """Return two texts cut to their first difference, with some of what is before it."""
    at = next(
        (i for i, (a, b) in enumerate(zip(found, computed, strict=False)) if a != b), min(len(found), len(computed))
    )
    start = max(0, at - experiment_limits.REPORT_DIFFERENCE_CHARS // 2)
    end = start + experiment_limits.REPORT_DIFFERENCE_CHARS
    before = "…" if start else ""
    return {"found": before + found[start:end], "computed": before + computed[start:end]}


def _score_differences(folder: Path, data: ExperimentData, source: Source) -> Iterator[ReportDifference]:
    """Yield the runs whose answer, compared once more with the right one, gets another score than the recorded one.

    A score is an event, so a log that somebody wrote from its beginning to its end may claim any. It needs the source
    that the agents asked, and no model.
    """
    tasks = {task.id: task for task in data.suite.tasks}
    rows: dict[tuple[str, int, int], list[TrialRun]] = {}
    for row in data.rows:
        if row.score is not None:
            rows.setdefault((row.condition, row.order, row.repetition), []).append(row)
    for trial in data.trials:
        own = rows.get((trial.condition, trial.order, trial.repetition))
        if own:
            with Bank.open(folder / trial.place) as bank:
                for row in own:
                    again = _scored(bank, row.run, tasks[row.task_id], source)
                    if again not in (None, row.score):
                        where = f"the score of {row.run}"
                        yield ReportDifference(file=trial.place, place=where, found=str(row.score), computed=str(again))


def _scored(bank: Bank, run: str, task: Task, source: Source) -> str | None:
    """Return the verdict of the right answer on a run; None where it can't be known, such as after a time limit."""
    gold = gold_of(task.gold_sparql, task.answer, task.ordered)
    if gold is None:
        return None
    try:
        found = judge_by_gold(outcome_of(bank, run), gold, source).verdict
    except JudgeFailed:
        return None
    return None if found == "undecided" else found
