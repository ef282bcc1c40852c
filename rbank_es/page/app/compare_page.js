// Two runs side by side; rows that differ are marked.
import { commandLine, itemLink, note, pre, runLink, runTags, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { EVENTS } from "./run_page.js";
import { count, DASH, minute } from "./words.js";

export const comparePage = {
  name: "compare",
  under: "runs",
  title: () => "Compare two runs",
  ask: ({ parameters: { a, b } }) => ({ a: ["run", { run: a, limit: EVENTS, sentences: false }], b: ["run", { run: b, limit: EVENTS, sentences: false }] }),
  view: (compare, context) => [h("h2", null, "Two runs side by side"), h("p", { class: "muted" }, "≠ marks what differs; reasons and times always do."), sides(compare, context)],
  refused: ({ error, command }, context) => [h("h2", null, "Compare two runs"), note(context.address.parameters.b ? error : "Choose two runs in the list of runs."), command && commandLine(command), h("p", null, h("a", { href: context.href("runs") }, "To the runs"))],
};

// Each row: its name, the fields of the answer that it shows, and its cell.
const ROWS = [
  ...facts({ Task: "task" }),
  ["Judged", ["verdict", "authority", "judge"], ({ run }) => [verdictMark(run.verdict), run.authority && h("div", { class: "muted" }, `${run.authority}: ${run.judge}`)]],
  ["Why", [], ({ run }) => run.reason ?? DASH],
  ["Score", ["score"], ({ run }) => verdictMark(run.score, true)],
  ["Answer", ["answer"], ({ answer }) => answer ?? DASH],
  ["Query", ["sparql"], ({ sparql }) => (sparql ? pre("query", sparql) : DASH)],
  ["Outcome", ["outcome", "error_code", "error"], ({ run }) => [run.outcome ?? "open", run.error_code && h("div", { class: "error-code" }, run.error_code), run.error && h("div", { class: "muted" }, run.error)]],
  ["Items given", ["given"], ({ given }, context) => (given.length ? given.map((item) => h("div", { key: item.item }, itemLink(context, { ...item, id: item.item }))) : "none")],
  ["Learned", ["learned"], ({ learned }, context) => (learned.length ? learned.map((item, i) => h("div", { key: i }, itemLink(context, { ...item, id: item.item }))) : "nothing")],
  ...facts({ Steps: "steps", "Tool calls": "tool_calls", "Model calls": "lm_calls", Tokens: "tokens", Seconds: "duration_s", "Red flags": "red_flags" }, count),
  ["Context, characters", ["context"], ({ leakage }) => count(leakage.context_size)],
  ...facts({ Model: "model", Executor: "executor" }),
  ["Ontology", ["ontology", "endpoint"], ({ run }) => run.ontology ?? run.endpoint ?? DASH],
  ["Experiment", ["experiment", "condition"], ({ run }) => (run.experiment ? `${run.experiment}, ${run.condition}` : DASH)],
  ["Began (UTC)", [], ({ run }) => minute(run.started_at)],
];

function facts(names, format = (value) => value ?? DASH) {
  return Object.entries(names).map(([name, field]) => [name, [field], ({ run }) => format(run[field])]);
}

function sides({ a, b }, context) {
  const ids = (rows) => JSON.stringify(rows.map((row) => row.item));
  const more = { given: ids(a.given) !== ids(b.given), learned: ids(a.learned) !== ids(b.learned), context: a.leakage.context_size !== b.leakage.context_size, answer: a.answer !== b.answer, sparql: a.sparql !== b.sparql };
  const head = [a, b].map((each, i) => h("th", { scope: "col", key: i }, runLink(context, { run: each.run.run }), " ", runTags(each.run)));
  const body = ROWS.map(([name, fields, cell]) => {
    const isOther = fields.some((field) => a.run[field] !== b.run[field] || more[field]);
    const cells = [a, b].map((each, i) => h("td", { key: i, "data-run": each.run.run }, cell(each, context)));
    return h("tr", { key: name, class: isOther ? "differs" : null }, h("th", { scope: "row" }, isOther ? "≠ " : "", name), cells);
  });
  const made = h("table", { class: "compare" }, h("caption", null, `As of position ${count(context.at)}`), h("thead", null, h("tr", null, h("td", null), head)), h("tbody", null, body));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Two runs side by side" }, made);
}
