// What a person should look at, each with the command that settles it. Nothing is changed here.
import { commandLine, failedRun, itemLink, runLink, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { brief } from "./visible_text.js";
import { commandOn, count, percent, plural } from "./words.js";

export const reviewPage = {
  name: "review",
  tab: "Review",
  title: () => "Review",
  ask: () => ({ review: ["review", {}], doubts: ["doubts", {}] }),
  view: ({ review, doubts }, context) => [
    h("h2", null, "Review"),
    h("p", { class: "muted" }, "What may be wrong, contradicts itself, or waits for a person. This page changes nothing: type the command, and say why."),
    part("Errors that ended runs", { total: review.errors, rows: review.failed_runs }, (row) => [failedRun(context, row), commandLine(commandOn("show", [context.bank.command, row.run]))], "run", "No run ended in an error.", null, "first"),
    checkFirst(doubts, context),
    part("Verdicts", { total: review.runs_to_settle_total, rows: review.runs_to_settle }, (row) => verdict(row, context), "run", "Verdicts and scores agree, and every run that ended is judged."),
    part("Pending items", { total: review.pending_total, rows: review.pending }, (row) => pending(row, context), "id", "No item waits for a person."),
    part("Active items that lose more than they win", { total: review.losing_total, rows: review.losing }, (row) => item(row, `lost ${count(row.losses)} of ${plural(row.wins + row.losses, "decided use")}`, context), "id", "None."),
  ],
};

function checkFirst(doubts, context) {
  const { total, command, rows } = doubts;
  const about = "Verdicts on which items rest alone: first those whose being wrong would cost most, by the probability of an error and by what rests on them.";
  return [
    part("What to check first", doubts, (row) => doubt(row, context), "run", "No item rests on a single verdict that a person hasn't given.", total > 0 && about, "first"),
    total > rows.length && [h("p", { class: "muted" }, "All of them:"), commandLine(command)],
  ];
}

function doubt(row, context) {
  const items = row.stake.map((item, i) => [i > 0 && ", ", itemLink(context, item)]);
  return [
    h("div", { class: "clamp" }, runLink(context, row)),
    h("div", null, verdictMark(row.verdict), ` by ${row.judge}; ${percent(row.probability)} likely to be wrong`),
    h("div", { class: "muted text" }, row.because.join("; ")),
    row.answer && h("div", { class: "muted text clamp" }, "It answered: ", brief(row.answer)),
    row.reason && h("div", { class: "text clamp" }, h("b", null, "Why: "), brief(row.reason)),
    h("div", null, `If it is wrong, it takes out ${row.takes_out}: `, items, row.stake_total > items.length && ` and ${count(row.stake_total - items.length)} more`, `. About ${count(row.minutes)} min to check.`),
    commandLine(row.confirm, "If it is right, confirm it:"),
    commandLine(row.overrule, "If it is wrong, overrule it:"),
  ];
}

function part(name, { total, rows }, shown, key, none, about = null, which = "newest") {
  const left = total > rows.length && h("p", { class: "muted" }, `The ${which} ${count(rows.length)} of ${count(total)}.`);
  const list = h("ul", { class: "review" }, rows.map((row) => h("li", { key: row[key] }, shown(row))));
  return [h("h3", null, `${name} (${count(total)})`), about && h("p", { class: "muted" }, about), left, rows.length ? list : h("p", { class: "muted" }, none)];
}

function verdict(row, context) {
  const marks = [verdictMark(row.verdict), " ", row.score && verdictMark(row.score, true)];
  return [h("div", { class: "clamp" }, runLink(context, row)), h("div", null, marks), h("div", { class: "muted" }, row.why), commandLine(row.command)];
}

function pending(row, context) {
  const runs = row.grounds.flatMap((ground) => ground.runs.map((run) => ({ ...run, key: `${ground.extraction} ${ground.place} ${run.run}` })));
  const near = row.near.map((each) => h("div", { key: each.item, class: "text" }, h("span", { class: "muted" }, "near to the rejected item "), itemLink(context, { ...each, id: each.item })));
  const drawn = runs.map((run) => h("div", { key: run.key, class: "clamp" }, h("span", { class: "muted" }, "drawn from "), runLink(context, run), " ", verdictMark(run.verdict)));
  return item(row, "it waits for a person", context, [near, drawn]);
}

function item(row, why, context, more = null) {
  return [h("div", null, itemLink(context, row), " ", h("span", { class: "muted" }, `from ${row.src}`)), h("div", { class: "muted" }, why), more, commandLine(row.command)];
}
