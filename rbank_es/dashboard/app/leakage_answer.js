// The answer `leakage` of an exported bank: what reached prompts, by tool, by run, and as red flags. Pure.
import { groupRows } from "./bank_rows.js";
import { flagsOf, leakageOf, most } from "./leakage_rows.js";
import { BadRequest, compared, pageOf, sortedRows } from "./row_list.js";
import { rowsUpto, short, total } from "./run_rows.js";

const ROWS = 200;
const SORTS = [
  "total_chars_returned", "max_single_return", "large_returns", "stdout_chars", "variables_n", "variables_chars", "subcalls",
  "memory_items_injected", "context_size", "prompt_chars_max", "iterations", "tool_calls", "red_flags", "started",
];
const KINDS = ["single_return", "items_injected", "context_size", "l2_budget"];

export function leakageAnswer(bank, position, asked) {
  const by = asked.by || "tool";
  const answer = { tool: byTool, run: byRun, flag: byFlag }[by];
  if (!answer) throw new BadRequest(`"${by}" is none of tool, run, flag`);
  const flags = allFlags(bank, position);
  const raised = KINDS.map((kind) => [kind, flags.filter((row) => row.flag === kind).length]);
  return { by, ...answer(bank, position, asked, flags), flags: Object.fromEntries(raised) };
}

function allFlags(bank, position) {
  const runs = new Set([...bank.tables.tool_calls, ...bank.tables.contexts].map((row) => row.run));
  return [...runs].flatMap((run) => flagsOf(bank, run, position));
}

function byTool(bank, position) {
  const rows = [...groupRows(rowsUpto(bank.tables.tool_calls, position), "tool")].map(([tool, calls]) => ({
    tool,
    calls: calls.length,
    errors: total(calls, "failed"),
    total_chars_returned: total(calls, "chars"),
    max_single_return: most(calls, "chars"),
    large_returns: calls.filter((row) => (row.chars ?? 0) > bank.data.flags.return_chars).length,
    truncated: total(calls, "truncated"),
  }));
  rows.sort((a, b) => (b.total_chars_returned ?? 0) - (a.total_chars_returned ?? 0) || compared(a.tool, b.tool));
  return { total: rows.length, next: null, rows: rows.slice(0, ROWS) };
}

function byRun(bank, position, asked) {
  const starts = bank.starts.filter((start) => start.from_seq <= position);
  const rows = starts.map((start) => ({ ...leakageOf(bank, start, position), started: start.from_seq }));
  const page = pageOf(sortedRows(rows, asked.sort || "-started", SORTS, "started", "run"), asked, "run");
  return { ...page, rows: page.rows.map(({ started: _, ...row }) => ({ ...row, task: short(bank.start.get(row.run).task) })) };
}

function byFlag(bank, position, asked, flags) {
  const rows = [...flags].sort((a, b) => b.seq - a.seq || compared(a.flag, b.flag));
  return { total: rows.length, next: null, rows: rows.slice(0, ROWS) };
}
