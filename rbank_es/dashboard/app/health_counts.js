// Counts of a bank's health as of a position, by the names of the view `bank_health`, and its course. Pure.
import { usesOf } from "./item_rows.js";
import { compared } from "./row_list.js";
import { rowsUpto, verdictOf } from "./run_rows.js";
import { isThere } from "./time_model.js";

const LAST_USES = 20;
const FOR_JUDGES = new Set(["principle", "episode"]);

/** Return the uses that count, oldest first, each with whether its run was won (null: not decided). */
export function judgedUses(bank, position) {
  const uses = [...bank.exposures.keys()].flatMap((item) => usesOf(bank, item, position).map(({ run, seq }) => ({ item, run, seq, won: wonIn(bank, run, position) })));
  return uses.sort((a, b) => a.seq - b.seq || compared(a.item, b.item) || compared(a.run, b.run));
}

function wonIn(bank, run, position) {
  const verdict = verdictOf(bank, run, "learning", position)?.verdict;
  return verdict === "success" ? true : verdict === "failure" ? false : null;
}

/** Return all counts of the bank's health. */
export function healthCounts(bank, position) {
  const there = (name) => bank.tables[name].filter((row) => isThere(row, position));
  const uses = judgedUses(bank, position);
  const states = there("item_states");
  const active = states.filter((row) => row.state === "active");
  const decided = there("decisions").filter((row) => !row.undone);
  const verdicts = there("verdicts").filter((row) => row.purpose === "learning");
  const isWon = (use) => use.won === true;
  const part = (name, rows) => ({ [`wins${name}`]: rows.filter(isWon).length, [`decided${name}`]: rows.filter((use) => use.won !== null).length });
  const end = uses.length;
  return {
    active: active.length,
    candidates: decided.length,
    added: decided.filter((row) => row.action === "add").length,
    repeated: decided.filter((row) => row.action === "skip" || row.action === "merge").length,
    uses: end,
    ...part("", uses),
    ...part("_last", uses.slice(Math.max(0, end - LAST_USES))),
    ...part("_before", uses.slice(Math.max(0, end - 2 * LAST_USES), Math.max(0, end - LAST_USES))),
    ...spread(bank, active, uses),
    judged: verdicts.length,
    undecided: verdicts.filter((row) => row.verdict === "undecided").length,
    overruled: verdicts.filter((row) => row.overruled && wasOther(bank, row, position)).length,
    ...agreement(bank, position),
    on_one_verdict: active.filter((row) => !row.vouched && restsOnOne(bank, row.item, position)).length,
  };
}

function spread(bank, active, uses) {
  const of = new Map();
  for (const { item } of uses) of.set(item, (of.get(item) ?? 0) + 1);
  const items = active.filter((row) => !FOR_JUDGES.has(bank.candidate.get(row.text).src));
  const counts = items.map((row) => of.get(row.item) ?? 0).sort((a, b) => b - a);
  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  return { for_agents: items.length, never_used: counts.filter((n) => !n).length, active_uses: sum(counts), top_uses: sum(counts.slice(0, Math.floor((items.length + 9) / 10))) };
}

function wasOther(bank, verdict, position) {
  const earlier = rowsUpto(bank.opinions.get(verdict.run), position);
  return earlier.some((row) => row.verdict !== verdict.verdict && row.from_seq < verdict.judged_seq);
}

function agreement(bank, position) {
  const latest = [...bank.opinions.keys()].map((run) => {
    const by = new Map(rowsUpto(bank.opinions.get(run), position).map((row) => [row.judge, row.verdict]));
    return [...by.values()].filter((verdict) => verdict !== "undecided");
  });
  const several = latest.filter((verdicts) => verdicts.length > 1);
  return { judged_twice: several.length, disagreed: several.filter((verdicts) => new Set(verdicts).size > 1).length };
}

// Without the verdict on one run, no extraction in the item's own words would stand.
function restsOnOne(bank, item, position) {
  const texts = (bank.support.get(item) ?? []).filter((row) => isThere(row, position) && bank.candidate.get(row.text).item === item);
  const alone = new Map();
  for (const { text } of texts) {
    const extraction = bank.extractions.get(bank.candidate.get(text).extraction).find((row) => isThere(row, position));
    for (const run of neededRuns(bank, extraction, position)) alone.set(run, (alone.get(run) ?? 0) + 1);
  }
  return [...alone.values()].some((count) => count === texts.length);
}

function neededRuns(bank, { kind, relied }, position) {
  const held = new Map();
  for (const [run, verdict] of JSON.parse(relied)) {
    const now = verdictOf(bank, run, "learning", position)?.verdict;
    if (now !== undefined && now !== verdict) continue;
    const pair = held.get(run) ?? { run, won: 0, lost: 0, judged: now !== undefined && now !== "undecided" };
    pair.won += Number(verdict === "success");
    pair.lost += Number(verdict === "failure");
    held.set(run, pair);
  }
  const all = [...held.values()];
  const [won, lost] = [all.reduce((sum, each) => sum + each.won, 0), all.reduce((sum, each) => sum + each.lost, 0)];
  const isNeeded = (each) => (kind === "contrastive" ? won === each.won || lost === each.lost : kind !== "pattern" || won - each.won < 2);
  return all.filter((each) => each.judged && isNeeded(each)).map((each) => each.run);
}

/** Return the bank's health at each moment at which memory may have changed, by the names of `health_over_time`. */
export function healthCourse(bank, position) {
  const uses = judgedUses(bank, position);
  const moments = rowsUpto(bank.tables.moments, position);
  const sizes = steps(bank.tables.item_states.filter((row) => row.state === "active"), position);
  const decided = bank.tables.decisions.filter((row) => !row.undone);
  const of = (...actions) => steps(decided.filter((row) => actions.includes(row.action)), position);
  const [candidates, added, skipped, repeated] = [steps(decided, position), of("add"), of("skip"), of("skip", "merge")];
  let used = 0;
  return moments.map(({ from_seq: seq, at }) => {
    while (used < uses.length && uses[used].seq <= seq) used += 1;
    const [size, all, add, skip, repeat] = [sizes, candidates, added, skipped, repeated].map((each) => each(seq));
    const last = meanWon(uses, used - LAST_USES, used);
    const before = used >= 2 * LAST_USES ? meanWon(uses, used - 2 * LAST_USES, used - LAST_USES) : null;
    const drift = last === null || before === null ? null : last - before;
    const facts = { seq, at, size, candidates: all, added: add, skipped: skip, uses: used };
    const rates = { duplicate_rate: all ? repeat / all : null, novelty_rate: all ? add / all : null, win_rate_last: last, win_rate_before: before, win_rate_drift: drift };
    return { ...facts, ...Object.fromEntries(Object.entries(rates).map(([name, value]) => [name, fourDigits(value)])) };
  });
}

// Away from zero at a tie, as SQLite rounds.
function fourDigits(value) {
  return value === null ? null : Number(value.toFixed(4));
}

function meanWon(uses, from, to) {
  const known = uses.slice(Math.max(0, from), Math.max(0, to)).filter((use) => use.won !== null);
  return known.length ? known.filter((use) => use.won).length / known.length : null;
}

/** Return a function from a position, asked in order, to the number of rows there. */
function steps(rows, position) {
  const changes = [];
  for (const row of rows) {
    if (row.from_seq > position) continue;
    changes.push([row.from_seq, 1]);
    if (row.to_seq !== null && row.to_seq <= position) changes.push([row.to_seq, -1]);
  }
  changes.sort((a, b) => a[0] - b[0]);
  let [next, count] = [0, 0];
  return (seq) => {
    for (; next < changes.length && changes[next][0] <= seq; next += 1) count += changes[next][1];
    return count;
  };
}
