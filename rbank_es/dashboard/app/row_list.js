// Lists of rows: words, filters, order and pages, as the served answers have them. Pure.

/** What a request asks that can't be answered: the page shows the message. */
export class BadRequest extends Error {}

/** Return whether every word, of those that `wordsOf` returns, occurs in the texts. */
export function hasWords(words, texts) {
  if (!words.length) return true;
  const joined = texts.filter((text) => text !== null).join(" ").toLowerCase();
  return words.every((word) => joined.includes(word));
}

/** Return the words of a query in lower case. */
export function wordsOf(query) {
  return (query ?? "").toLowerCase().split(/\s+/).filter(Boolean);
}

/** Return rows in the order that `sort` names: a column, "-" before it for descending; nulls last, ties newest first. */
export function sortedRows(rows, sort, columns, newest, id) {
  const descending = sort.startsWith("-");
  const name = descending ? sort.slice(1) : sort;
  if (!columns.includes(name)) throw new BadRequest(`can't sort by "${name}": there are ${columns.join(", ")}`);
  const way = descending ? -1 : 1;
  return [...rows].sort((a, b) => nulls(a[name], b[name]) || way * compared(a[name], b[name]) || b[newest] - a[newest] || compared(a[id], b[id]));
}

function nulls(a, b) {
  return Number(a === null) - Number(b === null);
}

/** Return the order of two values: numbers by size, texts by code points, as SQLite has it. */
export function compared(a, b) {
  if (a === b || a === null || b === null) return 0;
  if (typeof a !== "string") return a < b ? -1 : 1;
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  const [x, y] = [a, b].map((text) => (at < text.length ? weight(text.charCodeAt(at)) : -1));
  return x < y ? -1 : 1;
}

// A surrogate stands for a character beyond all others.
function weight(unit) {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}

const LIST_ROWS = 100;
const MOST_ROWS = 200;

/** Return the page of rows after the one with an id, the number of all, and the last id where more follow. */
export function pageOf(rows, { after, limit }, id) {
  const size = numberOf(limit, LIST_ROWS, 1, MOST_ROWS);
  const from = after ? rows.findIndex((row) => row[id] === after) + 1 : 0;
  if (after && !from) throw new BadRequest(`no row ${after} is in this list`);
  const shown = rows.slice(from, from + size);
  return { total: rows.length, next: from + size < rows.length ? shown.at(-1)[id] : null, rows: shown };
}

/** Return a whole number that was asked for, the usual one where none was. */
export function numberOf(given, usual, least, most) {
  if (given === undefined || given === null || given === "") return usual;
  const number = Number(given);
  if (!Number.isInteger(number) || number < least || number > most) throw new BadRequest(`${given} is no number from ${least} to ${most}`);
  return number;
}

/** Return the position that a point means: a position, a time in UTC, HEAD or HEAD~n, or a run's id (before it began). */
export function pointOf(bank, text) {
  const seq = seqOf(bank, ...text.match(/^(?:(seq|run):)?(.*)/s).slice(1));
  if (seq >= 0 && seq <= bank.head) return seq;
  throw new BadRequest("there is no such point in this bank: give a position, such as 120, a time, such as 2026-01-31T12:00, HEAD~5, or the id of a run");
}

function seqOf(bank, kind, name) {
  if (kind !== "run" && /^[0-9]+$/.test(name)) return Number(name);
  const back = kind ? null : /^HEAD(?:~([0-9]+))?$/.exec(name);
  if (back) return bank.head - (back[1] ?? 0);
  if (!kind && /^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)/.test(name)) return bank.positionOf(Date.parse(name.length > 10 && !/(Z|[+-][0-9]{2}:?[0-9]{2})$/.test(name) ? `${name}Z` : name) / 1000);
  const begun = bank.starts.filter(({ run }) => name && run.startsWith(name));
  const found = begun.length > 1 ? bank.start.get(name) : begun[0];
  return found ? found.from_seq - 1 : -1;
}

/** Return how many rows have each value. */
export function countedBy(rows, valueOf) {
  const counts = {};
  for (const row of rows) counts[valueOf(row)] = (counts[valueOf(row)] ?? 0) + 1;
  return counts;
}

/** Return whether a row's value is the one asked for; "none" asks for null, nothing for any. */
export function isWanted(value, wanted, known) {
  if (!wanted) return true;
  if (known && !known.includes(wanted)) throw new BadRequest(`"${wanted}" is none of ${known.join(", ")}`);
  return wanted === "none" ? value === null : value === wanted;
}

/** The states of items. */
export const STATES = ["active", "pending", "superseded", "merged", "forgotten", "unsupported", "withdrawn", "rejected"];

/** The polarities of items. */
export const POLARITIES = ["success", "failure"];

/** The values of a filter by outcome. */
export const OUTCOMES = ["submitted", "forced_at_limit", "failed", "none"];

/** The values of a filter by verdict. */
export const VERDICT_FILTER = ["success", "failure", "undecided", "none"];
