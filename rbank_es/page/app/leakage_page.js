// Leakage: text that reached the prompt although a short handle would have been enough.
import { bar } from "./charts.js";
import { figure, listTable, numbers, pager, runLink, table } from "./parts.js";
import { h } from "./renderer.js";
import { count, plural } from "./words.js";

export const leakagePage = {
  name: "leakage",
  tab: "Leakage",
  title: () => "Leakage",
  ask: ({ parameters: { sort, after } }) => ({ leakage: ["leakage", { sort, after }] }),
  view: ({ leakage }, context) => [
    h("h2", null, "Leakage"),
    h("p", { class: "muted" }, "Text that reached the model's prompt although a short handle would have been enough. Sizes are in characters; a dash was not recorded."),
    figures(leakage.flag_counts, context.bank.flag_limits),
    byTool(leakage.leakage_by_tool, context),
    byRun(leakage, context),
    pager(context, leakage),
    raised(leakage.flags, context),
  ],
};

const NAMES = { single_return: "Large return", items_injected: "Items injected", context_size: "Large context", l2_budget: "Large L2 budget" };

function figures(counts, limits) {
  const about = { single_return: `one call returned over ${count(limits.return_chars)}`, items_injected: `more than ${count(limits.items_injected)} items in a context`, context_size: `a context over ${count(limits.context_chars)}`, l2_budget: `layer L2 allowed over ${count(limits.l2_chars)}` };
  return h("dl", { class: "figures" }, Object.entries(NAMES).map(([kind, name]) => figure(name, counts[kind], null, about[kind])));
}

function byTool(tools, context) {
  const most = Math.max(1, ...tools.map((row) => row.total_chars_returned ?? 0));
  const columns = [
    { name: "Tool", cell: (row) => h("code", null, row.tool) },
    { name: "Returned", cell: (row) => h("span", { class: "number nowrap" }, bar((row.total_chars_returned ?? 0) / most), " ", count(row.total_chars_returned)) },
    ...numbers({ Calls: "calls", Errors: "errors" }, { sorts: false }),
    { name: "Largest return", number: true, cell: (row) => over(row.max_single_return, context.bank.flag_limits.return_chars) },
    { name: "Large returns", number: true, cell: (row) => over(row.large_returns, 0) },
    ...numbers({ Truncated: "truncated" }, { sorts: false }),
  ];
  return [h("h3", null, "By tool"), table({ caption: `${plural(tools.length, "tool")}, those that returned most first`, columns, rows: tools, key: "tool" })];
}

function over(value, limit) {
  return value > limit ? h("span", { class: "over-limit", title: `over ${count(limit)}` }, count(value)) : count(value);
}

function byRun(runs, context) {
  const { flag_limits: flags } = context.bank;
  const column = (name, key, limit) => ({ name, sort: key, number: true, cell: (row) => over(row[key], limit) });
  const columns = [
    { name: "Run", sort: "started_seq", wide: true, cell: (row) => h("div", { class: "clamp" }, runLink(context, row)) },
    column("Flags", "red_flags", 0),
    ...numbers({ Returned: "total_chars_returned" }),
    column("Largest", "max_single_return", flags.return_chars),
    column("Context", "context_size", flags.context_chars),
    column("Items", "items_injected", flags.items_injected),
    ...numbers({ "Longest prompt": "prompt_chars_max", Printed: "stdout_chars", "In variables": "variables_chars" }),
    ...numbers({ "Tool calls": "tool_calls", Steps: "iterations", "Sub-calls": "subcalls" }),
  ];
  return [h("h3", null, "By run"), listTable(context, runs, { noun: "run", columns, key: "run", order: "-started_seq" })];
}

function raised(flags, context) {
  if (!flags.length) return [h("h3", null, "Red flags"), h("p", { class: "muted" }, "No run went over a limit.")];
  const columns = [
    { name: "Flag", cell: (row) => NAMES[row.flag] ?? row.flag },
    ...numbers({ Value: "value", Limit: "threshold" }, { sorts: false }),
    { name: "Times over", number: true, cell: (row) => (row.threshold ? `${(row.value / row.threshold).toFixed(1)}×` : "–") },
    { name: "Tool", cell: (row) => (row.tool ? h("code", null, row.tool) : h("span", { class: "muted" }, "the context")) },
    { name: "Run", cell: (row) => h("a", { href: context.href("run", row.run), class: "text" }, row.run) },
    { name: "At", number: true, cell: (row) => h("a", { href: context.href("run", row.run, { at: row.seq }) }, count(row.seq)) },
  ];
  return [h("h3", null, "Red flags"), table({ caption: `${plural(flags.length, "flag")}, the newest first`, columns, rows: flags })];
}
