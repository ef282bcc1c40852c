// What a person should look at, each with the command that settles it. Nothing is changed here.
import { commandLine, itemLink, runLink, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count } from "./words.js";

export const reviewPage = {
  name: "review",
  tab: "Review",
  title: () => "Review",
  ask: () => ({ review: ["review", {}] }),
  view: ({ review }, context) => [
    h("h2", null, "Review"),
    h("p", { class: "muted" }, "What contradicts itself, or waits for a person. This page changes nothing: type the command, and say why."),
    part("Verdicts", review.verdicts, (row) => verdict(row, context), "run", "Verdicts and scores agree, and every run that ended is judged."),
    part("Pending items", review.pending, (row) => item(row, context), "id", "No item waits for a person."),
    part("Active items that lose more than they win", review.losing, (row) => item(row, context), "id", "None."),
  ],
};

function part(name, { total, rows }, shown, key, none) {
  const left = total > rows.length && h("p", { class: "muted" }, `The newest ${count(rows.length)} of ${count(total)}.`);
  const list = h("ul", { class: "review" }, rows.map((row) => h("li", { key: row[key] }, shown(row))));
  return [h("h3", null, `${name} (${count(total)})`), left, rows.length ? list : h("p", { class: "muted" }, none)];
}

function verdict(row, context) {
  const marks = [verdictMark(row.verdict), " ", row.score && verdictMark(row.score, true)];
  return [h("div", { class: "clamp" }, runLink(context, row)), h("div", null, marks), h("div", { class: "muted" }, row.why), commandLine(row.command)];
}

function item(row, context) {
  return [h("div", null, itemLink(context, row), " ", h("span", { class: "muted" }, `from ${row.src}`)), h("div", { class: "muted" }, row.why), commandLine(row.command)];
}
