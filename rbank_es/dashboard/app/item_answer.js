// The answer about one item of an exported bank: its words, where it comes from, and where it went. Pure.
import { countedWay, wholeItemRow } from "./item_rows.js";
import { verdictOf } from "./run_rows.js";
import { isThere } from "./time_model.js";

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
    warning: warningOf(row, back),
  };
}

function statesOf(bank, item, position) {
  const spans = [];
  for (const row of bank.states.get(item)) {
    if (row.from_seq > position) continue;
    const to = row.to_seq !== null && row.to_seq <= position ? row.to_seq : null;
    const last = spans.at(-1);
    // A change of other facts, such as domains, begins a row in the same state.
    if (last?.state === row.state && last.to === row.from_seq) last.to = to;
    else spans.push({ state: row.state, from: row.from_seq, to });
  }
  return spans;
}

/** Return each extraction that supports or supported the item, with the runs and verdicts that it relied on. */
function origins(bank, item, position) {
  const texts = new Set(bank.states.get(item).filter((row) => row.from_seq <= position).map((row) => row.text));
  for (const row of bank.support.get(item) ?? []) if (row.from_seq <= position) texts.add(row.text);
  const found = [...texts].flatMap((text) => originsOf(bank, bank.candidate.get(text), position));
  return found.sort((a, b) => a.extraction - b.extraction || (a.run < b.run ? -1 : 1));
}

function originsOf(bank, candidate, position) {
  const extraction = bank.extractions.get(candidate.extraction).find((row) => isThere(row, position));
  const decision = (bank.decisions.get(candidate.text) ?? []).find((row) => isThere(row, position));
  const relied = new Map(JSON.parse(extraction.relied));
  const runs = JSON.parse(extraction.runs);
  const facts = {
    extraction: extraction.extracted_seq,
    kind: extraction.kind,
    stands: Boolean(extraction.stands),
    action: decision?.action ?? null,
    policy: decision?.policy ?? null,
    seq: decision?.first_seq ?? null,
  };
  const rows = runs.map((run) => ({
    ...facts,
    run,
    task: bank.start.get(run)?.task ?? null,
    relied: relied.get(run) ?? null,
    verdict: verdictOf(bank, run, "learning", position)?.verdict ?? null,
  }));
  return rows.length ? rows : [{ ...facts, run: null, task: null, relied: null, verdict: null }];
}

function uses(bank, item, position) {
  const way = countedWay(bank, position);
  const rows = (bank.exposures.get(item) ?? []).filter((row) => row.from_seq <= position && (way === null || row.way === way));
  rows.sort((a, b) => b.from_seq - a.from_seq || (a.way < b.way ? -1 : 1));
  const searches = (bank.searches.get(item) ?? []).filter((seq) => seq <= position).length;
  const shown = rows.slice(0, RUNS_SHOWN).map((row) => ({
    run: row.run,
    task: bank.start.get(row.run)?.task ?? null,
    verdict: verdictOf(bank, row.run, "learning", position)?.verdict ?? null,
    way: row.way,
    seq: row.from_seq,
  }));
  return { searches, runs: shown };
}

function linksOf(bank, item, position) {
  const rows = bank.tables.item_links.filter((row) => row.from_seq <= position && (row.source === item || row.target === item));
  return rows.map((row) => {
    const other = row.source === item ? row.target : row.source;
    const title = wholeItemRow(bank, other, position)?.title ?? null;
    return { id: other, title, how: row.how, by: row.by, from_here: row.source === item, seq: row.from_seq };
  });
}

function warningOf(row, back) {
  const fallen = back.filter((origin) => origin.relied !== null && origin.verdict !== null && origin.relied !== origin.verdict);
  if (!fallen.length) return null;
  const [first] = fallen;
  return `It was drawn from a run that was judged a ${first.relied} then and is judged ${first.verdict} now.`;
}
