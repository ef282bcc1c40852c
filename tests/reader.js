// node reader.js DIRECTORY [POSITION...]: prints a bank's head, then the one at each position. See docs/format.md.
const fs = require("fs"), { createHash } = require("crypto");
const member = (text) => /^"([^"]*)":([^]*)$/.exec(text).slice(1); // name and raw JSON
const bytes = (text) => Buffer.from(text, "latin1"); // a line is held as text with one character per byte
const sha = (...parts) => createHash("sha256").update(Buffer.concat(parts));
const table = [...Array(256).keys()].map((n) => [...Array(8)].reduce((c) => (c >>> 1) ^ (c & 1 && 0xedb88320), n));
const crc32 = (text) => ~bytes(text).reduce((c, byte) => (c >>> 8) ^ table[(c ^ byte) & 255], -1) >>> 0;
function split(text) { // at the commas that are in no string, array or object
  let depth = 0, found = text ? [""] : [];
  for (const part of text.match(/"(?:[^"\\]|\\.)*"|[^"]/g) ?? []) { // strings, and single characters between them
    depth += "[{".includes(part) - "]}".includes(part);
    if (part === "," && !depth) found.push(""); else found[found.length - 1] += part;
  }
  return found;
}
const units = ([key, raw]) => raw[0] !== "[" ? [[key, raw]] : split(raw.slice(1, -1)).map((e, i) => [`${key}.${i}`, e]);
function chain(digest, line) {
  const body = line.slice(0, line.lastIndexOf(',"more":')), end = body.indexOf(',"salt":');
  if (end < 0) return sha(digest, bytes(body)).digest();
  const [[, salt], ...texts] = split(body.slice(end + 1)).map(member), kept = salt[0] === "{" && JSON.parse(salt);
  const salted = (at) => kept ? Buffer.from(kept[at], "hex") : sha(bytes(`${salt.slice(1, -1)}\0${at}`)).digest();
  const erased = (raw) => /^{"is":"erased","digest":"(.{64})"}$/.exec(raw)?.[1];
  const commit = ([at, raw]) => `\n${at} ${erased(raw) ?? sha(salted(at), bytes(raw)).digest("hex")}`;
  return sha(digest, bytes(body.slice(0, end) + texts.flatMap(units).map(commit).join(""))).digest();
}
const [directory, ...positions] = process.argv.slice(2), heads = [Buffer.alloc(32)]; // heads[n]: after position n
let whole = 0, before = "segment_sealed", at = (position) => `${position}:${heads[position].toString("hex")}`;
for (const name of fs.readdirSync(directory).filter((name) => /^\d{20}\.jsonl$/.test(name)).sort()) {
  const lines = fs.readFileSync(`${directory}/${name}`, "latin1").split("\n").slice(0, -1);
  const sum = (line) => crc32(JSON.parse(lines[0]).bank + line.slice(0, -18)).toString(16).padStart(8, "0") + '"}';
  for (const line of lines) {
    const { type, seq, more, first, last = first - 1, head } = line.endsWith(sum(line)) ? JSON.parse(line) : {};
    const misplaced = (type === "segment_opened") !== (before === "segment_sealed");
    if (!(before = type) || (seq && seq !== heads.length)) break; // an interrupted append, if no segment follows
    const fits = !type.startsWith("segment_") || type === "segment_torn" || `${last}:${head}` === at(heads.length - 1);
    if (misplaced || !fits) throw new Error(`${name}: ${type} can't stand behind ${at(heads.length - 1)}`);
    if (seq && heads.push(chain(heads.at(-1), line)) && more === 0) whole = seq;
  }
}
console.log([whole, ...positions].map(at).join("\n"));
