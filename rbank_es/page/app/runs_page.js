// The list of runs: which ones, and why were they judged so?
import { filters, listTable, numbers, pager, runLink, runTags, SCORE_WORDS, SUCCESS_WORDS, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { conditions, ROWS } from "./row_list.js";
import { brief } from "./visible_text.js";
import { day, plural } from "./words.js";

const OUTCOMES = [["submitted", "submitted"], ["forced_at_limit", "at a limit"], ["failed", "in an error"], ["none", "not yet"]];
const FILTERS = [
  { name: "q", label: "Words", hint: "in task or id" },
  { name: "verdict", label: "Judged", options: Object.entries(SUCCESS_WORDS) },
  { name: "score", label: "Score", options: Object.entries(SCORE_WORDS) },
  { name: "outcome", label: "Ended", options: OUTCOMES },
];
const BEGAN = "-started_seq";
const picked = new Set();

export const runsPage = {
  name: "runs",
  tab: "Runs",
  title: () => "Runs",
  ask: ({ parameters: { q, sort, after, ...values } }) => ({ runs: ["runs", { q, sort: sort || BEGAN, limit: ROWS, after, where: conditions(values, ["verdict", "score", "outcome", "model"]) }] }),
  view: ({ runs }, context) => [h("h2", null, "Runs"), filters(context, FILTERS), choice(context), list(runs, context), pager(context, runs)],
};

function choice(context) {
  if (!picked.size) return null;
  const [a, b] = picked;
  const next = b === undefined ? "Choose one more to compare." : h("a", { href: context.href("compare", "", { a, b }) }, "Compare the two");
  const clear = () => {
    picked.clear();
    context.refresh();
  };
  return h("p", { class: "note", role: "status" }, `${plural(picked.size, "run")} chosen. `, next, " ", h("button", { class: "plain link", type: "button", onclick: clear }, "Clear"));
}

function pick(context, run) {
  if (picked.has(run)) picked.delete(run);
  else picked.add(run);
  for (const oldest of picked) if (picked.size > 2) picked.delete(oldest);
  context.refresh();
}

function ended({ outcome, end_reason: why }) {
  if (outcome === "failed") return h("span", { class: "error-code text" }, "✕ ", brief(why), " ");
  return outcome === "forced_at_limit" && h("span", { class: "text" }, "stopped at a limit", why && `: ${brief(why)}`, "; ");
}

function list(runs, context) {
  const why = (row) => h("div", { class: "muted clamp" }, runTags(row), " ", ended(row), row.reason && h("span", { class: "text" }, brief(row.reason)));
  const task = (row) => [h("div", { class: "clamp" }, runLink(context, row)), why(row)];
  const box = (row) => h("input", { type: "checkbox", checked: picked.has(row.run), "aria-label": `Compare ${row.run}`, onchange: () => pick(context, row.run) });
  const columns = [
    { name: "Task, and why it was judged so", wide: true, cell: task },
    { name: "Judged", sort: "verdict", cell: (row) => [verdictMark(row.verdict), h("div", { class: "muted" }, row.authority !== row.verdict && row.authority, row.overruled ? ", overruling" : "")] },
    { name: "Score", sort: "score", cell: (row) => verdictMark(row.score, true) },
    { name: "Began", sort: "started_seq", cell: (row) => h("span", { class: "nowrap", title: `position ${row.started_seq}` }, day(row.started_at), row.imported_at && h("div", { class: "muted" }, `imported ${day(row.imported_at)}`)) },
    ...numbers({ Steps: "steps", Tools: "tool_calls", Tokens: "tokens", Items: "items_injected", Flags: "red_flags" }),
    { name: "Compare", control: true, cell: box },
  ];
  return listTable(context, runs, { noun: "run", columns, key: "run", order: BEGAN });
}
