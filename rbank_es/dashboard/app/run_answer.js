// The answer about one run of an exported bank: its verdicts, items, lessons, context and events. Pure.
import { stateOf, wholeItemRow } from "./item_rows.js";
import { flagsOf, leakageOf } from "./leakage_rows.js";
import { endOf, rowsUpto, total, verdictOf, wholeRunRow } from "./run_rows.js";
import { isThere } from "./time_model.js";
import { charCount, cut } from "./visible_text.js";

const WORDS_CHARS = 4000;
const EVENT_CHARS = 2000;
const EVENTS_SHOWN = 500;
const ANSWER_BYTES = 1 << 20;

/** Return what is known of a run but its events; null where it has not begun. `events` may be null: not in the file. */
export function runFacts(bank, run, position, events) {
  const start = bank.start.get(run);
  if (!start || start.from_seq > position) return null;
  return {
    run: wholeRun(bank, start, position),
    verdicts: verdictsOn(bank, run, position),
    given: events ? givenBy(bank, events, position) : givenRows(bank, run, position),
    learnt: learntFrom(bank, run, position),
    layers: events ? layersOf(events) : [],
    leakage: leakageOf(bank, start, position),
    flags: flagsOf(bank, run, position),
  };
}

const STARTED = ["level", "family", "suite", "mode", "iterations_max", "rollout_group", "rollout_index"];
const ENDED = ["answer_chars", "duration_s"];

function wholeRun(bank, start, position) {
  const row = wholeRunRow(bank, start, position);
  const end = endOf(bank, start.run, position);
  const calls = rowsUpto(bank.ofRun.calls.get(start.run), position);
  const facts = Object.fromEntries([...STARTED.map((name) => [name, start[name]]), ...ENDED.map((name) => [name, end?.[name] ?? null])]);
  const words = { task: row.task, reason: row.reason, score_reason: row.score_reason, answer: end?.answer, sparql: end?.sparql, error: row.error };
  return {
    ...row,
    ...facts,
    ...Object.fromEntries(Object.entries(words).map(([name, text]) => [name, long(text)])),
    finished: end?.from_seq ?? null,
    ended: end?.finished_at ?? null,
    cost_usd: calls.length ? total(calls, "cost_usd") : (end?.cost_usd ?? null),
    iterations: end?.iterations ?? row.steps,
  };
}

function long(text) {
  return text === null || text === undefined ? null : cut(text, WORDS_CHARS);
}

/** Return all judgments of a run in order, with those that stand and what overruled others. */
function verdictsOn(bank, run, position) {
  const rows = rowsUpto(bank.judgments.get(run), position);
  return rows.map((row) => ({
    seq: row.from_seq,
    time: row.time,
    purpose: row.purpose,
    verdict: row.verdict,
    judge: row.judge,
    kind: row.kind,
    authority: row.authority,
    confidence: row.confidence,
    stands: verdictOf(bank, run, row.purpose, position)?.judged_seq === row.from_seq,
    by: row.by,
    reason: long(row.reason),
    why: long(row.why),
    overruled_seq: rows.find((other) => other.overrules === row.from_seq)?.from_seq ?? null,
  }));
}

/** Return the items that a run was given in full, in order, each with its hit and what became of it since. */
function givenBy(bank, events, position) {
  const hits = new Map();
  const given = new Map();
  for (const event of events) {
    if (event.type === "memories_retrieved") for (const hit of event.hits ?? []) hits.set(hit.id, hit);
    const [items, way] = event.type === "context_built" ? [event.items, "injected"] : event.type === "memories_read" && event.how === "get" ? [event.ids, "read"] : [[]];
    for (const item of items ?? []) if (!given.has(item)) given.set(item, gift(bank, item, event.seq, way, hits.get(item), position));
  }
  return [...given.values()];
}

function givenRows(bank, run, position) {
  const first = new Map();
  for (const row of rowsUpto(bank.given.get(run), position)) if (!first.has(row.item)) first.set(row.item, row);
  return [...first.values()].map((row) => gift(bank, row.item, row.from_seq, row.way, undefined, position));
}

function gift(bank, id, seq, way, hit, position) {
  const row = wholeItemRow(bank, id, position);
  const then = row && rowsUpto(bank.states.get(id), seq).at(-1);
  return {
    id,
    title: row?.title ?? null,
    polarity: row?.polarity ?? null,
    way,
    seq,
    rank: hit?.rank ?? null,
    score: hit?.score ?? null,
    state_then: then?.state ?? null,
    state: row?.state ?? null,
  };
}

/** Return the candidates that were drawn from a run, in order, each with the decision in force. */
function learntFrom(bank, run, position) {
  const extractions = new Set(rowsUpto(bank.relying.get(run), position).map((row) => row.extraction));
  const found = [...extractions].flatMap((id) => rowsUpto(bank.drawn.get(id), position).map((candidate) => lesson(bank, candidate, position)));
  return found.sort((a, b) => a.seq - b.seq || a.place - b.place);
}

function lesson(bank, candidate, position) {
  const extraction = extractionOf(bank, candidate, position);
  const decision = decisionOn(bank, candidate, position);
  return {
    id: candidate.item,
    kind: extraction.kind,
    extraction: candidate.extraction,
    place: candidate.place,
    title: candidate.title,
    state: stateOf(bank, candidate.item, position),
    action: decision?.action ?? null,
    seq: candidate.from_seq,
    stands: Boolean(extraction.stands),
    undone: Boolean(decision?.undone),
  };
}

/** Return the extraction of a candidate, as it is at a position. */
export function extractionOf(bank, candidate, position) {
  return bank.extractions.get(candidate.extraction).find((row) => isThere(row, position));
}

/** Return the decision about a candidate that is in force at a position; undefined where there is none. */
export function decisionOn(bank, candidate, position) {
  return bank.decisions.get(candidate.text)?.find((row) => isThere(row, position));
}

/** Return the layers of a run's latest context, each with what was sent of it. */
function layersOf(events) {
  const built = events.filter((event) => event.type === "context_built").at(-1);
  return (built?.layers ?? []).map(({ layer, chars, budget = null, truncated = false }, i) => {
    const text = built.texts?.[i];
    return { layer, chars, budget, truncated, seq: built.seq, text: text === undefined ? null : shownTexts(text, `texts.${i}`) };
  });
}

/** Return the events after a position that fit one answer, their texts shortened, and where to go on. */
export function eventsPage(events, after) {
  const shown = [];
  let bytes = 0;
  for (const event of events) {
    if (event.seq <= after) continue;
    const made = shownTexts(event, "");
    bytes += new TextEncoder().encode(JSON.stringify(made)).length;
    if (shown.length && (shown.length === EVENTS_SHOWN || bytes > ANSWER_BYTES)) return { events: shown, next: shown.at(-1).seq };
    shown.push(made);
  }
  return { events: shown, next: null };
}

/** Return a value of the file in which each whole text, {t}, is its beginning, its length, and its path where cut. */
function shownTexts(value, path) {
  if (Array.isArray(value)) return value.map((each, i) => shownTexts(each, `${path}.${i}`));
  if (value === null || typeof value !== "object") return value;
  if ("t" in value) {
    const chars = charCount(value.t);
    return { text: cut(value.t, EVENT_CHARS), chars, more: chars > EVENT_CHARS ? path : null };
  }
  // A message is found by its number alone.
  const inside = (name) => ("role" in value && name === "text" ? path : path ? `${path}.${name}` : name);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, shownTexts(each, inside(name))]));
}

/** Return the whole text of an event at a path; undefined where there is none. */
export function textAt(event, path) {
  let value = event;
  for (const part of path.split(".")) value = value?.[part];
  const text = value && "role" in value ? value.text : value;
  return text?.t;
}
