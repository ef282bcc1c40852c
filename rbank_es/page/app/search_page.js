// Items found by words, and which ranking found them.
import { commandLine, itemLink, note, table } from "./parts.js";
import { h } from "./renderer.js";
import { count, plural } from "./words.js";

export const searchPage = {
  name: "search",
  title: () => "Search",
  ask: ({ parameters: { q } }) => ({ search: ["search", { query: q }] }),
  view: ({ search }, context) => [
    h("h2", { class: "text" }, `Items for “${context.address.parameters.q}”`),
    h("p", { class: "muted" }, `As of position ${count(context.at)}; ranked by ${search.policy}, as agents are given items at this position.`),
    found(search.hits, plural(search.hits.length, "item"), context),
    search.withheld.length > 0 && [h("h3", null, "Kept back"), h("p", { class: "muted" }, "Too little of the query occurs in these, so agents are not given them."), found(search.withheld, plural(search.withheld.length, "item"), context)],
    runs(context),
  ],
  refused: ({ error, command }, context) => [
    h("h2", null, "Search"),
    context.address.parameters.q ? [note(error), command && commandLine(command), runs(context)] : h("p", { class: "muted" }, "Type some words above."),
  ],
};

function found(hits, caption, context) {
  if (!hits.length) return h("p", null, "No active item fits.");
  const columns = [
    ...(hits.some((row) => row.rank) ? [{ name: "Rank", number: true, cell: (row) => count(row.rank) }] : []),
    { name: "Item", wide: true, cell: (row) => [itemLink(context, row), h("div", { class: "muted text" }, row.desc)] },
    { name: "Kind", cell: (row) => h("span", { class: "nowrap" }, row.polarity === "failure" ? "guardrail" : "strategy") },
    ...(hits.some((row) => row.score !== null) ? [{ name: "Score", number: true, cell: (row) => count(row.score) }] : []),
  ];
  return table({ caption, columns, rows: hits, key: "id" });
}

function runs(context) {
  const { q } = context.address.parameters;
  const links = [["runs", "runs with these words in their task"], ["items", "items in every state"]];
  return h("p", null, "Look also for ", links.map(([page, words], i) => [i > 0 && " or ", h("a", { href: context.href(page, "", { q }) }, words)]), ".");
}
