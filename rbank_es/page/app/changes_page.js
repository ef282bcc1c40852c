// What changed since a point: up to where the slider is.
import { between, itemLink, runLink, stateTag, table, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count, DASH, minute, plural } from "./words.js";

export const changesPage = {
  name: "changes",
  tab: "What changed",
  title: () => "What changed",
  ask: ({ parameters: { from } }) => ({ changes: ["changes", { from: from || "0" }] }),
  view: ({ changes }, context) => [h("h2", null, "What changed"), choice(context, changes), between(context, changes.between), summary(changes, context), items(changes, context), verdicts(changes, context), policies(changes)],
  refused: ({ error }, context) => [h("h2", null, "What changed"), choice(context), h("p", { class: "note" }, error)],
};

function choice(context, { from, from_time: time } = {}) {
  const found = from === undefined ? "" : `position ${count(from)}${time && `, ${minute(time)} UTC`}, `;
  const change = (event) => context.setParameters({ from: event.target.value });
  const field = h("input", { id: "from", type: "text", value: context.address.parameters.from ?? "0", title: "A position, a time in UTC such as 2026-01-31 or 2026-01-31T12:00, HEAD~50, or the id of a run", onchange: change });
  const before = context.bank.notable.filter(({ seq }) => seq <= context.at).at(-1);
  const last = before && h("button", { type: "button", onclick: () => context.setParameters({ from: String(before.seq - 1) }) }, "Since before the last notable change");
  return h("form", { class: "filter", onsubmit: (event) => event.preventDefault() }, h("label", { for: "from" }, "Since ", field), h("span", null, `${found}to position ${count(context.at)}, where the slider is.`), last);
}

function summary({ from, runs, first_verdicts: first, items: { total, added }, verdicts: { total: judged } }, { at }) {
  const values = Object.entries(first).map(([verdict, n]) => `${count(n)} ${verdict}`).join(", ");
  return h("p", null, `${plural(at - from, "event")}: ${plural(runs, "run")} began; judged for the first time: ${values || "none"}; ${plural(judged, "verdict")} changed; ${plural(added, "item")} added, ${count(total - added)} of those before in another state.`);
}

function turn(before, after, shown) {
  const [was, is] = [before === null ? h("span", { class: "muted" }, "not there") : shown(before), after === null ? h("span", { class: "muted" }, DASH) : shown(after)];
  return h("span", { class: "nowrap" }, was, " → ", is);
}

function shownOf(name, { total, rows }) {
  return `${name}, the latest first${total > rows.length ? `: ${count(rows.length)} of ${count(total)}` : ""}`;
}

function items({ items: found }, context) {
  if (!found.rows.length) return null;
  const columns = [
    { name: "Item", wide: true, cell: (row) => itemLink(context, row) },
    { name: "State", cell: (row) => turn(row.before, row.after, stateTag) },
    { name: "At", number: true, cell: (row) => h("a", { href: context.href("item", row.id, { at: row.seq }) }, count(row.seq)) },
  ];
  return [h("h3", null, "Items"), table({ caption: shownOf("Items in another state", found), columns, rows: found.rows, key: "id" })];
}

function verdicts({ verdicts: found }, context) {
  if (!found.rows.length) return null;
  const columns = [
    { name: "Run", wide: true, cell: (row) => runLink(context, row) },
    { name: "Judged", cell: (row) => turn(row.before, row.after, (verdict) => verdictMark(verdict)) },
    { name: "At", number: true, cell: (row) => h("a", { href: context.href("run", row.run, { at: row.seq }) }, count(row.seq)) },
  ];
  return [h("h3", null, "Verdicts"), table({ caption: shownOf("Verdicts that changed", found), columns, rows: found.rows, key: "run" })];
}

function policies({ policies: rows }) {
  if (!rows.length) return null;
  const columns = [
    { name: "Kind", cell: (row) => row.kind },
    { name: "Policy", cell: (row) => `${row.before ?? "none"} → ${row.after ?? "none"}${row.before === row.after ? ", other settings" : ""}` },
  ];
  return [h("h3", null, "Policies"), table({ caption: "Policies in force", columns, rows, key: "kind" })];
}
