// What the exporter packed (rbank_es/page/packed_data.py): base 85, gzip, and values that share objects and lines.

/** Unpack JSON, gzipped, in base 85. Raises where the browser can't. */
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

/** Return the values of a packed column: plain, as differences, or as places in a list of distinct values. */
function columnValues(packed) {
  if (Array.isArray(packed)) return packed;
  return packed.deltas ? sums(packed.deltas) : packed.at.map((place) => packed.values[place]);
}

function sums(deltas) {
  let sum = 0;
  return deltas.map((delta) => (sum += delta));
}

/** The values of one part of a file: objects and lines are numbered behind those of the part `before`. */
export class PackedValues {
  constructor({ shapes, order, lines }, before = null) {
    this.before = before;
    this.first = before?.end ?? 0;
    this.firstLine = before?.endLine ?? 0;
    this.lines = lines === null ? [] : lines.split("\n");
    this.endLine = this.firstLine + this.lines.length;
    this.shapes = shapes.map(([names, columns]) => ({ names, columns, rows: 0 }));
    this.objects = [];
    for (let i = 0; i < order.length; i += 2) {
      const shape = this.shapes[order[i]];
      for (let n = 0; n < order[i + 1]; n += 1) this.objects.push([shape, shape.rows++]);
    }
    this.end = this.first + this.objects.length;
    this.made = [];
  }

  /** Return the object of a number; it is made when it is first asked for. */
  object(number) {
    if (number < this.first) return this.before.object(number);
    const place = number - this.first;
    return (this.made[place] ??= this.make(...this.objects[place]));
  }

  make(shape, row) {
    shape.values ??= shape.columns.map(columnValues);
    return Object.fromEntries(shape.names.map((name, i) => [name, this.value(shape.values[i][row])]));
  }

  /** Return the value of a packed one. */
  value(packed) {
    if (Array.isArray(packed)) return packed.map((each) => this.value(each));
    if (packed === null || typeof packed !== "object") return packed;
    if (packed.l) return sums(packed.l).map((number) => this.object(number));
    return packed.t ? this.text(packed.t) : this.object(packed.o);
  }

  text(spans) {
    const found = [];
    for (let i = 0; i < spans.length; i += 2) for (let n = 0; n < spans[i + 1]; n += 1) found.push(this.line(spans[i] + n));
    return found.join("\n");
  }

  line(number) {
    return number < this.firstLine ? this.before.line(number) : this.lines[number - this.firstLine];
  }
}
