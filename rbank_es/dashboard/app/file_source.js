// The source of an exported page: answers computed from the rows in the file, as of any position.
import { BankRows } from "./bank_rows.js";
import { bankAnswer, itemsAnswer, overviewAnswer, runsAnswer } from "./file_answers.js";
import { changesAnswer, comparison } from "./difference_answer.js";
import { healthAnswer } from "./health_answer.js";
import { itemFacts } from "./item_answer.js";
import { leakageAnswer } from "./leakage_answer.js";
import { doubtsAnswer, reviewAnswer } from "./review_answer.js";
import { eventsPage, runFacts, textAt } from "./run_answer.js";
import { BadRequest, numberOf, pointOf } from "./row_list.js";
import { searchAnswer } from "./search_answer.js";
import { charCount, cut } from "./visible_text.js";

/** Unpack what the exporter packed: JSON, gzipped, in base 85. Raises where the browser can't. */
export async function unpack(packed) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("This browser can't unpack the page's data: it has no DecompressionStream. Use a browser of 2023 or later.");
  }
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  const [text] = await Promise.all([textOf(readable), writer.write(bytesOf(packed)), writer.close()]);
  return JSON.parse(text);
}

// By hand, because a Response of the stream would take five times as long.
async function textOf(stream) {
  const [reader, decoder] = [stream.getReader(), new TextDecoder()];
  let text = "";
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) text += decoder.decode(value, { stream: true });
  return text + decoder.decode();
}

// Of `base64.b85encode`, with `,.:` for `<>&`: those would need escapes in a page.
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%:()*+-;,=.?@^_`{|}~";

/** Return the bytes of a text in base 85: four for five characters, the last group shortened. */
export function bytesOf(text) {
  const places = new Uint8Array(128);
  for (let i = 0; i < 85; i += 1) places[ALPHABET.charCodeAt(i)] = i;
  const missing = (5 - (text.length % 5)) % 5;
  const bytes = new DataView(new ArrayBuffer(((text.length + missing) / 5) * 4));
  for (let i = 0; i < text.length; i += 5) {
    let number = 0;
    for (let j = i; j < i + 5; j += 1) number = number * 85 + (j < text.length ? places[text.charCodeAt(j)] : 84);
    bytes.setUint32((i / 5) * 4, number);
  }
  return new Uint8Array(bytes.buffer, 0, bytes.byteLength - missing);
}

/** Return the data of a page, its blocks still packed. */
export async function bankData({ packed, blocks }) {
  const data = await unpack(packed);
  return { ...data, blocks: data.blocks.map((runs, i) => ({ runs, packed: blocks[i] })) };
}

const TEXT_CHARS = 65536;

/** Answers from a file. `answers` by name take the bank's rows, a position and what was asked. */
export const fileAnswers = {
  bank: bankAnswer,
  overview: overviewAnswer,
  runs: runsAnswer,
  items: itemsAnswer,
  review: reviewAnswer,
  doubts: doubtsAnswer,
  changes: changesAnswer,
  leakage: leakageAnswer,
  search: searchAnswer,
  health: healthAnswer,
};

export class FileSource {
  constructor(data) {
    this.bank = new BankRows(data);
    this.position = this.bank.head;
    this.isLive = false;
    this.blocks = new Map();
  }

  /** Return the answer `name` as of `at` (default: the newest); a failure to answer is {error}. */
  async get(name, { at = null, ...asked } = {}) {
    let position = this.position;
    try {
      if (at !== null) position = typeof at === "string" ? pointOf(this.bank, at) : Math.min(at, position);
      return { at: position, ...(await this.answer(name, position, asked)) };
    } catch (refused) {
      if (refused instanceof BadRequest) return { at: position, error: refused.message };
      throw refused;
    }
  }

  /** Call back never: a file does not grow. */
  follow() {}

  async answer(name, position, asked) {
    if (name === "run") return this.run(asked.id, position, asked);
    if (name === "item") return itemFacts(this.bank, asked.id, position) ?? missing("item", asked.id, position);
    if (name === "compare") return comparison(await this.facts(asked.a, position), await this.facts(asked.b, position));
    if (name === "text") return this.text(asked, position);
    const answer = Object.hasOwn(fileAnswers, name) && fileAnswers[name];
    if (!answer) throw new BadRequest(`there is no answer "${name}"`);
    return answer(this.bank, position, asked);
  }

  /** Return what is known of a run but its events. */
  async facts(id, position) {
    return runFacts(this.bank, id, position, await this.eventsUpto(id, position)) ?? missing("run", id, position);
  }

  async eventsUpto(id, position) {
    return (await this.eventsOf(id))?.filter((event) => event.seq <= position) ?? null;
  }

  async run(id, position, { after }) {
    const facts = await this.facts(id, position);
    const events = await this.eventsUpto(id, position);
    const page = events ? eventsPage(events, numberOf(after, 0, 0, Number.MAX_SAFE_INTEGER)) : { events: null, next: null };
    return { ...facts, ...page };
  }

  async text({ seq, path, offset }, position) {
    const number = numberOf(seq, 0, 1, position);
    const events = (await this.eventsOf(this.bank.runAt(number))) ?? [];
    const value = textAt(events.find((event) => event.seq === number), path ?? "");
    if (value === undefined) throw new BadRequest(`position ${seq} has no text at ${path}`);
    const from = numberOf(offset, 0, 0, Number.MAX_SAFE_INTEGER);
    const text = cut(value.slice(cut(value, from).length), TEXT_CHARS);
    const total = charCount(value);
    return { seq: number, path, text, total, next: from + TEXT_CHARS < total ? from + TEXT_CHARS : null };
  }

  /** Return all events of a run, oldest first, its block unpacked when first asked for; null where the file has none. */
  async eventsOf(run) {
    const place = this.bank.data.blocks.findIndex((block) => block.runs.includes(run));
    if (place < 0) return null;
    if (!this.blocks.has(place)) this.blocks.set(place, unpack(this.bank.data.blocks[place].packed));
    const block = await this.blocks.get(place);
    const lines = block.lines.split("\n");
    return block.events[run].map((event) => joined(event, lines));
  }
}

/** Return a value with its texts put together from the lines of its block. */
function joined(value, lines) {
  if (Array.isArray(value)) return value.map((each) => joined(each, lines));
  if (value === null || typeof value !== "object") return value;
  if ("t" in value) return typeof value.t === "string" ? value : { t: spanText(value.t, lines) };
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, joined(each, lines)]));
}

/** Return the lines of spans, first and length in turn, as one text. */
function spanText(spans, lines) {
  const found = [];
  for (let i = 0; i < spans.length; i += 2) found.push(...lines.slice(spans[i], spans[i] + spans[i + 1]));
  return found.join("\n");
}

function missing(kind, id, position) {
  throw new BadRequest(`there is no ${kind} ${id} at position ${position}`);
}

