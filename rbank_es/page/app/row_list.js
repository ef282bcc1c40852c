// Lists of an exported page: the words, filters, order and pages of rows as they stand in the file. Pure.

// Rows of one page.
export const ROWS = 100;

// The names that rows have in the answers with lists.
const NOUNS = { runs: "runs", items: "items", leakage: "runs", events: "events" };

/** Return an answer with a list, whose rows are then `rows` too; any other as it is. */
export function withRows(name, found) {
  const rows = found?.[NOUNS[name]];
  return rows ? { ...found, rows } : found;
}

/** Return one page of a list: `asked` are words `q`, an order `sort`, the row `after` which to go on, and values by column. */
export function pageOf(list, { q = "", sort = "", after = "", limit = ROWS, where = [], ...wanted }, [id, ...texts]) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const filters = [...Object.entries(wanted), ...where.map((each) => each.split(/=(.*)/s))].filter(([, value]) => value);
  const columns = [...filters.map(([name]) => name), ...(sort ? [sort.replace("-", "")] : [])];
  const unknown = list.rows.length && columns.find((name) => !Object.hasOwn(list.rows[0], name));
  if (unknown) return { error: `The rows in this file say nothing of "${unknown}".` };
  const fitting = list.rows.filter((row) => filters.every(([name, value]) => isWanted(row[name], value)) && hasWords(words, [id, ...texts].map((name) => row[name])));
  const rows = sort ? sortedRows(fitting, sort) : fitting;
  const from = after ? rows.findIndex((row) => row[id] === after) + 1 : 0;
  if (after && !from) return { error: `The list in this file has no row ${after}.` };
  const shown = rows.slice(from, from + limit);
  const next = from + limit < rows.length ? shown.at(-1)[id] : null;
  const isFiltered = words.length + filters.length > 0;
  // Rows that aren't in the file are neither filtered nor sorted: the page says so.
  return { ...list, rows: shown, total: isFiltered ? rows.length : list.total, next, rows_held: list.next === null ? null : list.rows.length };
}

/** Return the conditions that named parameters have the values of, as questions take them. */
export function conditions(values, names) {
  return names.filter((name) => values[name]).map((name) => `${name}=${values[name]}`);
}

/** Return whether a row's value is the one asked for, or has it; "none" asks for null. */
export function isWanted(value, wanted) {
  if (Array.isArray(value)) return value.includes(wanted);
  return wanted === "none" ? value === null : value === wanted;
}

/** Return whether every word occurs in the texts. */
export function hasWords(words, texts) {
  const joined = words.length ? texts.filter(Boolean).join(" ").toLowerCase() : "";
  return words.every((word) => joined.includes(word));
}

/** Return rows by a column, "-" before it for descending; nulls last, ties in the order that they had. */
export function sortedRows(rows, sort) {
  const name = sort.replace("-", "");
  const way = sort.startsWith("-") ? -1 : 1;
  return [...rows].sort(({ [name]: a }, { [name]: b }) => Number(a === null) - Number(b === null) || (a < b ? -way : Number(a > b) * way));
}
