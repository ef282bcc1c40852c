// What stands around every page: name, navigation, search, notes about the bank, slider and footer.
import { pageNamed, PAGES } from "./pages.js";
import { between, commandLine, note } from "./parts.js";
import { h } from "./renderer.js";
import { timeSlider } from "./time_slider.js";
import { count, plural } from "./words.js";

/** Return the whole page: `answers` of the page asked for, or {error}. */
export function shell(state, context) {
  const page = pageNamed(state.address.page);
  const key = `${state.address.page}/${state.address.argument}`;
  return [
    header(page, context),
    timeSlider(context.bank, context.at, context.move),
    h("p", { class: "news", role: "status" }, state.news > 0 && `${plural(state.news, "new event")} since.`),
    h("main", { id: "main", tabindex: -1, key }, marks(context), content(page, state, context)),
    footer(context),
  ];
}

function header(page, context) {
  const marked = page?.under ?? page?.name;
  const tabs = PAGES.filter((each) => each.tab).map((each) =>
    h("li", { key: each.name }, h("a", { href: context.href(each.name), "aria-current": each.name === marked ? "page" : null }, each.tab)),
  );
  const find = (event) => {
    event.preventDefault();
    location.hash = context.href("search", "", { q: event.target.elements.q.value });
  };
  const field = h("input", { type: "search", name: "q", "aria-label": "Search the bank", placeholder: "Search the bank", value: page?.name === "search" ? context.address.parameters.q : "" });
  const search = h("form", { class: "find", role: "search", "aria-label": "Search", onsubmit: find }, field);
  return h("header", { class: "top" }, h("h1", { class: "text" }, context.bank.bank), h("nav", { "aria-label": "Pages" }, h("ul", null, tabs)), search);
}

function marks(context) {
  const { bank, source } = context;
  const { runs } = bank;
  return [
    bank.simulated > 0 && note(h("b", null, "SIMULATED"), `: in ${count(bank.simulated)} of ${plural(runs, "run")} chance stood in for the agent.`),
    bank.scripted > 0 && note(bank.scripted === runs ? `Scripted: all ${plural(runs, "run")} here` : `Scripted: ${count(bank.scripted)} of ${plural(runs, "run")}`, ", written to show how it works. No model ran."),
    between(context, bank.between),
    source.inFile && left(source.inFile),
  ];
}

function left({ runs, whole_runs: wholeRuns, items, whole_items: wholeItems, prompts }) {
  return [
    wholeRuns < runs && note(`This file holds ${count(wholeRuns)} of ${plural(runs, "run")} with their events: the newest, and failures before them.`),
    wholeItems < items && note(`This file holds ${count(wholeItems)} of ${plural(items, "item")} with what they came from and led to: the newest, and the most used of the others.`),
    !prompts && note("Prompts were left out of this file."),
  ];
}

function content(page, state, context) {
  if (!page) return [h("h2", null, "No such page"), h("p", null, h("a", { href: context.href("overview") }, "To the overview"))];
  if (!state.error) return page.view(state.answers, context);
  return page.refused && !state.failed?.isNewest ? page.refused(state.failed ?? state, context) : problem(state, context);
}

function problem({ error, failed, address }, context) {
  const newest = context.at < context.bank.head && h("p", null, h("a", { href: context.href(address.page, address.argument, { ...address.parameters, at: null }) }, "See it at the newest position"));
  // Beside a point between two stops the command stands already.
  const command = failed?.command && !(failed.isNewest && context.bank.between) && commandLine(failed.command, failed.isNewest ? "Every position has:" : "");
  return [h("h2", null, failed?.command ? "Not in this file" : newest ? "Not at this position" : "Not found"), h("p", { class: "note" }, error), newest, command];
}

function footer({ bank, source }) {
  const digest = bank.head_digest ? [", head ", h("code", null, `${bank.head}:${bank.head_digest}`)] : null;
  const kind = source.isLive ? "Read only, and live." : "Read only; this page asks no network for anything.";
  const forked = bank.forked_from && `, forked from ${bank.forked_from}`;
  return h("footer", null, h("span", { class: "text" }, bank.bank), forked, `, position ${count(bank.head)}`, digest, `. ${kind} A dash means not recorded; it never means zero.`);
}
