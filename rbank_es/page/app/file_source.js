// The source of an exported page: the answers that stand in the file, each as of one of its stops.
import { PackedValues, unpack } from "./packed_values.js";
import { pageOf, withRows } from "./row_list.js";
import { commandOn, count } from "./words.js";

// Lists are in the file whole, or by their first rows. Their columns of words; the first tells rows apart.
const LISTS = { runs: ["run", "task_id", "task"], items: ["id", "title", "desc"], leakage: ["run"] };
const NO_POINT = "there is no such point in this file: give a position, such as 120, a time, such as 2026-01-31T12:00, or HEAD~5";

/** Answers of one part of a file, by name and question. */
class HeldAnswers {
  constructor(part, before) {
    this.values = new PackedValues(part, before?.values);
    this.places = new Map();
    for (const [name, [asked, numbers]] of Object.entries(part.answers)) asked.forEach((number, i) => this.places.set(questionOf(name, this.values.object(number)), numbers[i]));
  }

  find(question) {
    const number = this.places.get(question);
    return number === undefined ? undefined : this.values.object(number);
  }
}

function questionOf(name, given) {
  const parts = Object.entries(given).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return JSON.stringify([name, ...parts.map(([key, value]) => [key, String(value)]).sort()]);
}

export class FileSource {
  /** Open a file's data: `packed`, and `parts` beside it that are unpacked when they are needed. */
  static async open({ packed, parts }) {
    return new FileSource(await unpack(packed), parts);
  }

  constructor(data, parts) {
    this.isLive = false;
    this.inFile = data.in_file;
    this.stops = data.stops;
    this.times = data.times;
    this.head = data.stops.at(-1);
    this.newest = new HeldAnswers(data);
    this.packed = parts;
    this.opened = new Map();
    this.blockOf = new Map(data.blocks.flatMap((block, i) => block.map(([name, id]) => [questionOf(name, { id }), i + 1])));
  }

  /** Return the answer `name` as of the last stop up to `at` (default: the newest); a failure to answer is {error}. */
  async get(name, { at = null, ...asked } = {}) {
    const { stop, between } = this.stopOf(at);
    if (stop === undefined) return { error: NO_POINT };
    if (name === "about") return { ...(await this.find(name, {}, stop)), ...this.around(stop), between };
    if (name === "search") return { error: "Items are ranked by an index of the bank, which this file does not hold.", command: this.command("search", [asked.query ?? ""]) };
    if (name === "difference") return this.difference(asked, stop);
    if (!Object.hasOwn(LISTS, name)) return (await this.find(name, asked, stop)) ?? this.missing(name, asked, stop);
    return pageOf(withRows(name, await this.find(name, {}, stop)), asked, LISTS[name]);
  }

  /** Tell of new positions: a file has none. */
  follow() {}

  async difference(asked, stop) {
    const { stop: since, between } = this.stopOf(asked.since);
    if (since === undefined) return { error: NO_POINT };
    return { ...((await this.find("difference", { ...asked, since }, stop)) ?? this.missing("difference", {}, stop)), between };
  }

  /** Return the last stop up to a point, and the point where it may lie between two; no stop where there is no such point. */
  stopOf(point) {
    const text = String(point ?? this.head);
    const back = /^HEAD(?:~(\d+))?$/.exec(text);
    const position = back ? this.head - (back[1] ?? 0) : /^(seq:)?\d+$/.test(text) ? Number(text.replace("seq:", "")) : null;
    const stop = position === null ? this.stopAt(text) : position <= this.head ? this.stops.findLast((each) => each <= position) : undefined;
    return { stop, between: stop === position || stop === this.head ? null : text };
  }

  /** Return the last stop up to a time, which is in UTC where it names no zone. */
  stopAt(text) {
    if (!/^\d{4}-\d\d-\d\d([T ]|$)/.test(text)) return undefined;
    const time = Date.parse(text.length > 10 && !/(Z|[+-]\d\d:?\d\d)$/.test(text) ? `${text}Z` : text);
    if (Number.isNaN(time)) return undefined;
    // In microseconds, as times of events are.
    const limit = new Date(time).toISOString().replace("Z", "000Z");
    return this.stops.findLast((_, i) => this.times[i] <= limit);
  }

  around(stop) {
    const place = this.stops.indexOf(stop);
    return { stops: this.stops, stop_before_seq: this.stops[place - 1] ?? null, stop_after_seq: this.stops[place + 1] ?? null };
  }

  /** Return an answer of the file; undefined where it holds none. Texts stand beside the run that shows them. */
  async find(name, asked, stop) {
    if (stop < this.head) return (await this.part(0)).find(questionOf(name, { ...asked, at: stop }));
    const question = questionOf(name, asked);
    const block = name === "difference" ? 0 : this.blockOf.get(questionOf(name, { id: asked[name] }));
    for (const place of block === undefined ? this.opened.keys() : [block]) {
      const found = (await this.part(place)).find(question);
      if (found) return found;
    }
    return this.newest.find(question);
  }

  part(place) {
    if (!this.opened.has(place)) this.opened.set(place, unpack(this.packed[place]).then((part) => new HeldAnswers(part, this.newest)));
    return this.opened.get(place);
  }

  /** Return why the file has no answer, with the command that has it. */
  missing(name, asked, stop) {
    const id = asked[name];
    const serve = this.command("serve");
    if (stop < this.head) return { error: "This file holds this as of its newest position alone.", isNewest: true, command: serve };
    const [whole, all] = name === "run" ? [this.inFile.whole_runs, this.inFile.runs] : [this.inFile.whole_items, this.inFile.items];
    if (id === undefined || this.blockOf.has(questionOf(name, { id }))) return { error: "This file does not hold this.", command: serve };
    if (whole === all) return { error: `There is no ${name} ${id} in this file, which holds all of them.` };
    return { error: `This file holds ${count(whole)} of ${count(all)} ${name}s, and not ${id}.`, command: name === "run" ? this.command("show", [id]) : serve };
  }

  command(verb, names = []) {
    return commandOn(verb, [this.newest.find(questionOf("about", {})).command, ...names]);
  }
}
