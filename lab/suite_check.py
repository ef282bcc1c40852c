"""The check of a suite: whether each task has one right answer, which can be missed and isn't given away.

Of each task: the gold query can be read and run, finds rows, leaves no tie at a LIMIT, finds the stored answer, finds
the same in a second engine, and differs from a plausible wrong query; the question doesn't hold the answer; level and
family are named. Rows are compared as the judge `gold` compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from rbank_es import limits
from rbank_es.errors import QueryFailed, QueryRefused
from rbank_es.judging.gold_answers import gold_of
from rbank_es.judging.result_comparison import compare_results
from rbank_es.judging.run_outcome import plain
from rbank_es.lab.leading_questions import given_away, named_properties
from rbank_es.lab.query_mistakes import plausible_mistakes
from rbank_es.lab.task_suite import Suite
from rbank_es.limits import experiment_limits
from rbank_es.loop.tasks import Task
from rbank_es.sparql.data_source import Source, dataset_of
from rbank_es.sparql.engines.query_engine import Caps, QueryEngine
from rbank_es.sparql.guard import Checked
from rbank_es.sparql.parser.parsed_query import ParsedQuery, parse_query
from rbank_es.sparql.parser.tokens import Edit, rewritten
from rbank_es.sparql.parser.tree import Selection, projected, selections
from rbank_es.sparql.results import Answer
from rbank_es.system.progress import OnProgress, reported

NOT_RUN = "not run: its endpoint is only asked if you say so"


class Flaw(msgspec.Struct, frozen=True):
    """A fault of a task. `code` is stable, for programs.

    The codes: no_gold, unreadable_gold, failed_gold, empty_gold, too_many_rows, nameless_rows, tie_at_limit,
    wrong_answer, second_engine_failed, engines_differ, misleading_failed, misleading_right, no_trap, gives_answer_away,
    names_property, unordered_gold, no_level, no_family, repeated_question.
    """

    code: str
    message: str


class TaskCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of checking one task."""

    task: str
    level: int | None = None
    family: str | None = None
    rows: int | None = None
    """Rows of the gold query; None if it was not run."""
    missed_by: str = ""
    """The mistake that gives another answer: `the misleading query`, or one of `plausible_mistakes`."""
    note: str = ""
    flaws: tuple[Flaw, ...] = ()


class SuiteCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of checking a suite."""

    suite: str
    digest: str
    tasks: tuple[TaskCheck, ...]
    notes: tuple[str, ...] = ()
    """What is no fault, and worth knowing: families of one task."""

    @property
    def failing(self) -> tuple[TaskCheck, ...]:
        """The tasks that have flaws."""
        return tuple(each for each in self.tasks if each.flaws)


class EnginePair(NamedTuple):
    """The source that a suite's queries are run on, and a second engine over the same data, if there is one."""

    source: Source
    second: QueryEngine | None = None


def check_suite(
    suite: Suite,
    engines: Callable[[Task], EnginePair | None],
    *,
    timeout_s: float = limits.QUERY_TIME_S,
    progress: OnProgress | None = None,
) -> SuiteCheck:
    """Return the outcome of checking every task.

    `engines` gives what a task's queries are run on; None leaves them unrun. `timeout_s` is the time of one query.
    """
    questions = Counter(plain(task.question) for task in suite.tasks)
    checked: list[TaskCheck] = []
    for task in reported(suite.tasks, progress):
        found = check_task(task, engines(task), timeout_s=timeout_s)
        if questions[plain(task.question)] > 1:
            again = Flaw("repeated_question", "another task of the suite asks the same")
            found = msgspec.structs.replace(found, flaws=(*found.flaws, again))
        checked.append(found)
    return SuiteCheck(suite=suite.name, digest=suite.digest, tasks=tuple(checked), notes=tuple(_notes(suite)))


def check_task(task: Task, engines: EnginePair | None, *, timeout_s: float = limits.QUERY_TIME_S) -> TaskCheck:
    """Return the outcome of checking one task, all by itself."""
    checked = TaskCheck(task=task.id, level=task.level, family=task.family)
    flaws = list(_unnamed(task))
    if task.gold_sparql is None:
        flaws.append(Flaw("no_gold", "it has no gold query, so nobody can tell which answer is right"))
        return msgspec.structs.replace(checked, flaws=tuple(flaws))
    parsed = _parsed(task.gold_sparql, engines.source if engines else None)
    if isinstance(parsed, Flaw):
        return msgspec.structs.replace(checked, flaws=(*flaws, parsed))
    flaws += _of_text(task, parsed)
    if engines is None:
        return msgspec.structs.replace(checked, flaws=tuple(flaws), note=NOT_RUN)
    trial = _Trial(task, parsed, engines, timeout_s)
    flaws += trial.flaws()
    return msgspec.structs.replace(
        checked,
        rows=len(trial.gold.rows) if trial.gold is not None else None,
        missed_by=trial.missed_by,
        flaws=tuple(flaws),
    )


def gold_flaw(task: Task, source: Source) -> Flaw | None:
    """Return why no run of a task can be scored by its gold query, None if it can be, or if it has none.

    The query is run on local data alone: an endpoint isn't asked.
    """
    if task.gold_sparql is None:
        return None
    parsed = _parsed(task.gold_sparql, source)
    if isinstance(parsed, Flaw):
        return parsed
    if source.ontology is None:
        return None
    return next(_Trial(task, parsed, EnginePair(source), limits.QUERY_TIME_S).flaws_of_gold(), None)


def _parsed(gold: str, source: Source | None) -> ParsedQuery | Flaw:
    try:
        return parse_query(gold, source.surroundings.prefixes if source is not None else None)
    except QueryRefused as refused:
        return Flaw("unreadable_gold", f"the gold query can't be read: {refused}")


def _notes(suite: Suite) -> Iterator[str]:
    lonely = [name for name, ids in suite.families.items() if len(ids) == 1]
    if lonely:
        shown = ", ".join(lonely[: experiment_limits.FAMILIES_NAMED]) + (
            ", …" if len(lonely) > experiment_limits.FAMILIES_NAMED else ""
        )
        number = f"{len(lonely)} families have" if len(lonely) > 1 else "1 family has"
        yield f"{number} one task, from which no lesson can help another: {shown}"


# ---------------------------------------------------------------- what is written


def _unnamed(task: Task) -> Iterator[Flaw]:
    if task.level is None:
        yield Flaw("no_level", "it names no level, 1 to 5")
    if task.family is None:
        yield Flaw("no_family", "it names no family: the tasks that need the same lesson")


def _of_text(task: Task, parsed: ParsedQuery) -> Iterator[Flaw]:
    """Yield the flaws of question and gold query that show without data."""
    if named := named_properties(task.question, parsed):
        yield Flaw("names_property", f"the question names a property of the gold query: {', '.join(named)}")
    if task.ordered and not parsed.tree.body.ordered:
        yield Flaw("unordered_gold", "the order of its rows matters, and the gold query has no ORDER BY")
    stored = gold_of(None, task.answer)
    if stored is not None and stored.answer is not None and (row := given_away(task.question, stored.answer)):
        yield Flaw("gives_answer_away", f"the question holds a row of the answer: {row}")


# ---------------------------------------------------------------- what the data say


class _NoAnswer(Exception):
    """A query without a usable answer; the text says why."""


class _Trial:
    """One task's queries, run on the engines."""

    def __init__(self, task: Task, parsed: ParsedQuery, engines: EnginePair, timeout_s: float) -> None:
        self._task, self._parsed, self._engines, self._timeout_s = task, parsed, engines, timeout_s
        self.gold: Answer | None = None
        self._checked: Checked | None = None
        self.missed_by = ""

    def flaws(self) -> Iterator[Flaw]:
        """Run the task's queries, and yield what is wrong with it."""
        yield from self.flaws_of_gold()
        gold, checked = self.gold, self._checked
        # By rows that are missing, cut or empty nothing more can be told.
        if gold is None or checked is None or gold.truncated or not (gold.rows or gold.form == "ask"):
            return
        yield from self._of_ties()
        yield from self._of_answer(gold)
        yield from self._of_second_engine(checked, gold)
        yield from self._of_mistakes(gold)

    def flaws_of_gold(self) -> Iterator[Flaw]:
        """Run the gold query, and yield the flaws for which its rows don't decide which answer is right."""
        try:
            self._checked, self.gold = self._run(self._task.gold_sparql or "")
        except _NoAnswer as reason:
            yield Flaw("failed_gold", f"the gold query gives no answer: {reason}")
        else:
            yield from self._of_rows(self.gold)

    def _run(self, query: str) -> tuple[Checked, Answer]:
        try:
            return self._engines.source.query(query, rows=limits.QUERY_ROWS, timeout_s=self._timeout_s)
        except (QueryRefused, QueryFailed) as error:
            raise _NoAnswer(str(error)) from None

    def _of_rows(self, gold: Answer) -> Iterator[Flaw]:
        if gold.truncated:
            yield Flaw("too_many_rows", f"the gold query finds more than {limits.QUERY_ROWS:,} rows")
        elif gold.form != "ask" and not gold.rows:
            yield Flaw("empty_gold", "the gold query finds nothing, as most wrong queries do")
        elif any(all(cell is None or cell.kind == "bnode" for cell in row) for row in gold.rows):
            yield Flaw("nameless_rows", "a row holds nothing but blank nodes, which are all equal in a comparison")

    def _of_ties(self) -> Iterator[Flaw]:
        for upwards, downwards in broken_ties(self._parsed):
            try:
                first, second = self._run(upwards)[1], self._run(downwards)[1]
            except _NoAnswer as reason:
                yield Flaw("tie_at_limit", f"whether a tie is at its LIMIT can't be told: {reason}")
                return
            compared = compare_results(first, second)
            if not compared.equal:
                found = "; ".join(map(str, compared.differences))
                yield Flaw("tie_at_limit", f"ORDER BY doesn't decide which rows are within the LIMIT: {found}")
                return

    def _of_answer(self, gold: Answer) -> Iterator[Flaw]:
        stored = gold_of(None, self._task.answer)
        # For a stored answer, `_of_text` has looked already.
        if stored is None and (row := given_away(self._task.question, gold)):
            yield Flaw("gives_answer_away", f"the question holds a row of the answer: {row}")
        if stored is not None and stored.answer is not None:
            compared = compare_results(gold, stored.answer, ordered=bool(self._task.ordered))
            if not compared.equal:
                found = "; ".join(map(str, compared.differences))
                yield Flaw("wrong_answer", f"the gold query doesn't find the stored answer: {found}")
        elif stored is not None and not _holds(gold, stored.words):
            yield Flaw(
                "wrong_answer",
                f"no row of the gold query has the words of the answer: {stored.words[: limits.GIVEN_CHARS]}",
            )

    def _of_second_engine(self, checked: Checked, gold: Answer) -> Iterator[Flaw]:
        if self._engines.second is None:
            return
        caps = Caps(rows=checked.rows, timeout_s=self._timeout_s)
        try:
            other = self._engines.second.run(checked.query, checked.form, caps, dataset_of(checked.parsed.tree))
        except QueryFailed as failed:
            yield Flaw("second_engine_failed", f"the second engine gives no answer: {failed.message}")
            return
        compared = compare_results(other, gold, ordered=bool(self._task.ordered))
        if not compared.equal:
            found = "; ".join(map(str, compared.differences))
            yield Flaw("engines_differ", f"the second engine answers otherwise: {found}")

    def _of_mistakes(self, gold: Answer) -> Iterator[Flaw]:
        if self._task.misleading_sparql is None:
            self.missed_by = self._first_mistake(gold)
            if not self.missed_by:
                yield Flaw("no_trap", "no plausible mistake changes the answer: give a misleading_sparql that does")
            return
        try:
            differs = self._differs(self._task.misleading_sparql, gold)
        except _NoAnswer as reason:
            yield Flaw("misleading_failed", f"the misleading query gives no answer, so it misleads nobody: {reason}")
            return
        self.missed_by = "the misleading query" if differs else ""
        if not differs:
            yield Flaw("misleading_right", "the misleading query finds the right answer")

    def _first_mistake(self, gold: Answer) -> str:
        """Return the name of the first plausible mistake that changes the answer, empty if none does."""
        for name, query in plausible_mistakes(self._parsed):
            try:
                if self._differs(query, gold):
                    return name
            except _NoAnswer:
                # A query without an answer shows nothing about the task: try the next mistake.
                continue
        return ""

    def _differs(self, query: str, gold: Answer) -> bool:
        # As the judge has it: right rows in more columns are right.
        return compare_results(self._run(query)[1], gold, ordered=bool(self._task.ordered)).outcome == "wrong"


def _holds(answer: Answer, words: str) -> bool:
    return any(plain(words) in plain(" ".join(cell.value for cell in row if cell is not None)) for row in answer.rows)


def broken_ties(query: ParsedQuery) -> Iterator[tuple[str, str]]:
    """Yield a pair of queries for each SELECT with a LIMIT or an OFFSET, subselects too.

    Where the answers of a pair differ, the query's own answer depends on the engine.
    """
    for at, selection in _cuts(query):
        columns = projected(selection)
        if columns:
            # Behind the query's own keys, so that only what they leave tied changes places.
            begin = " " if selection.ordered else " ORDER BY "
            upwards, downwards = (
                begin + " ".join(f"{order}(?{name})" for name in columns) + " " for order in ("ASC", "DESC")
            )
            yield rewritten(query.text, [Edit(at, at, upwards)]), rewritten(query.text, [Edit(at, at, downwards)])


def _cuts(query: ParsedQuery) -> Iterator[tuple[int, Selection]]:
    """Yield the offset at which each slice begins, with the SELECT whose rows it cuts."""
    by_offset = {selection.offset: selection for selection in selections(query.tree)}
    depth, current, seen = 0, dict[int, Selection](), set[int]()
    for token in query.tokens:
        depth += token.is_symbol("{", "(", "[") - token.is_symbol("}", ")", "]")
        # A LIMIT belongs to the last SELECT that began at the same depth of brackets.
        if token.offset in by_offset:
            current[depth] = by_offset[token.offset]
        # A slice is one cut, though it may have both words.
        if token.keyword in ("LIMIT", "OFFSET") and depth in current and current[depth].offset not in seen:
            seen.add(current[depth].offset)
            yield token.offset, current[depth]
