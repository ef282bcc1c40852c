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
  const values = Object.entries(columns).map(([name, packed]) => [name, columnValues(packed)]);
  return Array.from({ length: values[0]?.[1].length ?? 0 }, (_, i) => {
    const row = { to_seq: null };
    for (const [name, column] of values) row[name] = column[i];
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
};

// Indexes: rows of a table by the value of a column.
const GROUPS = {
  judgments: ["judgments", "run"],
  relying: ["relying", "run"],
  reliant: ["relying", "extraction"],
  drawn: ["candidates", "extraction"],
  words: ["candidates", "item"],
  states: ["item_states", "item"],
  support: ["item_support", "item"],
  decisions: ["decisions", "text"],
  extractions: ["extractions", "extraction"],
  opinions: ["learning_judgments", "run"],
  sizes: ["step_sizes", "run"],
  exposures: ["exposures", "item"],
  given: ["exposures", "run"],
};

/** Return an object whose properties are made when they are first read, because most pages need few of them. */
function lazily(names, make, target = {}) {
  for (const name of names) {
    const get = () => {
      const value = make(name);
      Object.defineProperty(target, name, { value, enumerable: true });
      return value;
    };
    Object.defineProperty(target, name, { get, enumerable: true, configurable: true });
  }
  return target;
}

/** The tables of a bank with their indexes. */
export class BankRows {
  constructor(data) {
    this.data = data;
    this.head = data.marks.head;
    this.tables = lazily(Object.keys(data.tables), (name) => tableRows(data.tables[name]));
    this.types = columnValues(data.types);
    this.seconds = columnValues(data.times.offsets);
    this.runOf = columnValues(data.event_runs);
    this.starts = this.tables.run_starts;
    this.start = new Map(this.starts.map((row) => [row.run, row]));
    this.ofRun = lazily(Object.keys(BY_RUN), (kind) => groupRows(this.tables[BY_RUN[kind]], "run"));
    lazily(Object.keys(GROUPS), (name) => groupRows(this.tables[GROUPS[name][0]], GROUPS[name][1]), this);
    lazily(["searches"], () => searchesOf(this.tables.searches), this);
    this.judgment = new Map(this.tables.judgments.map((row) => [row.from_seq, row]));
    this.candidate = new Map(this.tables.candidates.map((row) => [row.text, row]));
    this.turns = new Map();
    this.keptRuns = new Map();
  }

  /** Return the id of the run that the event at a position belongs to; null where it belongs to none. */
  runAt(position) {
    return this.runOf[position - 1] ?? null;
  }

  /** Return the last position before a second since 1970; NaN where that is none. */
  positionOf(second) {
    // Not the events of that second: their fractions, by which they are later, are not in the file.
    const after = this.seconds.findIndex((each) => this.data.times.first + each >= second);
    return Number.isNaN(second) ? NaN : after < 0 ? this.head : after;
  }

  /** Return the time of a position as ISO, to the second; empty for 0. */
  timeAt(position) {
    if (position < 1) return "";
    const seconds = this.data.times.first + this.seconds[position - 1];
    return new Date(seconds * 1000).toISOString().slice(0, 19) + "Z";
  }
}
