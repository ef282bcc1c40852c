// What changed since a point: up to where the slider is.
import { between, itemLink, runLink, stateTag, table, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count, DASH, minute, plural } from "./words.js";

export const changesPage = {
  name: "changes",
  tab: "What changed",
  title: () => "What changed",
  ask: ({ parameters: { from } }) => ({ changes: ["difference", { since: from || "0", states: true }] }),
  view: ({ changes }, context) => [
    h("h2", null, "What changed"),
    choice(context, changes),
    between(context, changes.between),
    summary(changes, context),
    changed(context, "item", "Items in another state", changes.items, changes.counts.items_in_state, "id", itemLink, "state", stateTag),
    changed(context, "run", "Verdicts that changed", changes.runs, changes.counts.verdicts_changed, "run", runLink, "verdict", (verdict) => verdictMark(verdict)),
    policies(changes),
  ],
  refused: ({ error }, context) => [h("h2", null, "What changed"), choice(context), h("p", { class: "note" }, error)],
};

function choice(context, { since_seq: since, since_at: time } = {}) {
  const found = since === undefined ? "" : `position ${count(since)}${time ? `, ${minute(time)} UTC` : ""}, `;
  const change = (event) => context.setParameters({ from: event.target.value });
  const field = h("input", { id: "from", type: "text", value: context.address.parameters.from ?? "0", title: "A position, a time in UTC such as 2026-01-31 or 2026-01-31T12:00, HEAD~50, or the id of a run", onchange: change });
  const before = context.bank.notable.filter(({ seq }) => seq <= context.at).at(-1);
  const last = before && h("button", { type: "button", onclick: () => context.setParameters({ from: String(before.seq - 1) }) }, "Since before the last notable change");
  return h("form", { class: "filter", onsubmit: (event) => event.preventDefault() }, h("label", { for: "from" }, "Since ", field), h("span", null, `${found}to position ${count(context.at)}, where the slider is.`), last);
}

function summary({ since_seq: since, counts }, { at }) {
  const values = Object.entries(counts.first_verdicts).map(([verdict, n]) => `${count(n)} ${verdict}`).join(", ");
  return h("p", null, `${plural(Math.abs(at - since), "event")}: ${plural(counts.runs_began, "run")} began; judged for the first time: ${values || "none"}; ${plural(counts.verdicts_changed, "verdict")} changed; ${plural(counts.items_added, "item")} added, ${count(counts.items_in_state - counts.items_added)} of those before in another state.`);
}

function turn(before, after, shown) {
  const [was, is] = [before === null ? h("span", { class: "muted" }, "not there") : shown(before), after === null ? h("span", { class: "muted" }, DASH) : shown(after)];
  return h("span", { class: "nowrap" }, was, " → ", is);
}

/** Return a list of what is another one in a fact, the latest change first. */
function changed(context, page, caption, rows, total, key, link, fact, shown) {
  if (!rows.length) return null;
  const columns = [
    { name: "Which", wide: true, cell: (row) => link(context, row) },
    { name: "Change", cell: (row) => turn(row.before?.[fact] ?? null, row.after?.[fact] ?? null, shown) },
    { name: "At", number: true, cell: (row) => h("a", { href: context.href(page, row[key], { at: row.changed_seq }) }, count(row.changed_seq)) },
  ];
  const most = total > rows.length ? `: ${count(rows.length)} of ${count(total)}` : "";
  return [h("h3", null, caption), table({ caption: `The latest first${most}`, columns, rows, key })];
}

function policies({ policies: rows }) {
  if (!rows.length) return null;
  const columns = [
    { name: "Policy or setting", cell: ({ kind, setting }) => (setting === null ? kind : `${kind}.${setting}`) },
    { name: "Change", cell: ({ before, after }) => `${before ?? "none"} → ${after ?? "none"}` },
  ];
  return [h("h3", null, "Policies"), table({ caption: "Policies in force", columns, rows })];
}
