// The answer about one run of an exported bank: its verdicts, items, lessons, context and events. Pure.
import { givenItems } from "./file_answers.js";
import { stateOf } from "./item_rows.js";
import { authorityOf, verdictOf, wholeRunRow } from "./run_rows.js";
import { isThere } from "./time_model.js";
import { charCount, cut } from "./visible_text.js";

const TASK_CHARS = 4000;
const EVENT_CHARS = 2000;
const EVENTS_SHOWN = 500;

/** Return what is known of a run from the rows of the bank, without its events; null where it has not begun. */
export function runFacts(bank, run, position) {
  const start = bank.start.get(run);
  if (!start || start.from_seq > position) return null;
  const { answer, sparql, ...row } = wholeRunRow(bank, start, position);
  return {
    run: { ...row, task: row.task === null ? null : cut(row.task, TASK_CHARS) },
    answer,
    sparql,
    verdicts: verdictsOn(bank, run, position),
    learnt: learntFrom(bank, run, position),
  };
}

/** Return all judgments of a run, latest first, with those that stand and what overruled the others. */
function verdictsOn(bank, run, position) {
  const rows = (bank.judgments.get(run) ?? []).filter((row) => row.from_seq <= position);
  return rows.reverse().map((row) => {
    const stands = verdictOf(bank, run, row.purpose, position)?.judged_seq === row.from_seq;
    return {
      seq: row.from_seq,
      purpose: row.purpose,
      verdict: row.verdict,
      judge: row.judge,
      kind: row.kind,
      authority: authorityOf(row.kind, row.verdict, row.sure),
      confidence: row.confidence,
      reason: row.reason,
      stands,
      overruled_seq: stands ? null : overruledAt(bank, row, position),
    };
  });
}

function overruledAt(bank, judgment, position) {
  const stood = (bank.ofRun.verdicts.get(judgment.run) ?? []).find((row) => row.purpose === judgment.purpose && row.judged_seq === judgment.from_seq);
  return stood && stood.to_seq !== null && stood.to_seq <= position ? stood.to_seq : null;
}

function learntFrom(bank, run, position) {
  const found = [];
  for (const candidate of bank.tables.candidates) {
    if (candidate.from_seq > position) continue;
    const extraction = bank.extractions.get(candidate.extraction)[0];
    if (!JSON.parse(extraction.runs).includes(run)) continue;
    const decision = (bank.decisions.get(candidate.text) ?? []).find((row) => isThere(row, position));
    found.push({
      id: candidate.item,
      title: candidate.title,
      state: stateOf(bank, candidate.item, position),
      action: decision?.action ?? null,
      seq: extraction.extracted_seq,
      place: candidate.place,
    });
  }
  found.sort((a, b) => a.seq - b.seq || a.place - b.place);
  return found.map(({ place: _, ...row }) => row);
}

/** Return the items that a run was given: rank and score where a search found them, the state then and now. */
export function givenTo(bank, run, position, events) {
  const hits = new Map();
  for (const event of events ?? []) {
    if (event.type !== "memories_retrieved") continue;
    for (const hit of event.hits ?? []) if (!hits.has(hit.id)) hits.set(hit.id, hit);
  }
  const began = bank.start.get(run).from_seq;
  return givenItems(bank, run, position).map((item) => {
    const text = bank.states.get(item.id)?.[0].text;
    const hit = hits.get(item.id);
    return {
      ...item,
      polarity: text === undefined ? null : bank.candidate.get(text).polarity,
      rank: hit?.rank ?? null,
      score: hit?.score ?? null,
      layer: isInjected(events, item.id) ? "L2" : null,
      state_then: stateOf(bank, item.id, began),
    };
  });
}

function isInjected(events, id) {
  return Boolean(events?.some((event) => event.type === "context_built" && event.items?.includes(id)));
}

/** Return the layers of a run's contexts, with what was sent of each. */
export function layersOf(events) {
  const built = events.filter((event) => event.type === "context_built");
  return built.flatMap((event) =>
    (event.layers ?? []).map((layer, i) => ({
      layer: layer.layer,
      chars: layer.chars,
      budget: layer.budget ?? null,
      truncated: Boolean(layer.truncated),
      text: event.texts?.[i] === undefined ? null : shownText(event.texts[i], `texts.${i}`),
      seq: event.seq,
    })),
  );
}

/** Return a page of events after a position, their texts shortened; `texts` are fields of text by type of event. */
export function eventsPage(events, after, texts) {
  const from = events.findIndex((event) => event.seq > after);
  const page = from < 0 ? [] : events.slice(from, from + EVENTS_SHOWN);
  const more = from >= 0 && from + EVENTS_SHOWN < events.length;
  return { events: page.map((event) => shownEvent(event, texts)), next: more ? page.at(-1).seq : null };
}

function shownEvent(event, texts) {
  const shown = { ...event };
  for (const name of texts[event.type] ?? []) {
    const value = event[name];
    if (Array.isArray(value)) shown[name] = value.map((each, i) => shownText(each, `${name}.${i}`));
    else if (value !== undefined) shown[name] = shownText(value, name);
  }
  return shown;
}

/** Return a text as an answer holds it: its beginning, its length, and the path under which the rest is found. */
export function shownText(value, path) {
  if (typeof value !== "string") return value;
  const chars = charCount(value);
  return { text: cut(value, EVENT_CHARS), chars, more: chars > EVENT_CHARS ? path : null };
}
