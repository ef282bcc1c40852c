// The list of items: which lessons does the bank hold, and how did they fare?
import { filters, itemLink, listTable, note, numbers, pager, rate, stateTag } from "./parts.js";
import { h } from "./renderer.js";
import { conditions, ROWS } from "./row_list.js";

const STATES = ["active", "pending", "superseded", "merged", "forgotten", "unsupported", "withdrawn", "rejected"];
const FILTERS = [
  { name: "q", label: "Words", hint: "in the item's text" },
  { name: "state", label: "State", options: STATES.map((state) => [state, state]) },
  { name: "polarity", label: "Kind", options: [["success", "strategy"], ["failure", "guardrail"]] },
];
const BORN = "-born_seq";

export const itemsPage = {
  name: "items",
  tab: "Items",
  title: () => "Items",
  ask: ({ parameters: { q, sort, after, ...values } }) => ({ items: ["items", { q, sort: sort || BORN, limit: ROWS, after, where: conditions(values, ["state", "polarity"]) }] }),
  view: ({ items }, context) => [h("h2", null, "Items"), filters(context, FILTERS), words(context), list(items, context), pager(context, items)],
};

function words({ address, source }) {
  return address.parameters.q && source.inFile && note("This file looks for words in ids, titles and descriptions, and not in contents.");
}

function list(items, context) {
  const columns = [
    { name: "Item", sort: "title", wide: true, cell: (row) => [itemLink(context, row), h("div", { class: "muted text clamp" }, row.desc)] },
    { name: "State", sort: "state", cell: (row) => stateTag(row.state) },
    { name: "Drawn from", sort: "src", cell: (row) => h("span", { class: "nowrap" }, row.src) },
    { name: "Kind", sort: "polarity", cell: (row) => h("span", { class: "nowrap" }, row.polarity === "failure" ? "guardrail" : "strategy") },
    ...numbers({ Uses: "uses" }),
    { name: "Wins of decided uses", sort: "wins", cell: (row) => rate(row) },
    ...numbers({ Support: "support", "Born at": "born_seq" }),
  ];
  return listTable(context, items, { noun: "item", columns, key: "id", order: BORN });
}
