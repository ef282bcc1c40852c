// The answer `review` of an exported bank: what a person should look at, each with the command that settles it. Pure.
import { failedRuns, wantsLook } from "./file_answers.js";
import { itemRows } from "./item_rows.js";
import { compared } from "./row_list.js";
import { runRows, short } from "./run_rows.js";
import { commandOn, count } from "./words.js";

const ROWS = 200;

export function reviewAnswer(bank, position) {
  const newest = (place, id) => (a, b) => b[place] - a[place] || compared(a[id], b[id]);
  const all = [...runRows(bank, position)].sort(newest("started", "run"));
  const items = [...itemRows(bank, position)].sort(newest("born", "id"));
  const { argument } = bank.data.bank;
  const losing = items.filter((row) => row.state === "active" && row.losses > row.wins);
  const lost = ({ wins, losses }) => `lost ${count(losses)} of ${count(wins + losses)} decided uses`;
  return {
    verdicts: part(all.filter(wantsLook), (row) => verdictRow(argument, row)),
    failed: part(failedRuns(bank, all), (row) => row),
    pending: part(items.filter((row) => row.state === "pending"), (row) => itemRow(row, "it waits for a person", commandOn("admit", [argument, row.id]))),
    losing: part(losing, (row) => itemRow(row, lost(row), commandOn("retract", [argument, row.id], "--because TEXT"))),
  };
}

/** Return the verdicts to check first: at an earlier position none, but the command of a page that weighs them there. */
export function doubtsAnswer(bank, position) {
  return position < bank.head ? { total: null, command: commandOn("serve", [bank.data.bank.argument]), rows: [] } : bank.data.doubts;
}

function part(rows, made) {
  return { total: rows.length, rows: rows.slice(0, ROWS).map(made) };
}

function verdictRow(argument, { run, task, verdict, score, outcome }) {
  const facts = { run, task: short(task), verdict, score };
  if (verdict === null) return { ...facts, why: `it ${outcome === "forced_at_limit" ? "was stopped at a limit" : "ended"}, and nobody judged it`, command: commandOn("judge run", [argument, run], "--ont FILE") };
  return { ...facts, why: `judged a ${verdict}, and scored a ${score}`, command: commandOn("overrule", [argument, run], `--${score} --reason TEXT`) };
}

function itemRow({ id, src, wins, losses, title }, why, command) {
  return { id, src, wins, losses, title: short(title), why, command };
}
