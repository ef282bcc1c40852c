// Parts that all pages share: verdicts, rates, tables, folds, texts, commands.
import { h } from "./renderer.js";
import { brief } from "./visible_text.js";
import { commandOn, count, day, DASH, percent, plural } from "./words.js";

const LINK_CHARS = 200;

export const SUCCESS_WORDS = { success: "success", failure: "failure", undecided: "undecided", none: "not judged" };
export const SCORE_WORDS = { success: "right", failure: "wrong", undecided: "undecided", none: "not scored" };
const MARKS = { success: "●", failure: "✕", undecided: "◐", none: "○" };

/** Return a verdict as a mark with its word; `isScore` takes the words of scores. */
export function verdictMark(verdict, isScore = false) {
  const name = verdict ?? "none";
  const words = isScore ? SCORE_WORDS : SUCCESS_WORDS;
  return h("span", { class: `verdict-mark ${name}` }, `${MARKS[name]} ${words[name]}`);
}

/** Return what must be marked of a run wherever it is named: that chance or a script stood in for a model. */
export function runTags(row) {
  return [row.simulated && h("span", { class: "tag loud" }, "SIMULATED"), row.scripted && h("span", { class: "tag" }, "scripted"), row.recall_sent === false && h("span", { class: "tag bad" }, "recalled, not sent")];
}

/** Return a link to a run, by its task. */
export function runLink(context, row) {
  return h("a", { href: context.href("run", row.run), class: "text" }, brief(row.task, LINK_CHARS) || row.run);
}

/** Return an error in which runs ended, with their number and the newest of them. */
export function failedRun(context, row) {
  return [h("div", { class: "clamp" }, h("b", null, plural(row.runs, "run")), " ended in an error: ", h("span", { class: "error-code text" }, brief(row.reason))), h("div", { class: "clamp" }, row.runs > 1 && "The newest: ", runLink(context, row))];
}

/** Return a link to an item, by its title; erased and unknown ones say so. */
export function itemLink(context, item) {
  const title = item.title === null ? `${item.id} (not in this bank yet)` : item.title || "(text erased)";
  return h("a", { href: context.href("item", item.id), class: "text" }, title);
}

/** Return the state of an item as a tag. */
export function stateTag(state) {
  return h("span", { class: `tag state-${state}` }, state ?? "not there yet");
}

/** Return a figure with its name, its whole (null: it has none), and what it is about. */
export function figure(name, value, of, about) {
  return h("div", null, h("dt", null, name), h("dd", { class: "value" }, count(value), of !== null && h("small", null, ` of ${count(of)}`)), h("dd", null, about));
}

/** Return a share of wins with its 95 % interval, as a drawing with numbers beside it. */
export function rate({ wins, losses, win_rate: share, win_rate_low: low, win_rate_high: high }) {
  const judged = wins + losses;
  if (!judged) return h("span", { class: "muted" }, "not used in a decided run");
  const label = `${wins} of ${judged}, likely ${percent(low)} to ${percent(high)}`;
  const drawing = h(
    "svg",
    { viewBox: "-5 0 110 12", width: 110, height: 12, role: "img", "aria-label": label },
    h("line", { x1: 0, x2: 100, y1: 6, y2: 6, class: "axis" }),
    h("line", { x1: low * 100, x2: high * 100, y1: 6, y2: 6, class: "interval" }),
    h("circle", { cx: share * 100, cy: 6, r: 3.5, class: "dot" }),
  );
  return h("span", { class: "rate", title: label }, drawing, h("span", { class: "number" }, `${wins}/${judged}`));
}

/**
 * Return a table, or a sentence where it has no rows. Columns are {name, cell(row), number, wide, control, sort}: `sort` names the column in the address,
 * `control` marks one that isn't printed. The first column names its row. `key` is the column of rows that tells them
 * apart.
 */
export function table({ caption, columns, rows, key, sort = "", onSort }) {
  if (!rows.length) return h("p", { class: "muted" }, caption, ". Nothing to list.");
  const head = columns.map((column) => h("th", { scope: "col", class: cellClass(column), "aria-sort": ariaSort(column, sort) }, heading(column, sort, onSort)));
  const body = rows.map((row, i) => h("tr", { key: key ? row[key] : i }, columns.map((column, j) => cellOf(column, row, j === 0))));
  const made = h("table", null, h("caption", null, caption), h("thead", null, h("tr", null, head)), h("tbody", null, body));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": typeof caption === "string" ? caption : "table" }, made);
}

function cellClass({ number, wide, control }) {
  return [number && "number", wide && "wide", control && "on-screen"].filter(Boolean).join(" ") || null;
}

function cellOf(column, row, first) {
  const shown = column.cell(row);
  const attributes = { class: cellClass(column), "data-name": column.name };
  return first ? h("th", { ...attributes, scope: "row" }, shown) : h("td", attributes, shown ?? DASH);
}

function ariaSort(column, sort) {
  if (!column.sort || sort.replace("-", "") !== column.sort) return null;
  return sort.startsWith("-") ? "descending" : "ascending";
}

function heading(column, sort, onSort) {
  if (!column.sort) return column.name;
  const way = ariaSort(column, sort);
  const next = way === "descending" ? column.sort : "-" + column.sort;
  const arrow = way === "descending" ? " ▼" : way === "ascending" ? " ▲" : "";
  return h("button", { class: "plain", type: "button", onclick: () => onSort(next) }, column.name + arrow);
}

/** Return columns of numbers, given their names and keys; rows are sorted by them where a list `sorts`. */
export function numbers(keys, { sorts = true, format = count } = {}) {
  return Object.entries(keys).map(([name, key]) => ({ name, number: true, sort: sorts && key, cell: (row) => format(row[key]) }));
}

/** Return a page of a list as a table that its columns sort: by `order` unless the address says otherwise. */
export function listTable(context, { rows, total, rows_held: held }, { noun, columns, key, order }) {
  const caption = `${plural(total, noun)} as of position ${count(context.at)}, ${day(context.bank.last_at)}${held ? `; this file holds the first ${count(held)}, and filters and sorts only those` : ""}`;
  return table({ caption, columns, rows, key, sort: context.address.parameters.sort || order, onSort: (sort) => context.setParameters({ sort, after: "" }) });
}

/** Return the buttons to the first and the next page of a list. */
export function pager(context, answer) {
  const { after } = context.address.parameters;
  if (!after && !answer.next) return null;
  const to = (place) => () => context.setParameters({ after: place }, true);
  return h(
    "p",
    { class: "pager" },
    `${count(answer.rows.length)} of ${count(answer.total)} shown. `,
    h("button", { type: "button", disabled: !after, onclick: to("") }, "First page"),
    " ",
    h("button", { type: "button", disabled: !answer.next, onclick: to(answer.next) }, "Next page"),
  );
}

const openFolds = new Map();

/** Return a fold, whose content `body()` is made only while it is open; `key` keeps it open while time moves. */
export function fold(context, key, name, note, body, isOpen = false) {
  const open = openFolds.get(key) ?? isOpen;
  const onToggle = (event) => {
    if ((openFolds.get(key) ?? isOpen) === event.target.open) return;
    openFolds.set(key, event.target.open);
    context.refresh();
  };
  const summary = h("summary", null, h("span", null, name), note && h("small", null, note));
  return h("details", { key, open, ontoggle: onToggle }, summary, open && body());
}

/** Return words that scroll by keyboard where they are long. */
export function words(label, text) {
  return h("p", { class: "big text answer", tabindex: 0, role: "group", "aria-label": label }, text);
}

/** Return preformatted text that scrolls by keyboard: a group, because a landmark for each text would hide the others. */
export function pre(label, text) {
  return h("pre", { tabindex: 0, role: "group", "aria-label": label }, text);
}

const loadedTexts = new Map();

/** Return a text of an event as answers hold it; what is left of a long one is loaded in blocks on demand. */
export function textBlock(context, label, value, seq, shownAs = (text) => text) {
  if (value === null || value === undefined) return h("p", { class: "muted" }, "not recorded");
  if (value.erased) return h("p", { class: "muted" }, "(text erased)");
  if (value.text === null) return h("p", { class: "muted" }, `${count(value.chars)} characters, left out of this page`);
  if (value.next_offset === null) return pre(label, shownAs(value.text));
  const key = `${seq}/${value.path}`;
  const loaded = loadedTexts.get(key) ?? { text: value.text, next: 0 };
  const load = async () => {
    const { block } = await context.source.get("text", { at: context.at, event: seq, path: value.path, offset: loaded.next });
    if (!block) return;
    const before = loaded.next ? loaded.text : "";
    loadedTexts.set(key, { text: before + block.text, next: block.next_offset });
    context.refresh();
  };
  const isWhole = loadedTexts.has(key) && loaded.next === null;
  const more = !isWhole && h("button", { type: "button", onclick: load }, `Show more of ${count(value.chars)} characters`);
  return [pre(label, isWhole ? shownAs(loaded.text) : loaded.text), more && h("p", null, more)];
}

/** Return a command to type, with a button that copies it; `label` says when to. */
export function commandLine(command, label = "") {
  const copy = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy it by hand";
    }
    button.ariaLabel = button.textContent;
  };
  return h("p", { class: "command" }, label && h("span", { class: "muted" }, label), h("code", null, command), " ", h("button", { type: "button", onclick: copy, "aria-label": `Copy ${command}` }, "Copy"));
}

/** Return the controls of a list: fields {name, label, options: [value, word][], hint}. */
export function filters(context, fields) {
  const { parameters } = context.address;
  const change = (name) => (event) => context.setParameters({ [name]: event.target.value, after: "" });
  const control = ({ name, label, options, hint }) => {
    const id = `filter-${name}`;
    const value = parameters[name] ?? "";
    const choices = options?.map(([each, word]) => h("option", { value: each, key: each }, word));
    const made = options
      ? h("select", { id, value, onchange: change(name) }, h("option", { value: "", key: "" }, "all"), choices)
      : h("input", { id, type: "search", value, placeholder: hint, oninput: change(name) });
    return h("label", { for: id, key: name }, label + " ", made);
  };
  return h("form", { class: "filter", role: "search", "aria-label": "Filter", onsubmit: (event) => event.preventDefault() }, fields.map(control));
}

/** Return a note in a box. */
export function note(...words) {
  return h("p", { class: "note" }, words);
}

/** Return what a file shows in place of a point between two of its stops; nothing where it has the point. */
export function between({ bank }, point) {
  if (!point) return null;
  return h("div", { class: "note" }, h("p", null, `This file holds ${plural(bank.stops.length, "position")} of the log: what is shown for ${point} is as of the last of them before it.`), commandLine(commandOn("serve", [bank.command]), "Every position has:"));
}

