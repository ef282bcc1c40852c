// Answers about an exported bank as of a position: the same as those that a served bank gives. Pure.
import { itemRows, listedItem, stateOf, wholeItemRow } from "./item_rows.js";
import { compared, countedBy, hasWords, isWanted, OUTCOMES, pageOf, POLARITIES, sortedRows, STATES, VERDICT_FILTER, wordsOf } from "./row_list.js";
import { endOf, flagCount, listedRun, rowsUpto, runRows, short } from "./run_rows.js";
import { STOPS } from "./time_model.js";
import { commandOn, failureReason } from "./words.js";

/** Return what the bank is, as of a position. */
export function bankAnswer(bank, position) {
  const runs = runRows(bank, position);
  const decided = runs.filter(isDecided);
  return {
    ...bank.data.bank,
    ...bank.data.marks,
    at_time: bank.timeAt(position),
    event: position ? { type: bank.types[position - 1], run: bank.runAt(position) } : null,
    ...stopsAround(bank, position),
    counts: {
      events: position,
      runs: runs.length,
      items: countedStates(itemRows(bank, position)),
      judged: decided.length,
      successes: decided.filter(isSuccess).length,
    },
    flags: bank.data.flags,
    simulated: runs.filter((row) => row.simulated).length,
    scripted: runs.filter((row) => row.scripted).length,
    policies: policiesAt(bank, position),
  };
}

function policiesAt(bank, position) {
  const open = bank.tables.policy_choices.filter((row) => row.from_seq <= position && (row.to_seq === null || row.to_seq > position));
  return open.map(({ kind, name, version }) => ({ kind, name, version })).sort((a, b) => (a.kind < b.kind ? -1 : 1));
}

function stopsAround(bank, position) {
  let [before, after] = [null, null];
  for (let seq = position - 1; seq > 0 && before === null; seq -= 1) if (STOPS.has(bank.types[seq - 1])) before = seq;
  for (let seq = position + 1; seq <= bank.head && after === null; seq += 1) if (STOPS.has(bank.types[seq - 1])) after = seq;
  return { before, after };
}

const countedStates = (items) => countedBy(items, ({ state }) => state);

const isDecided = (row) => row.verdict === "success" || row.verdict === "failure";
const isScored = (row) => row.score === "success" || row.score === "failure";
const isSuccess = (row) => row.verdict === "success";

const GROWTH_POINTS = 200;
const SHOWN_RUNS = 240;
const GROUPS = 60;
const GROUP_RUNS = 20;
const SHOWN_FAILURES = 5;
const SHOWN_USED = 10;

/** Return the figures of the overview. */
export function overviewAnswer(bank, position) {
  const [runs, items] = [runRows(bank, position), itemRows(bank, position)];
  const decided = runs.filter(isDecided);
  const half = Math.floor(decided.length / 2);
  const tally = (rows) => ({ judged: rows.length, successes: rows.filter(isSuccess).length });
  const newest = [...runs].reverse();
  const failures = newest.filter((row) => row.verdict === "failure" && row.outcome !== "failed").slice(0, SHOWN_FAILURES);
  const failed = failedRuns(bank, newest);
  const used = items.filter((item) => item.uses).sort((a, b) => b.uses - a.uses || b.born - a.born || compared(a.id, b.id));
  const scored = runs.filter(isScored);
  return {
    learning: { ...tally(decided), halves: [tally(decided.slice(0, half)), tally(decided.slice(half))] },
    scoring: { scored: scored.length, successes: scored.filter((row) => row.score === "success").length },
    items: countedStates(items),
    // Those of runs that never began too.
    flags: flagCount(rowsUpto(bank.tables.tool_calls, position), rowsUpto(bank.tables.contexts, position), bank.data.flags),
    runs: newest.slice(0, SHOWN_RUNS).map(({ run, verdict, score, started }) => ({ run, verdict, score, started })),
    older: groupsOf(runs),
    failures: failures.map((row) => ({ ...listedRun(row), answer: short(endOf(bank, row.run, position)?.answer ?? null), given: givenItems(bank, row.run, position) })),
    failed: { total: failed.length, rows: failed.slice(0, SHOWN_FAILURES) },
    most_used: used.slice(0, SHOWN_USED).map(({ id, title, uses, wins, losses }) => ({ id, title, uses, wins, judged: wins + losses })),
    wants_look: runs.filter(wantsLook).length + failed.length + items.filter((item) => item.state === "pending").length,
    growth: growthOf(bank, position),
  };
}

/** Return the verdicts of the runs before those that are marked alone, counted in equal groups, oldest first. */
function groupsOf(runs) {
  const older = Math.max(0, runs.length - SHOWN_RUNS);
  const size = Math.max(GROUP_RUNS, Math.ceil(older / GROUPS));
  return Array.from({ length: Math.ceil(older / size) }, (_, i) => {
    const [begin, end] = [i * size, Math.min((i + 1) * size, older)];
    return { runs: end - begin, after: runs[end].run, verdicts: countedBy(runs.slice(begin, end), ({ verdict }) => verdict ?? "none") };
  });
}

/** Return whether a person should look at a run: its verdict and score differ, or it ended without a verdict. */
export function wantsLook(row) {
  return (isDecided(row) && isScored(row) && row.verdict !== row.score) || (row.outcome !== null && row.outcome !== "failed" && row.verdict === null);
}

/** Return the errors in which runs ended, the most frequent first; `newest` are all runs, newest first. */
export function failedRuns(bank, newest) {
  const found = new Map();
  for (const { run, task, verdict, outcome, error_code: code, error } of newest) {
    if (outcome !== "failed" || verdict === "success") continue;
    const reason = failureReason(code, error);
    const kind = reason.replace(/[0-9]+/g, "0");
    if (!found.has(kind)) found.set(kind, { reason: short(reason), runs: 0, run, task: short(task), command: commandOn("show", [bank.data.bank.argument, run]) });
    found.get(kind).runs += 1;
  }
  return [...found.values()].sort((a, b) => b.runs - a.runs);
}

function growthOf(bank, position) {
  const points = Math.min(GROWTH_POINTS, position);
  const change = new Map();
  for (const row of bank.tables.item_states) {
    if (row.state !== "active" || row.from_seq > position) continue;
    change.set(row.from_seq, (change.get(row.from_seq) ?? 0) + 1);
    if (row.to_seq !== null && row.to_seq <= position) change.set(row.to_seq, (change.get(row.to_seq) ?? 0) - 1);
  }
  const changes = [...change].sort((a, b) => a[0] - b[0]);
  let [active, next] = [0, 0];
  return Array.from({ length: points }, (_, i) => {
    const seq = Math.floor((position * (i + 1)) / points);
    for (; next < changes.length && changes[next][0] <= seq; next += 1) active += changes[next][1];
    return { seq, active };
  });
}

/** Return the items that a run was given, in order, each with its title and its state at the position. */
export function givenItems(bank, run, position) {
  const first = new Map();
  for (const row of bank.given.get(run) ?? []) {
    if (row.from_seq <= position) first.set(row.item, Math.min(row.from_seq, first.get(row.item) ?? Infinity));
  }
  const order = [...first].sort((a, b) => a[1] - b[1] || compared(a[0], b[0]));
  return order.map(([id]) => ({ id, title: wholeItemRow(bank, id, position)?.title ?? null, state: stateOf(bank, id, position) }));
}

const RUN_COLUMNS = ["started", "verdict", "score", "steps", "tools", "calls", "tokens", "items", "flags"];

/** Return a page of the list of runs. */
export function runsAnswer(bank, position, asked) {
  const words = wordsOf(asked.q);
  const using = asked.item ? new Set((bank.exposures.get(asked.item) ?? []).filter((row) => row.from_seq <= position).map((row) => row.run)) : null;
  const rows = runRows(bank, position).filter(
    (row) =>
      isWanted(row.verdict, asked.verdict, VERDICT_FILTER) &&
      isWanted(row.score, asked.score, VERDICT_FILTER) &&
      isWanted(row.outcome, asked.outcome, OUTCOMES) &&
      isWanted(row.model, asked.model) &&
      (using === null || using.has(row.run)) &&
      hasWords(words, [row.run, row.task_id, row.task]),
  );
  const page = pageOf(sortedRows(rows, asked.sort || "-started", RUN_COLUMNS, "started", "run"), asked, "run");
  return { ...page, rows: page.rows.map(listedRun) };
}

const ITEM_COLUMNS = ["born", "title", "state", "polarity", "src", "support", "uses", "wins", "losses"];

/** Return a page of the list of items. */
export function itemsAnswer(bank, position, asked) {
  const words = wordsOf(asked.q);
  const rows = itemRows(bank, position).filter(
    (row) =>
      isWanted(row.state, asked.state, STATES) &&
      isWanted(row.polarity, asked.polarity, POLARITIES) &&
      (!asked.domain || row.domains.includes(asked.domain)) &&
      hasWords(words, [row.id, row.title, row.desc, row.content]),
  );
  const page = pageOf(sortedRows(rows, asked.sort || "-born", ITEM_COLUMNS, "born", "id"), asked, "id");
  return { ...page, rows: page.rows.map(listedItem) };
}
