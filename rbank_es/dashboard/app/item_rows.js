// Rows of items as of a position, computed from the rows of an exported bank.
import { compared } from "./row_list.js";
import { short, verdictOf } from "./run_rows.js";
import { isThere, standing } from "./time_model.js";

/** Return the state of an item at a position; null before it was born. */
export function stateOf(bank, item, position) {
  return standing(bank.states.get(item), position)?.state ?? null;
}

/** Return the way in which a use counts by the policy in force (injected or read); null where either does. */
export function countedWay(bank, position) {
  const choice = bank.tables.policy_choices.find((row) => row.kind === "attribution" && isThere(row, position));
  const counted = choice && JSON.parse(choice.settings).counted;
  return counted === "injected" || counted === "read" ? counted : null;
}

/** Return the runs in which uses of an item count, oldest use first. */
export function usesOf(bank, item, position) {
  const way = countedWay(bank, position);
  const rows = (bank.exposures.get(item) ?? []).filter((row) => row.from_seq <= position && (way === null || row.way === way));
  const first = new Map();
  for (const row of rows) first.set(row.run, Math.min(row.from_seq, first.get(row.run) ?? Infinity));
  return [...first].map(([run, seq]) => ({ run, seq })).sort((a, b) => a.seq - b.seq);
}

/** Return the row of an item that was born by the position, its words whole; null before. */
export function wholeItemRow(bank, item, position) {
  const state = standing(bank.states.get(item), position);
  if (!state) return null;
  const words = bank.candidate.get(state.text);
  const verdicts = usesOf(bank, item, position).map(({ run }) => verdictOf(bank, run, "learning", position)?.verdict);
  return {
    id: item,
    title: words.title,
    desc: words.desc,
    content: words.content,
    tags: JSON.parse(words.tags_json),
    state: state.state,
    polarity: words.polarity,
    src: words.src,
    domains: JSON.parse(state.domains),
    support: (bank.support.get(item) ?? []).filter((row) => isThere(row, position)).length,
    uses: verdicts.length,
    wins: verdicts.filter((verdict) => verdict === "success").length,
    losses: verdicts.filter((verdict) => verdict === "failure").length,
    born: state.born_seq,
    vouched: Boolean(state.vouched),
    erased: Boolean(words.erased),
  };
}

/** Return the rows of all items that were born by the position, oldest first. Kept for one position. */
export function itemRows(bank, position) {
  if (bank.itemsAt?.position !== position) {
    const rows = [...bank.states.keys()].map((item) => wholeItemRow(bank, item, position)).filter(Boolean);
    rows.sort((a, b) => a.born - b.born || compared(a.id, b.id));
    bank.itemsAt = { position, rows };
  }
  return bank.itemsAt.rows;
}

/** Return a row as lists show it: short, without content and tags. */
export function listedItem({ content: _, tags: __, ...row }) {
  return { ...row, title: short(row.title), desc: short(row.desc) };
}
