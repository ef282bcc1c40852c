// The rows of an exported bank: unpacked columns, indexed by run and by item. Every row holds from `from_seq` on until
// `to_seq`, as the read models have it.

/** Return the values of a packed column: plain, as differences, or as places in a list of distinct values. */
export function columnValues(packed) {
  if (Array.isArray(packed)) return packed;
  if (packed.deltas) {
    let sum = 0;
    return packed.deltas.map((delta) => (sum += delta));
  }
  return packed.at.map((place) => packed.values[place]);
}

/** Return the rows of a packed table as objects. */
export function tableRows(columns) {
  const names = Object.keys(columns);
  const values = names.map((name) => columnValues(columns[name]));
  return Array.from({ length: values[0]?.length ?? 0 }, (_, i) => {
    const row = { to_seq: null };
    names.forEach((name, column) => {
      row[name] = values[column][i];
    });
    return row;
  });
}

/** Return rows grouped by the value of a column. */
export function groupRows(rows, name) {
  const groups = new Map();
  for (const row of rows) {
    const group = groups.get(row[name]);
    if (group) group.push(row);
    else groups.set(row[name], [row]);
  }
  return groups;
}

/** Return for each item the positions of the searches that found it. */
function searchesOf(rows) {
  const found = new Map();
  for (const { from_seq: seq, items } of rows) {
    for (const item of JSON.parse(items)) found.set(item, [...(found.get(item) ?? []), seq]);
  }
  return found;
}

const BY_RUN = {
  ends: "run_ends",
  verdicts: "verdicts",
  calls: "lm_calls",
  steps: "run_steps",
  tools: "tool_calls",
  contexts: "contexts",
  sizes: "step_sizes",
};

/** The tables of a bank with their indexes. */
export class BankRows {
  constructor(data) {
    this.data = data;
    this.head = data.marks.head;
    this.tables = Object.fromEntries(Object.entries(data.tables).map(([name, columns]) => [name, tableRows(columns)]));
    this.types = columnValues(data.types);
    this.seconds = columnValues(data.times.offsets);
    this.starts = this.tables.run_starts;
    this.start = new Map(this.starts.map((row) => [row.run, row]));
    this.ofRun = Object.fromEntries(Object.entries(BY_RUN).map(([key, table]) => [key, groupRows(this.tables[table], "run")]));
    this.judgment = new Map(this.tables.judgments.map((row) => [row.from_seq, row]));
    this.judgments = groupRows(this.tables.judgments, "run");
    this.relying = groupRows(this.tables.relying, "run");
    this.reliant = groupRows(this.tables.relying, "extraction");
    this.drawn = groupRows(this.tables.candidates, "extraction");
    this.words = groupRows(this.tables.candidates, "item");
    this.candidate = new Map(this.tables.candidates.map((row) => [row.text, row]));
    this.states = groupRows(this.tables.item_states, "item");
    this.support = groupRows(this.tables.item_support, "item");
    this.decisions = groupRows(this.tables.decisions, "text");
    this.extractions = groupRows(this.tables.extractions, "extraction");
    this.opinions = groupRows(this.tables.learning_judgments, "run");
    this.turns = new Map();
    this.keptRuns = new Map();
    this.searches = searchesOf(this.tables.searches);
    this.runOf = columnValues(data.event_runs);
    this.exposures = groupRows(this.tables.exposures, "item");
    this.given = groupRows(this.tables.exposures, "run");
  }

  /** Return the id of the run that the event at a position belongs to; null where it belongs to none. */
  runAt(position) {
    return this.runOf[position - 1] ?? null;
  }

  /** Return the time of a position as ISO, to the second; empty for 0. */
  timeAt(position) {
    if (position < 1) return "";
    const seconds = this.data.times.first + this.seconds[position - 1];
    return new Date(seconds * 1000).toISOString().slice(0, 19) + "Z";
  }
}
