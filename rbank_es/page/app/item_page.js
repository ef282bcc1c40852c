// One item: may it be trusted? Where it comes from, who was given it, and what became of it.
import { itemLink, note, pre, rate, runLink, stateTag, table, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count, decided, plural } from "./words.js";

export const itemPage = {
  name: "item",
  under: "items",
  title: ({ item }) => item.title || "Item",
  ask: ({ argument }) => ({ item: ["item", { id: argument }] }),
  view: ({ item }, context) => [
    h("p", { class: "crumb" }, h("a", { href: context.href("items") }, "Items"), " / ", h("code", null, item.id)),
    h("h2", { class: "text" }, item.title || "(text erased)"),
    h("p", null, stateTag(item.state), " ", h("span", { class: "muted" }, facts(item))),
    item.warning && h("p", { class: "note bad" }, item.warning),
    h("div", { class: "columns lead" }, words(item), origin(item, context)),
    given(item, context),
    life(item, context),
  ],
};

function facts(item) {
  const kind = item.polarity === "failure" ? "a guardrail" : "a strategy";
  const domains = item.domains.length ? `, for ${item.domains.join(", ")}` : "";
  return `${kind}, drawn from ${item.src}${domains}, support ${count(item.support)}${item.vouched ? ", a person vouched for it" : ""}`;
}

function words(item) {
  const said = item.erased ? h("p", { class: "muted" }, "Its words were erased; what happened to it stays.") : [h("p", { class: "big text" }, item.desc), pre("content", item.content)];
  return h("section", null, h("h3", null, "What it says"), said, item.tags.length > 0 && h("p", { class: "muted text" }, item.tags.join(", ")));
}

function origin(item, context) {
  const chain = item.back.map((each, i) => {
    const at = each.seq;
    const run = each.run === null ? "by hand" : runLink(context, each);
    const relied = each.relied === null ? "not judged then" : [verdictMark(each.relied), " then"];
    const now = each.relied !== each.verdict && each.run !== null && [", ", verdictMark(each.verdict), " now"];
    const then = each.run !== null && [" ", h("a", { href: context.href("run", each.run, { at }) }, "(the run as it was)")];
    const counts = each.stands ? "" : "; it no longer counts";
    return h("li", { key: i }, run, " ", h("span", null, relied, now, then), h("div", { class: "muted" }, `extracted as ${each.kind} at position ${count(at)}; ${decided(each.action)}${each.undone ? ", undone" : ""}${counts}`));
  });
  const judged = item.wins + item.losses;
  return h(
    "section",
    null,
    h("h3", null, "How it fared"),
    h("p", null, rate({ wins: item.wins, judged }), h("span", { class: "muted" }, `${judged ? " wins of decided uses" : ""}; ${plural(item.uses, "use")} in all, found by ${plural(item.forward.searches, "search", "searches")}`)),
    h("h3", null, "Where it comes from"),
    h("ol", { class: "chain" }, chain),
  );
}

function given(item, context) {
  const columns = [
    { name: "Run", wide: true, cell: (row) => runLink(context, row) },
    { name: "Judged", cell: (row) => verdictMark(row.verdict) },
    { name: "How", cell: (row) => h("span", { class: "nowrap" }, row.way === "read" ? "read in full" : row.way) },
    { name: "At", number: true, cell: (row) => h("a", { href: context.href("run", row.run, { at: row.seq }) }, count(row.seq)) },
  ];
  const { runs } = item.forward;
  const rows = runs.map((row) => ({ ...row, key: `${row.run} ${row.way}` }));
  const shown = runs.length ? table({ caption: "Runs that were given it, newest first", columns, rows, key: "key" }) : note("No run has been given it yet.");
  return [h("h3", null, "Where it went"), shown];
}

function life(item, context) {
  const states = item.states.map((span) => {
    const at = h("a", { href: context.href("item", item.id, { at: span.from }) }, `position ${count(span.from)}`);
    return h("li", { key: span.from }, stateTag(span.state), " from ", at, span.to !== null && ` to ${count(span.to)}`);
  });
  const links = item.links.map((link) => {
    const other = itemLink(context, link);
    const said = link.from_here ? [`${link.how} `, other] : [other, ` ${link.how} it`];
    return h("li", { key: `l${link.seq} ${link.id}` }, said);
  });
  return [h("h3", null, "What became of it"), h("ol", { class: "chain" }, states, links)];
}
