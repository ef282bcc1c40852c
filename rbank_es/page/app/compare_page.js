// Two runs side by side; rows that differ are marked.
import { commandLine, itemLink, note, pre, runLink, runTags, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count, DASH, minute } from "./words.js";

export const comparePage = {
  name: "compare",
  under: "runs",
  title: () => "Compare two runs",
  ask: ({ parameters: { a, b } }) => ({ a: ["run", { id: a }], b: ["run", { id: b }] }),
  view: (compare, context) => [h("h2", null, "Two runs side by side"), h("p", { class: "muted" }, "≠ marks what differs; reasons and times always do."), sides(compare, context)],
  refused: ({ error, command }, context) => [h("h2", null, "Compare two runs"), note(context.address.parameters.b ? error : "Choose two runs in the list of runs."), command && commandLine(command), h("p", null, h("a", { href: context.href("runs") }, "To the runs"))],
};

const plain = (name) => ({ run }) => run[name] ?? DASH;
const number = (name) => ({ run }) => count(run[name]);

// Each row: its name, the fields of the answer that it shows, and its cell.
const ROWS = [
  ["Task", ["task"], plain("task")],
  ["Judged", ["verdict", "authority", "judge"], ({ run }) => [verdictMark(run.verdict), run.authority && h("div", { class: "muted" }, `${run.authority}: ${run.judge}`)]],
  ["Why", [], plain("reason")],
  ["Score", ["score"], ({ run }) => verdictMark(run.score, true)],
  ["Answer", ["answer"], plain("answer")],
  ["Query", ["sparql"], ({ run }) => (run.sparql ? pre("query", run.sparql) : DASH)],
  ["Outcome", ["outcome", "error_code", "error"], ({ run }) => [run.outcome ?? "not ended", run.error_code && h("div", { class: "error-code" }, run.error_code), run.error && h("div", { class: "muted" }, run.error)]],
  ["Items given", ["given"], ({ given }, context) => (given.length ? given.map((item) => h("div", { key: item.id }, itemLink(context, item))) : "none")],
  ["Learned", ["learnt"], ({ learnt }, context) => (learnt.length ? learnt.map((item, i) => h("div", { key: i }, itemLink(context, item))) : "nothing")],
  ["Steps", ["steps"], number("steps")],
  ["Tool calls", ["tools"], number("tools")],
  ["Model calls", ["calls"], number("calls")],
  ["Tokens", ["tokens"], number("tokens")],
  ["Seconds", ["duration_s"], number("duration_s")],
  ["Red flags", ["flags"], number("flags")],
  ["Context, characters", ["context"], ({ leakage }) => count(leakage?.context_size)],
  ["Model", ["model"], plain("model")],
  ["Executor", ["executor"], plain("executor")],
  ["Ontology", ["ontology"], plain("ontology")],
  ["Experiment", ["experiment", "condition"], ({ run }) => (run.experiment ? `${run.experiment}, ${run.condition}` : DASH)],
  ["Began (UTC)", [], ({ run }) => minute(run.time)],
];

function sides({ a, b }, context) {
  const ids = (rows) => JSON.stringify(rows.map((row) => row.id));
  const more = { given: ids(a.given) !== ids(b.given), learnt: ids(a.learnt) !== ids(b.learnt), context: a.leakage?.context_size !== b.leakage?.context_size };
  const head = [a, b].map((each, i) => h("th", { scope: "col", key: i }, runLink(context, { run: each.run.run }), " ", runTags(each.run)));
  const body = ROWS.map(([name, fields, cell]) => {
    const isOther = fields.some((field) => a.run[field] !== b.run[field] || more[field]);
    const cells = [a, b].map((each, i) => h("td", { key: i, "data-run": each.run.run }, cell(each, context)));
    return h("tr", { key: name, class: isOther ? "differs" : null }, h("th", { scope: "row" }, isOther ? "≠ " : "", name), cells);
  });
  const made = h("table", { class: "compare" }, h("caption", null, `As of position ${count(context.at)}`), h("thead", null, h("tr", null, h("td", null), head)), h("tbody", null, body));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Two runs side by side" }, made);
}
