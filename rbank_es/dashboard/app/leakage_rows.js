// Leakage of a run as of a position: the characters that reached a prompt instead of staying behind a handle.
import { endOf, rowsUpto, total } from "./run_rows.js";

/** Return the sizes of a run, by the names of the view `leakage_by_run`; null is not recorded. */
export function leakageOf(bank, start, position) {
  const { run } = start;
  const by = (kind) => rowsUpto(bank.ofRun[kind].get(run), position);
  const [tools, contexts, sizes, steps] = [by("tools"), by("contexts"), rowsUpto(bank.sizes.get(run), position), by("steps")];
  return {
    run,
    started_seq: start.from_seq,
    total_chars_returned: tools.length ? total(tools, "chars") : 0,
    max_single_return: tools.length ? most(tools, "chars") : 0,
    large_returns: tools.filter((row) => isLarge(bank, row)).length,
    stdout_chars: total(sizes, "stdout_chars"),
    variables_n: most(sizes, "variables_n"),
    variables_chars: most(sizes, "variables_chars"),
    subcalls: by("calls").filter((row) => row.role === "sub").length,
    memory_items_injected: most(contexts, "items_n"),
    context_size: most(contexts, "chars"),
    prompt_chars_max: most(sizes, "prompt_chars"),
    iterations: endOf(bank, run, position)?.iterations ?? steps.length,
    tool_calls: tools.length,
    red_flags: flagsOf(bank, run, position).length,
  };
}

/** Return the largest value of a column; null where no row recorded it. */
export function most(rows, name) {
  const known = rows.map((row) => row[name]).filter((value) => value !== null);
  return known.length ? Math.max(...known) : null;
}

function isLarge(bank, row) {
  return (row.chars ?? 0) > bank.data.flags.return_chars;
}

/** Return the red flags of a run, by the names of the view `red_flags`. */
export function flagsOf(bank, run, position) {
  const { return_chars, items_injected, context_chars, l2_chars } = bank.data.flags;
  const tools = rowsUpto(bank.ofRun.tools.get(run), position);
  const contexts = rowsUpto(bank.ofRun.contexts.get(run), position);
  const flag = (name, column, threshold, tool) => (row) => ({ run, flag: name, value: row[column], threshold, seq: row.from_seq, tool: tool ? row.tool : null });
  return [
    ...tools.filter((row) => isLarge(bank, row)).map(flag("single_return", "chars", return_chars, true)),
    ...contexts.filter((row) => row.items_n > items_injected).map(flag("items_injected", "items_n", items_injected)),
    ...contexts.filter((row) => row.chars > context_chars).map(flag("context_size", "chars", context_chars)),
    ...contexts.filter((row) => row.l2_budget > l2_chars).map(flag("l2_budget", "l2_budget", l2_chars)),
  ];
}
