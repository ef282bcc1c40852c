// One item: may it be trusted? Where it comes from, who was given it, and what became of it.
import { commandLine, itemLink, note, pre, rate, runLink, stateTag, table, verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count, decided, plural } from "./words.js";

// Uses of one page, as a file holds them.
const USES = 200;

export const itemPage = {
  name: "item",
  under: "items",
  title: ({ item: { item } }) => item.title || "Item",
  ask: ({ argument }) => ({ item: ["item", { item: argument, history: false, limit: USES }] }),
  view: ({ item: found }, context) => page(found, found.item, context),
};

function page(found, item, context) {
  return [
    h("p", { class: "crumb" }, h("a", { href: context.href("items") }, "Items"), " / ", h("code", null, item.id)),
    h("h2", { class: "text" }, item.title || "(text erased)"),
    h("p", null, stateTag(item.state), " ", h("span", { class: "muted" }, facts(item))),
    found.warning && h("p", { class: item.support ? "note" : "note bad" }, found.warning),
    h("div", { class: "columns lead" }, words(item), origin(found, context)),
    given(found, context),
    life(found, context),
    found.command && commandLine(found.command, "To take it back:"),
  ];
}

function facts(item) {
  const kind = item.polarity === "failure" ? "a guardrail" : "a strategy";
  const domains = item.domains.length ? `, for ${item.domains.join(", ")}` : "";
  return `${kind}, drawn from ${item.src}${domains}, support ${count(item.support)}${item.vouched ? ", a person vouched for it" : ""}`;
}

function words(item) {
  const said = item.erased ? h("p", { class: "muted" }, "Its words were erased; what happened to it stays.") : [h("p", { class: "big text" }, item.desc), pre("content", item.content)];
  return h("section", null, h("h3", null, "What it says"), said, item.tags.length > 0 && h("p", { class: "muted text" }, item.tags.join(", ")));
}

function origin({ item, grounds, searches }, context) {
  const chain = grounds.map((each, i) => {
    const runs = each.runs.map((run) => h("div", { key: run.run }, source(run, each.seq, context)));
    const counts = each.stands ? "" : "; it no longer counts";
    return h("li", { key: i }, runs.length ? runs : "by hand", h("div", { class: "muted" }, `extracted as ${each.kind} at position ${count(each.seq)}; ${decided(each.action)}${each.undone ? ", undone" : ""}${counts}`));
  });
  const judged = item.wins + item.losses;
  return h(
    "section",
    null,
    h("h3", null, "How it fared"),
    h("p", null, rate(item), h("span", { class: "muted" }, `${judged ? " wins of decided uses" : ""}; ${plural(item.uses, "use")} in all, found by ${plural(searches, "search", "searches")}`)),
    h("h3", null, "Where it comes from"),
    h("ol", { class: "chain" }, chain),
  );
}

function source(run, at, context) {
  const relied = run.relied_verdict === null ? "not judged then" : [verdictMark(run.relied_verdict), " then"];
  const now = run.relied_verdict !== run.verdict && [", ", verdictMark(run.verdict), " now"];
  return [runLink(context, run), " ", h("span", null, relied, now, " ", h("a", { href: context.href("run", run.run, { at }) }, "(the run as it was)"))];
}

function given({ used_in: uses, used_in_total: total }, context) {
  const columns = [
    { name: "Run", wide: true, cell: (row) => runLink(context, row) },
    { name: "Judged", cell: (row) => verdictMark(row.verdict) },
    { name: "How", cell: (row) => h("span", { class: "nowrap" }, row.way === "read" ? "read in full" : row.way) },
    { name: "At", number: true, cell: (row) => h("a", { href: context.href("run", row.run, { at: row.seq }) }, count(row.seq)) },
  ];
  const caption = `Runs that were given it, newest first${total > uses.length ? `: ${count(uses.length)} of ${plural(total, "use")}` : ""}`;
  const shown = uses.length ? table({ caption, columns, rows: uses }) : note("No run has been given it yet.");
  return [h("h3", null, "Where it went"), shown];
}

function life({ item, states: spans, links: linked }, context) {
  const states = spans.map(({ state, since_seq: since, until_seq: until }) => {
    const at = h("a", { href: context.href("item", item.id, { at: since }) }, `position ${count(since)}`);
    return h("li", { key: since }, stateTag(state), " from ", at, until !== null && ` to ${count(until)}`);
  });
  const links = linked.map((link) => {
    const other = itemLink(context, { ...link, id: link.item });
    const said = link.from_here ? [`${link.how} `, other] : [other, ` ${link.how} it`];
    return h("li", { key: `l${link.seq} ${link.item}` }, said);
  });
  return [h("h3", null, "What became of it"), h("ol", { class: "chain" }, states, links)];
}
