// The answer about one item of an exported bank: its words, where it comes from, and where it went. Pure.
import { wholeItemRow } from "./item_rows.js";
import { decisionOn, extractionOf } from "./run_answer.js";
import { compared } from "./row_list.js";
import { rowsUpto, short, verdictOf } from "./run_rows.js";
import { standing } from "./time_model.js";

const RUNS_SHOWN = 200;

/** Return what is known of an item; null where it was not born by the position. */
export function itemFacts(bank, item, position) {
  const row = wholeItemRow(bank, item, position);
  if (!row) return null;
  const back = origins(bank, item, position);
  return {
    ...row,
    states: statesOf(bank, item, position),
    back,
    forward: uses(bank, item, position),
    links: linksOf(bank, item, position),
    warning: warningOf(back),
  };
}

function statesOf(bank, item, position) {
  const spans = [];
  for (const row of rowsUpto(bank.states.get(item), position)) {
    const to = row.to_seq !== null && row.to_seq <= position ? row.to_seq : null;
    const last = spans.at(-1);
    // A change of other facts, such as domains, begins a row in the same state.
    if (last?.state === row.state && last.to === row.from_seq) last.to = to;
    else spans.push({ state: row.state, from: row.from_seq, to });
  }
  return spans;
}

/** Return each run from which a candidate with the item's words was drawn, and the verdict that this relied on. */
function origins(bank, item, position) {
  const found = rowsUpto(bank.words.get(item), position).flatMap((candidate) => groundsOf(bank, candidate, position));
  return found.sort((a, b) => a.seq - b.seq || a.candidate - b.candidate || compared(a.run ?? "", b.run ?? ""));
}

function groundsOf(bank, candidate, position) {
  const extraction = extractionOf(bank, candidate, position);
  const decision = decisionOn(bank, candidate, position);
  const relied = new Map(JSON.parse(extraction.relied));
  const runs = rowsUpto(bank.reliant.get(candidate.extraction), position).map((row) => row.run);
  return (runs.length ? runs : [null]).map((run) => ({
    extraction: candidate.extraction,
    candidate: candidate.place,
    seq: candidate.from_seq,
    kind: extraction.kind,
    run,
    task: taskOf(bank, run, position),
    relied: relied.get(run) ?? null,
    verdict: knownVerdict(bank, run, position),
    stands: Boolean(extraction.stands),
    action: decision?.action ?? null,
    undone: Boolean(decision?.undone),
  }));
}

function begun(bank, run, position) {
  const start = bank.start.get(run);
  return start && start.from_seq <= position ? start : null;
}

function taskOf(bank, run, position) {
  return short(begun(bank, run, position)?.task ?? null);
}

function knownVerdict(bank, run, position) {
  return begun(bank, run, position) ? (verdictOf(bank, run, "learning", position)?.verdict ?? null) : null;
}

function uses(bank, item, position) {
  const rows = rowsUpto(bank.exposures.get(item), position);
  rows.sort((a, b) => b.from_seq - a.from_seq || compared(a.run, b.run) || compared(a.way, b.way));
  const runs = rows.slice(0, RUNS_SHOWN).map(({ run, way, from_seq: seq }) => ({ run, task: taskOf(bank, run, position), verdict: knownVerdict(bank, run, position), way, seq }));
  return { searches: (bank.searches.get(item) ?? []).filter((seq) => seq <= position).length, total: rows.length, runs };
}

function linksOf(bank, item, position) {
  const link = (id, how, seq, fromHere) => ({ id, title: short(wholeItemRow(bank, id, position)?.title ?? null), how, seq, from_here: fromHere });
  const rows = rowsUpto(bank.tables.item_links, position).filter((row) => row.source === item || row.target === item);
  const state = standing(bank.states.get(item), position);
  return [
    ...rows.map((row) => link(row.source === item ? row.target : row.source, row.how, row.from_seq, row.source === item)),
    ...JSON.parse(state.superseded_by || "[]").map((id) => link(id, "superseded by", state.ended_seq, true)),
  ];
}

function warningOf(back) {
  const fallen = back.find((each) => each.relied !== null && each.verdict !== null && each.relied !== each.verdict);
  return fallen ? `It was drawn from ${fallen.run} as a ${fallen.relied}, and that run's verdict is ${fallen.verdict}.` : null;
}
