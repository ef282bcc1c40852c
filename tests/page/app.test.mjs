// Tests of the app's pure parts: node --test (run by test_app_modules.py, with the folder of the modules in MODULES).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const from = (name) => import(`file://${process.env.MODULES}/${name}.js`);
const { formatAddress, parseAddress } = await from("address");
const { FileSource } = await from("file_source");
const { hasWords, isWanted, pageOf, sortedRows } = await from("row_list");
const { binnedTicks } = await from("time_slider");
const { brief, cut, visible } = await from("visible_text");
const { count, percent, plural, shellWord } = await from("words");
const { groupSteps, readableArguments } = await from("run_steps");
const { stepPath } = await from("charts");
const { points } = await from("health_page");

test("an address is read back as it was written", () => {
  for (const address of [
    { page: "overview", argument: "", at: null, parameters: {} },
    { page: "overview", argument: "", at: 0, parameters: {} },
    { page: "run", argument: "a/b?c#d é", at: 199, parameters: { after: "5" } },
    { page: "runs", argument: "", at: null, parameters: { q: "two words&more=1", sort: "-tokens" } },
  ]) {
    assert.deepEqual(parseAddress(formatAddress(address)), address);
  }
  assert.equal(formatAddress({ page: "overview" }), "#/");
});

test("a mistyped address names a page all the same", () => {
  assert.deepEqual(parseAddress(""), { page: "overview", argument: "", at: null, parameters: {} });
  assert.equal(parseAddress("#/run/100%?at=-3").argument, "100%");
  assert.equal(parseAddress("#/runs?at=").at, null);
  // Whatever else is asked whether it is a point.
  for (const at of ["9999999999999999999", "1e3", "2026-01-31", "HEAD~5"]) assert.equal(parseAddress(`#/runs?at=${at}`).at, at);
});

test("a bin with most events has the tallest tick, an empty one none", () => {
  assert.deepEqual(binnedTicks([0, 2, 4]), [{ bin: 1, share: 0.5 }, { bin: 2, share: 1 }]);
  assert.deepEqual(binnedTicks([0]), []);
});

test("bytes are read back from base 85", async () => {
  const { bytesOf, unpack } = await from("packed_values");
  assert.deepEqual([...bytesOf("")], []);
  assert.deepEqual([...bytesOf("{{")], [255]);
  assert.deepEqual([...bytesOf("00000")], [0, 0, 0, 0]);
  // `base64.b85encode(gzip.compress(b'{"a":1}', 9, mtime=0))`, with its three characters changed.
  assert.deepEqual(await unpack("ABzY8000000t2g7N.s8ktOWqCtQ%Gb0000"), { a: 1 });
});

test("values of any kind come back as they were packed, of two parts", async () => {
  const { PackedValues } = await from("packed_values");
  const { head, tail, forms, values } = JSON.parse(readFileSync(process.env.PACKED, "utf8"));
  const first = new PackedValues(head);
  const both = new PackedValues(tail, first);
  assert.deepEqual(forms.map((form) => both.value(form)), values);
});

test("hidden characters are spelled out, words stay", () => {
  assert.equal(visible("a\u202eb\0c\u2028\u200b\ud800"), "a\\u202eb\\x00c\\u2028\\u200b\\ud800");
  for (const words of ["plain\n\ttext", "שלום", "می\u200cخواهم", "日本語", "👩\u200d💻", "ế"]) assert.equal(visible(words), words);
  assert.equal(visible("e" + "\u0301".repeat(6)), "e" + "\u0301".repeat(4) + "\\u0301\\u0301");
});

test("a plain text is not searched for hidden characters, and has none", () => {
  // The sign before it is none of the plain ones.
  for (let code = 1; code < 0x3000; code += 1) assert.equal("日" + visible(String.fromCharCode(code)), visible("日" + String.fromCharCode(code)));
});

test("texts are cut between characters", () => {
  assert.equal(cut("a😀b", 2), "a😀");
  assert.equal(cut("abc", 3), "abc");
  assert.equal(brief("a😀b", 4), "a😀b");
  assert.equal(brief("a😀b\ud800", 4), "a😀b…");
  assert.equal(brief(null), null);
});

test("rows without a value are last both ways, ties stay in order", () => {
  const rows = [{ id: "c", n: 2 }, { id: "b", n: 2 }, { id: "a", n: null }, { id: "d", n: 1 }];
  const ids = (sort) => sortedRows(rows, sort).map((row) => row.id).join("");
  assert.equal(ids("n"), "dcba");
  assert.equal(ids("-n"), "cbda");
});

test("pages follow one another without a gap, and what can't be asked is refused", () => {
  const list = { total: 205, next: null, rows: Array.from({ length: 205 }, (_, i) => ({ id: `r${i}`, title: i % 2 ? "Odd one" : "even", n: i })) };
  const page = (asked, of = list) => pageOf(of, asked, ["id", "title"]);
  const seen = [];
  for (let after = ""; after !== null; after = page({ after }).next) seen.push(...page({ after }).rows);
  assert.deepEqual(seen, list.rows);
  assert.deepEqual([page({}).total, page({ q: "ODD", sort: "-n" }).total, page({ q: "odd", sort: "-n" }).rows[0].n], [205, 102, 203]);
  assert.deepEqual([page({}).rows_held, page({}, { ...list, total: 999, next: "r204" }).rows_held], [null, 205]);
  for (const asked of [{ sort: "constructor" }, { item: "x" }, { after: "unknown" }]) assert.ok(page(asked).error, JSON.stringify(asked));
});

test("every word must occur, in whatever case", () => {
  assert.ok(hasWords(["ära", "two"], ["one Two", null, "ära"]));
  assert.ok(!hasWords(["two", "three"], ["two"]));
  assert.ok(hasWords([], [null]));
  assert.ok(isWanted(null, "none") && !isWanted("a", "none") && isWanted(["a"], "a"));
});

test("a point is the last stop before it, and named where it lies between two", () => {
  const times = ["", "2026-03-05T10:00:00.000001Z", "2026-03-09T10:00:00.000000Z", "2026-04-01T00:00:00.000000Z"];
  const source = new FileSource({ stops: [0, 10, 20, 30], times, blocks: [], answers: {}, shapes: [], order: [], lines: null }, []);
  const stops = (...points) => points.map((point) => source.stopOf(point).stop);
  assert.deepEqual(stops(null, 0, 9, "10", "seq:29", "HEAD", "HEAD~11"), [30, 0, 0, 10, 20, 30, 10]);
  assert.deepEqual(stops("2026-03-05", "2026-03-05T10:00", "2026-03-05T10:01", "2026-03-09T12:00+02:00", "2999-01-01"), [0, 0, 10, 20, 30]);
  assert.deepEqual(stops("31", "HEAD~31", "monday", "2026-13-01", "-1", "HEAD~x", "__proto__"), Array(7).fill(undefined));
  assert.deepEqual(["10", 11, "2026-03-06", null, "2999-01-01"].map((point) => source.stopOf(point).between), [null, "11", "2026-03-06", null, null]);
});

test("numbers that were not recorded are dashes", () => {
  assert.deepEqual([count(null), count(undefined), count(0), count(12345)], ["–", "–", "0", "12,345"]);
  assert.deepEqual([count(-1234567.891), count(999), count(0.005), count(1e6)], ["-1,234,567.89", "999", "0.01", "1,000,000"]);
  assert.equal(plural(1, "run") + plural(0, "run"), "1 run0 runs");
});

test("a name is one word of a shell", () => {
  assert.equal(shellWord("./a-b"), "./a-b");
  assert.equal(shellWord("it's; rm"), `'it'"'"'s; rm'`);
});

test("calls belong to the step that they led to, else to the run, in order; those of a judge stand apart", () => {
  const [agent, judge, tool, step] = [{ type: "lm_called", role: "agent" }, { type: "lm_called", role: "judge" }, { type: "tool_called" }, { type: "step_taken" }];
  const grouped = (...events) => groupSteps([{ type: "run_started" }, ...events].map((event, seq) => ({ ...event, seq }))).map(({ step, name, events: of }) => [step?.seq ?? name, of.map(({ seq }) => seq)]);
  assert.deepEqual(grouped(), []);
  assert.deepEqual(grouped(agent, tool, step, judge), [[3, [1, 2]], ["Judging and extracting", [4]]]);
  assert.deepEqual(grouped(tool, agent, tool), [["What it called", [1, 2, 3]]]);
  assert.deepEqual(grouped(tool, judge, { type: "run_finished" }, tool), [["What it called", [1, 4]], ["Judging and extracting", [2]]]);
  assert.deepEqual(grouped(agent, step, agent, tool, { type: "lm_called", role: "sub" }), [[2, [1]], ["Outside of a step", [3, 4, 5]]]);
  assert.equal(readableArguments('{"query":"SELECT 1"}'), "SELECT 1");
  assert.equal(readableArguments("no JSON"), "no JSON");
});

test("a share is shown in whole per cent, halves up, as commands show it", () => {
  const shares = [[1, 8], [3, 8], [1, 40], [1, 200], [29, 200], [0, 3], [3, 3]];
  assert.deepEqual(shares.map(([part, whole]) => percent(part / whole)), [13, 38, 3, 1, 14, 0, 100].map((n) => `${n}\u00a0%`));
  assert.deepEqual([0.125, 0, -0.125, -0.001].map(points), ["+13", "+0", "-12", "+0"].map((n) => `${n} points`));
});

test("a line has a gap where nothing was recorded", () => {
  const same = (value) => value;
  assert.equal(stepPath([[0, 1], [1, null], [2, 3]], same, same), "M0.0 1.0M2.0 3.0");
});
