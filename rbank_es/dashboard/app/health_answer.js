// The answer `health` of an exported bank: shares in words, stock by source and state, and their course. Pure.
import { healthCounts, healthCourse } from "./health_counts.js";
import { isThere } from "./time_model.js";
import { wilson } from "./words.js";

const POINTS = 200;
const DRIFT_USES = 40;

// The part and the whole of each share, by its name in `MEASURES` of rbank_es/bank/health_report.py.
const SHARES = {
  novelty: (n) => [n.added, n.candidates],
  duplicates: (n) => [n.repeated, n.candidates],
  wins: (n) => [n.wins, n.decided],
  wins_last: (n) => [n.wins_last, n.decided_last],
  wins_before: (n) => [n.wins_before, n.decided_before],
  top_tenth: (n) => [n.top_uses, n.active_uses],
  never_used: (n) => [n.never_used, n.for_agents],
  overruled: (n) => [n.overruled, n.judged],
  undecided: (n) => [n.undecided, n.judged],
  disagreement: (n) => [n.disagreed, n.judged_twice],
  one_verdict: (n) => [n.on_one_verdict, n.active],
};

export function healthAnswer(bank, position) {
  const counts = healthCounts(bank, position);
  return {
    size: counts.active,
    uses: counts.uses,
    drift: driftOf(counts),
    stock: stockOf(bank, position),
    measures: bank.data.measures.map(([name, words, isSample]) => measure(words, isSample, ...SHARES[name](counts))),
    series: thinned(healthCourse(bank, position)),
  };
}

function driftOf(counts) {
  const { uses, wins_last, decided_last, wins_before, decided_before } = counts;
  return uses < DRIFT_USES || !decided_last || !decided_before ? null : rounded(wins_last / decided_last - wins_before / decided_before);
}

function measure(words, isSample, part, whole) {
  const interval = isSample ? wilson(part, whole) : null;
  const [low, high] = interval ?? [null, null];
  return { words, part, whole, low: rounded(low), high: rounded(high), rate: whole ? rounded(part / whole) : null };
}

// To an even digit at a tie, as Python rounds; a tie is exact in binary.
function rounded(value) {
  if (value === null) return null;
  const doubled = value * 2000000;
  const isTie = Number.isInteger(value * 65536) && Number.isInteger(doubled) && doubled % 2 !== 0;
  return isTie ? (2 * Math.round(doubled / 4)) / 1000000 : Number(value.toFixed(6));
}

function stockOf(bank, position) {
  const stock = {};
  for (const row of bank.tables.item_states.filter((each) => isThere(each, position))) {
    const { src } = bank.candidate.get(row.text);
    stock[src] ??= {};
    stock[src][row.state] = (stock[src][row.state] ?? 0) + 1;
  }
  return stock;
}

function thinned(rows) {
  const groups = Math.min(rows.length, POINTS);
  return Array.from({ length: groups }, (_, i) => rows[Math.floor(((i + 1) * rows.length) / groups) - 1]);
}
