// The overview: is the bank getting better or worse, and where does it go wrong?
import { groupStrip, runStrip, stepLine, stripLegend } from "./charts.js";
import { commandLine, failedRun, figure, itemLink, note, numbers, rate, runLink, runTags, stateTag, table } from "./parts.js";
import { h } from "./renderer.js";
import { brief } from "./visible_text.js";
import { count, day, DASH, plural, shellWord } from "./words.js";

export const overviewPage = {
  name: "overview",
  tab: "Overview",
  title: () => "Overview",
  ask: () => ({ overview: ["overview", {}] }),
  view: ({ overview }, context) => (context.bank.position && (overview.runs.length || overview.growth.some((each) => each.active)) ? shown(overview, context) : empty(context)),
};

function empty(context) {
  const { bank } = context;
  if (context.at < bank.head) return [h("h2", null, "Nothing yet"), h("p", null, "At this position the bank holds no runs and no items. Move the slider to the right.")];
  const name = shellWord(bank.command);
  return [
    h("h2", null, "An empty bank"),
    h("p", null, "This bank holds no runs and no items. Add some:"),
    commandLine(`rbank-es import ${name} PATH`),
    commandLine(`rbank-es append ${name} EVENTS.jsonl`),
  ];
}

function shown(overview, context) {
  return [
    context.bank.purpose && h("p", { class: "purpose text" }, context.bank.purpose),
    h("p", { class: "muted" }, "A run is one attempt of an agent at a task. An item is a lesson that was drawn from runs, to be given to later ones."),
    keyFigures(overview, context),
    h("h2", null, "Every run, in order"),
    everyRun(overview, context),
    h("div", { class: "columns wider" }, failures(overview, context), look(overview, context)),
    h("div", { class: "columns" }, growth(overview, context), mostUsed(overview, context)),
  ];
}

function everyRun({ runs, older }, context) {
  if (!runs.length) return h("p", { class: "muted" }, "No run yet.");
  const before = older.reduce((sum, group) => sum + group.runs, 0);
  const grouped = before > 0 && [h("p", { class: "muted" }, `${plural(before, "older run")}, ${count(older[0].runs)} a column:`), groupStrip(context, older), h("p", { class: "muted" }, `The newest ${count(runs.length)}, one by one:`)];
  return [stripLegend(), grouped, runStrip(context, [...runs].reverse())];
}

function keyFigures({ learning, first_half: early, second_half: late, scoring, items: counts, red_flags: flags }, { bank }) {
  const half = ({ judged, successes }) => (judged ? `${count(successes)} of ${count(judged)}` : DASH);
  const items = Object.fromEntries(counts.map(({ state, items: n }) => [state, n]));
  const ended = Object.entries(items).filter(([state]) => state !== "active").map(([state, n]) => `${count(n)} ${state}`);
  const all = Object.values(items).reduce((sum, n) => sum + n, 0);
  return h(
    "dl",
    { class: "figures" },
    figure("Judged a success", learning.judged ? learning.successes : null, learning.judged, `first half ${half(early)}, second half ${half(late)}`),
    figure("Right by the score", scoring.judged ? scoring.successes : null, scoring.judged, `${count(bank.runs - scoring.judged)} not scored`),
    figure("Active items", items.active ?? 0, all, ended.join(", ") || "none ended"),
    figure("Red flags", flags, null, "returns, contexts, injections and budgets over their limits"),
  );
}

function failures({ failures: rows, failed_runs: broken }, context) {
  const errors = broken.map((row) => h("li", { key: row.run }, failedRun(context, row)));
  const allErrors = errors.length > 0 && h("p", null, h("a", { href: context.href("runs", "", { outcome: "failed" }) }, "All that ended in an error"));
  const list = rows.map(({ run: row, answer, given }) => {
    const gone = given.filter((item) => item.state !== null && item.state !== "active");
    return h(
      "li",
      { key: row.run },
      h("div", null, runLink(context, row), " ", h("span", { class: "muted nowrap" }, day(row.started_at)), " ", runTags(row)),
      answer !== null && h("div", { class: "muted text clamp" }, "It answered: ", brief(answer)),
      h("div", { class: "text clamp" }, h("b", null, "Why: "), brief(row.reason) || "no reason recorded"),
      gone.map((item) => h("div", { key: item.id }, h("b", null, "It was given "), itemLink(context, item), " ", stateTag(item.state))),
    );
  });
  const more = h("p", null, h("a", { href: context.href("runs", "", { verdict: "failure" }) }, "All that were judged failures"));
  const none = !errors.length && h("p", { class: "muted" }, "No run is judged a failure here, and none ended in an error.");
  return h("section", null, h("h2", null, "Why runs failed"), h("ul", { class: "failures" }, errors), allErrors, rows.length ? [h("ul", { class: "failures" }, list), more] : none);
}

function look({ wants_look: n }, context) {
  const said = n ? `${plural(n, "thing")}: verdicts and scores that differ, errors that ended runs, items that wait, runs that nobody judged.` : "Nothing: verdicts and scores agree, no run ended in an error, no item waits, every run that ended is judged.";
  return h("section", null, h("h2", null, "Wants a look"), h("p", { class: n ? null : "muted" }, said), h("p", null, h("a", { href: context.href("review") }, "Review")));
}

function growth({ growth: points }, context) {
  const active = points.at(-1)?.active ?? 0;
  const marks = context.bank.notable.filter(({ seq, type }) => seq <= context.at && type !== "policy_set").map(({ seq }) => seq);
  const line = stepLine({
    points: points.map((each) => [each.seq, each.active]),
    head: context.bank.head,
    marks,
    label: `Active items by position: ${plural(active, "item")} at position ${context.at}`,
  });
  return h("section", null, h("h2", null, "Size of the bank"), h("p", { class: "muted" }, "Active items, by position. Dashed: overruled, retracted, forgotten, restored."), line);
}

function mostUsed({ most_used: rows }, context) {
  const columns = [{ name: "Item", wide: true, cell: (row) => itemLink(context, row) }, { name: "Wins of decided uses", cell: rate }, ...numbers({ Uses: "uses" }, { sorts: false })];
  const caption = "The line is the 95 % interval (Wilson). A win is no proof: see the item's page.";
  return h("section", null, h("h2", null, "Most used items"), rows.length ? table({ caption, columns, rows, key: "id" }) : note("No item has been used yet."));
}
