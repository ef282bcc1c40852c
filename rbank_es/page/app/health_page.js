// Health: how the bank does at the position, and how it came there.
import { stepLine } from "./charts.js";
import { numbers, table } from "./parts.js";
import { h } from "./renderer.js";
import { count, DASH, minute, percent, plural } from "./words.js";

// Moments of the course that charts can show.
const POINTS = 200;

export const healthPage = {
  name: "health",
  tab: "Health",
  title: () => "Health",
  ask: () => ({ health: ["health", { course: POINTS }] }),
  view: ({ health }, context) => [h("h2", null, "Health"), measures(health), course(health, context), stock(health), changes(health, context)],
};

function measures({ measures: rows, size, uses, win_rate_drift: drift }) {
  const columns = [
    { name: "Measure", cell: (row) => row.meaning },
    { name: "Share", number: true, cell: (row) => percent(row.rate) },
    { name: "Count", number: true, cell: (row) => `${count(row.part)} of ${count(row.whole)}` },
    { name: "95 % interval", number: true, cell: (row) => (row.low === null ? "" : `${percent(row.low)} to ${percent(row.high)}`) },
  ];
  const turned = drift === null ? "no drift yet: it needs 40 uses" : `win rate ${points(drift)} against the uses before`;
  return [h("p", null, `${plural(size, "active item")}, ${plural(uses, "use")}; ${turned}.`), table({ caption: "Shares, each with its counts", columns, rows, key: "name" })];
}

/** Return a difference of shares in points, with its sign. */
export function points(drift) {
  return `${drift * 100 >= -0.5 ? "+" : ""}${Math.round(drift * 100)} points`;
}

function course({ course: series }, context) {
  if (!series.length) return h("p", { class: "muted" }, "The memory has not changed up to this position.");
  const { head } = context.bank;
  const points = (name) => series.map((row) => [row.seq, row[name]]);
  const last = series.at(-1);
  const chart = (name, label, about, more) => h("section", { key: name }, h("h3", null, label), h("p", { class: "muted" }, about), stepLine({ points: points(name), head, label: `${label}: ${about}`, ...more }));
  const share = { top: 1, format: percent };
  return h(
    "div",
    { class: "columns" },
    chart("size", "Active items", `${count(last.size)} at the end`, {}),
    chart("novelty_rate", "New candidates", `${percent(last.novelty_rate)} of all candidates were new; dashed: ${percent(last.duplicate_rate)} repeated an item`, { ...share, beside: points("duplicate_rate") }),
    chart("win_rate_last", "Win rate of the last 20 uses", last.win_rate_last === null ? "no use in a decided run yet" : `${percent(last.win_rate_last)} at the end; dashed: the 20 before, ${percent(last.win_rate_before)}`, { ...share, beside: points("win_rate_before") }),
    chart("uses", "Uses", `${count(last.uses)} in all`, {}),
  );
}

function stock({ stock: counts }) {
  if (!counts.length) return null;
  const states = [...new Set(counts.map(({ state }) => state))].sort();
  const rows = [...new Set(counts.map(({ src }) => src))].map((src) => ({ src, ...Object.fromEntries(counts.filter((each) => each.src === src).map(({ state, items }) => [state, items])) }));
  const all = { src: "all", ...Object.fromEntries(states.map((state) => [state, rows.reduce((sum, row) => sum + (row[state] ?? 0), 0)])) };
  const columns = [
    { name: "Source", cell: (row) => row.src },
    ...states.map((state) => ({ name: state, number: true, cell: (row) => count(row[state] ?? 0) })),
    { name: "all", number: true, cell: (row) => count(states.reduce((sum, state) => sum + (row[state] ?? 0), 0)) },
  ];
  return [h("h3", null, "Items by source and state"), table({ caption: "All items ever stored", columns, rows: [...rows, all], key: "src" })];
}

function changes({ course: series }, context) {
  const rows = [...series].reverse().slice(0, 50);
  if (!rows.length) return null;
  const columns = [
    { name: "Position", number: true, cell: (row) => h("a", { href: context.href("health", "", { at: row.seq }) }, count(row.seq)) },
    { name: "Recorded (UTC)", cell: (row) => minute(row.recorded_at) },
    ...numbers({ Active: "size", Candidates: "candidates", Added: "added" }, { sorts: false }),
    ...numbers({ New: "novelty_rate", Repeated: "duplicate_rate" }, { sorts: false, format: percent }),
    ...numbers({ "Win rate": "win_rate_last", Before: "win_rate_before" }, { sorts: false, format: percent }),
    { name: "Drift", number: true, cell: (row) => (row.win_rate_drift === null ? DASH : points(row.win_rate_drift)) },
    ...numbers({ Uses: "uses" }, { sorts: false }),
  ];
  return [h("h3", null, "After each change"), table({ caption: "The latest first, at most 50", columns, rows, key: "seq" })];
}
