// One run: why did it fail? The verdict first, then what it was told, what it did, and what was learned from it.
import { bar } from "./charts.js";
import { fold, itemLink, pre, runTags, stateTag, textBlock, verdictMark, words } from "./parts.js";
import { h } from "./renderer.js";
import { runSteps } from "./run_steps.js";
import { brief } from "./visible_text.js";
import { count, day, decided, minute, plural, spaced } from "./words.js";

const HEADING_CHARS = 160;
// Events of one page, as a file holds them.
export const EVENTS = 200;

export const runPage = {
  name: "run",
  under: "runs",
  title: ({ run }) => run.run.task || run.run.run,
  ask: ({ argument, parameters: { after } }) => ({ run: ["run", { run: argument, limit: EVENTS, sentences: false, after }] }),
  view: ({ run }, context) => [
    crumb(run.run, context),
    h("h2", { class: "text" }, brief(run.run.task, HEADING_CHARS) || "(no task recorded)"),
    run.run.task?.length >= HEADING_CHARS && words("task", run.run.task),
    ending(run),
    unsent(run, context),
    h("p", { class: "muted" }, facts(run.run), " ", runTags(run.run)),
    h("div", { class: "columns lead" }, verdict(run, context), answer(run)),
    h("div", { class: "columns" }, given(run, context), learned(run, context)),
    layers(run, context),
    steps(run, context),
  ],
};

function crumb(row, context) {
  const parts = [h("a", { href: context.href("runs") }, "Runs"), " / ", h("code", null, row.run)];
  if (row.experiment) parts.push(" ", h("span", { class: "tag" }, `experiment ${row.experiment}, ${row.condition}`));
  return h("p", { class: "crumb" }, parts);
}

function facts(row) {
  const source = row.ontology ?? row.endpoint;
  const known = [row.executor, row.model, source && `on ${source}`, `began ${minute(row.started_at)} UTC, position ${count(row.started_seq)}`];
  return known.filter(Boolean).join(", ") + (row.outcome ? `; ${spaced(row.outcome)}` : "; open: no end is recorded here");
}

/** Return what ended a run that did not end by itself: an error before all else. */
function ending({ run: { outcome, error_code, error }, bound }) {
  if (outcome === null || outcome === "submitted") return null;
  const code = error_code ?? bound;
  const how = outcome === "failed" ? "✕ It ended in an error" : "It was stopped at a limit";
  return h("section", { class: `note ${outcome === "failed" ? "bad" : ""}` }, h("h3", null, how, code && h("span", { class: "error-code" }, `: ${code}`)), error ? pre("error", error) : outcome === "failed" && h("p", null, "No reason was recorded."));
}

/** Return what was recalled for a run and stood in none of its requests. */
function unsent({ recall_unsent: items, given: known }, context) {
  if (!items?.length) return null;
  const titles = new Map(known.map(({ item, title }) => [item, title]));
  const links = items.map((item, i) => [i > 0 && ", ", itemLink(context, { id: item, title: titles.get(item) ?? item })]);
  return h("section", { class: "note bad" }, h("h3", null, "✕ Recalled, not sent"), h("p", null, "No recorded request of the agent had these lessons as they were recalled: ", links));
}

function verdict({ run, judgments }, context) {
  const said = run.verdict ? h("p", { class: "big text" }, run.reason || "No reason was recorded.") : h("p", null, run.outcome ? "Nobody has judged it at this position." : "It has not ended at this position.");
  const by = run.verdict && h("p", { class: "muted" }, `judged by ${run.judge}: ${run.authority}, for learning${run.overruled ? "; it overruled an earlier verdict" : ""}`);
  const score = run.score && h("p", { class: "text" }, "Score: ", verdictMark(run.score, true), " ", h("span", { class: "muted" }, run.score_reason));
  const all = judgments.length > 0 && fold(context, `verdicts ${run.run}`, "Every verdict", count(judgments.length), () => everyVerdict(judgments, run, context));
  return h("section", { class: `verdict ${run.verdict ?? "none"}` }, h("h3", null, verdictMark(run.verdict)), said, by, score, all);
}

function everyVerdict(judgments, run, context) {
  const rows = judgments.map((each) => {
    const at = h("a", { href: context.href("run", run.run, { at: each.seq }) }, `position ${count(each.seq)}, ${day(each.judged_at)}`);
    const until = each.stands ? "stands" : each.overruled_seq ? `overruled at position ${count(each.overruled_seq)}` : "does not stand";
    const sure = each.confidence === null ? "" : `, confidence ${each.confidence}`;
    return h("li", { key: each.seq }, verdictMark(each.verdict, each.purpose === "scoring"), ` for ${each.purpose} at `, at, `, by ${each.by ?? each.judge} (${each.authority}${sure}); ${until}`, h("div", { class: "muted text" }, each.reason), each.why && h("div", { class: "muted text" }, "Overruled because: ", each.why));
  });
  return h("ul", { class: "chain" }, rows);
}

function answer({ answer: text, sparql }) {
  return h("section", null, h("h3", null, "Answer"), text === null ? h("p", { class: "muted" }, "None was recorded.") : words("answer", text), sparql && pre("query", sparql));
}

function given({ given: items }, context) {
  const rows = items.map((item) => {
    const found = `${item.way === "read" ? "read in full" : "injected"}${item.hit_rank === null ? "" : `, rank ${item.hit_rank}, score ${count(item.hit_score)}`} `;
    const since = item.state !== item.state_then && [" ", h("span", { class: "muted" }, "and now "), stateTag(item.state)];
    return h("li", { key: item.item }, itemLink(context, { ...item, id: item.item }), " ", h("span", { class: "muted" }, item.polarity === "failure" ? "guardrail " : "strategy ", found), since);
  });
  return h("section", null, h("h3", null, "What it was given"), rows.length ? h("ul", { class: "chain" }, rows) : h("p", { class: "muted" }, "No item."));
}

function learned({ learned: items }, context) {
  const rows = items.map((item, i) => h("li", { key: i }, h("span", { class: "muted" }, `${decided(item.action)}: `), itemLink(context, { ...item, id: item.item }), " ", stateTag(item.state), h("span", { class: "muted" }, ` position ${count(item.seq)}`)));
  return h("section", null, h("h3", null, "What was learned from it"), rows.length ? h("ul", { class: "chain" }, rows) : h("p", { class: "muted" }, "Nothing here."));
}

function layers({ layers: rows }, context) {
  if (!rows.length) return h("p", { class: "muted" }, "No context was recorded.");
  const body = rows.map((layer, i) => {
    const size = `${count(layer.chars)}${layer.budget === null ? "" : ` of ${count(layer.budget)}`} characters`;
    const cut = layer.truncated && h("span", { class: "tag bad" }, "cut");
    const name = [h("b", null, layer.layer), " ", layer.budget ? bar(layer.chars / layer.budget, layer.truncated) : null, " ", h("span", { class: "number" }, size), " ", cut];
    return fold(context, `layer ${layer.seq} ${i}`, name, null, () => textBlock(context, `layer ${layer.layer}`, layer.text, layer.seq));
  });
  return [h("h3", null, "Context, as the agent got it"), h("div", { class: "layers" }, body)];
}

function steps({ run, events, events_next_seq: next }, context) {
  const spent = `${plural(run.steps, "step")}, ${plural(run.tool_calls, "tool call")}, ${run.lm_calls === null ? "model calls not recorded" : plural(run.lm_calls, "model call")}, ${count(run.tokens)} tokens`;
  const head = [h("h3", null, "What it did"), h("p", { class: "muted" }, spent)];
  const more = next !== null && h("p", null, h("button", { type: "button", onclick: () => context.setParameters({ after: String(next) }, true) }, "Later events of this run"));
  return [head, runSteps(events, context), more];
}
