// Rows of runs as of a position, computed from the rows of an exported bank; the served page gets the same from SQL.
import { isThere, standing } from "./time_model.js";
import { cut } from "./visible_text.js";

const LIST_CHARS = 300;
// Ranks of verdicts, weakest first: a stronger one stands over a weaker.
const AUTHORITIES = ["undecided", "a check", "a model", "a check, sure", "the right answer", "a person"];

/** Return the standing verdict of a run for a purpose; undefined where there is none. */
export function verdictOf(bank, run, purpose, position) {
  return bank.ofRun.verdicts.get(run)?.find((row) => row.purpose === purpose && isThere(row, position));
}

/** Return the rows that began by a position. */
export function rowsUpto(rows, position) {
  return (rows ?? []).filter((row) => row.from_seq <= position);
}

/** Return the end of a run that holds at a position; undefined where it has not ended. */
export function endOf(bank, run, position) {
  return standing(bank.ofRun.ends.get(run), position);
}

/** Return the row of a run that began by the position, its texts whole. */
export function wholeRunRow(bank, start, position) {
  const { run } = start;
  const by = (kind) => rowsUpto(bank.ofRun[kind].get(run), position);
  const end = endOf(bank, run, position);
  const [calls, tools, contexts] = [by("calls"), by("tools"), by("contexts")];
  const spent = calls.length
    ? { calls: calls.length, in: total(calls, "tokens_in"), out: total(calls, "tokens_out") }
    : { calls: end?.lm_calls ?? null, in: end?.tokens_in ?? null, out: end?.tokens_out ?? null };
  return {
    run,
    task: start.task,
    task_id: start.task_id,
    started: start.from_seq,
    time: start.started_at,
    imported: start.imported_at,
    model: start.model,
    ontology: start.ontology ?? start.endpoint,
    executor: start.executor,
    outcome: end?.outcome ?? null,
    error_code: end?.error_code ?? null,
    error: end?.error ?? null,
    ...judged(bank, run, position),
    steps: by("steps").length,
    tools: tools.length,
    calls: spent.calls,
    tokens: spent.in === null && spent.out === null ? null : (spent.in ?? 0) + (spent.out ?? 0),
    items: contexts.length ? Math.max(...contexts.map((row) => row.items_n)) : null,
    flags: flagCount(tools, contexts, bank.data.flags),
    scripted: Boolean(start.scripted),
    simulated: Boolean(start.simulated),
    experiment: start.experiment,
    condition: start.condition,
  };
}

function judged(bank, run, position) {
  const learning = verdictOf(bank, run, "learning", position);
  const scoring = verdictOf(bank, run, "scoring", position);
  return {
    verdict: learning?.verdict ?? null,
    authority: learning ? AUTHORITIES[learning.rank] : null,
    judge: learning?.judge ?? null,
    kind: learning?.kind ?? null,
    sure: learning ? Boolean(learning.sure) : null,
    overruled: learning ? Boolean(learning.overruled) : null,
    reason: learning ? bank.judgment.get(learning.judged_seq).reason : null,
    score: scoring?.verdict ?? null,
    score_reason: scoring ? bank.judgment.get(scoring.judged_seq).reason : null,
  };
}

/** Return how many red flags calls of tools and contexts raise. */
export function flagCount(tools, contexts, flags) {
  const large = tools.filter((row) => (row.chars ?? 0) > flags.return_chars).length;
  const crowded = contexts.filter((row) => row.items_n > flags.items_injected).length;
  const over = (row) => (row.chars > flags.context_chars) + (row.l2_budget > flags.l2_chars);
  return large + crowded + contexts.reduce((sum, row) => sum + over(row), 0);
}

/** Return the sum of a column, of rows that recorded it; null where none did. */
export function total(rows, name) {
  const known = rows.filter((row) => row[name] !== null);
  return known.length ? known.reduce((sum, row) => sum + row[name], 0) : null;
}

/** Return the rows of all runs that began by the position, oldest first, their texts whole. */
export function runRows(bank, position) {
  if (bank.runsAt?.position !== position) {
    const begun = bank.starts.filter((start) => start.from_seq <= position);
    bank.runsAt = { position, rows: begun.map((start) => keptRow(bank, start, position)) };
  }
  return bank.runsAt.rows;
}

// A row is the same until the next event about its run, and at most positions all but one run are past their last.
function keptRow(bank, start, position) {
  const kept = bank.keptRuns.get(start.run);
  if (kept && !hasTurned(bank, start, kept.position, position)) return kept.row;
  const row = wholeRunRow(bank, start, position);
  bank.keptRuns.set(start.run, { position, row });
  return row;
}

function hasTurned(bank, start, ...positions) {
  const [from, to] = [Math.min(...positions), Math.max(...positions)];
  return from < to && turnsOf(bank, start).some((seq) => from < seq && seq <= to);
}

/** Return the positions at which the row of a run may change. */
function turnsOf(bank, start) {
  if (!bank.turns.has(start.run)) {
    const rows = Object.values(bank.ofRun).flatMap((groups) => groups.get(start.run) ?? []);
    const seqs = [start, ...rows].flatMap((row) => (row.to_seq === null ? [row.from_seq] : [row.from_seq, row.to_seq]));
    // What was recorded of a run before its start counts from the start on.
    bank.turns.set(start.run, seqs.filter((seq) => seq >= start.from_seq));
  }
  return bank.turns.get(start.run);
}

/** Return a row as lists show it: texts of at most 300 characters. */
export function listedRun(row) {
  return { ...row, task: short(row.task), reason: short(row.reason), score_reason: short(row.score_reason), error: short(row.error) };
}

/** Return a text as lists show it; null for null. */
export function short(text) {
  return text === null ? null : cut(text, LIST_CHARS);
}
