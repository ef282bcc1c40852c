// The slider of time, above every page.
import { h } from "./renderer.js";
import { count, day, minute, spaced } from "./words.js";

const BINS = 200;

/** Return the slider: `move(position)` is called with where it is put. */
export function timeSlider(bank, at, move) {
  const { head, event } = bank;
  const isPast = at < head;
  const when = at === 0 ? "before the first event" : `${minute(bank.last_at)} UTC`;
  const sentence = at > 0 && `after “${spaced(event.type)}”`;
  const row = h(
    "div",
    { class: "row" },
    stepButton("◀", "To the change before", bank.stop_before_seq === null && at === 0, () => move(bank.stop_before_seq ?? 0)),
    h("div", { class: "track" }, ticks(bank), range(bank, at, [when, sentence].filter(Boolean).join(", "), move)),
    stepButton("▶", "To the next change", !isPast, () => move(bank.stop_after_seq ?? head)),
  );
  const said = h("b", null, `${isPast ? "As of" : "Newest:"} position ${count(at)}`);
  const back = isPast && h("button", { class: "plain link", type: "button", onclick: () => move(head) }, "Back to the newest");
  // Whoever moves the slider hears its value already.
  const live = document.activeElement?.type === "range" ? "off" : "polite";
  const where = h("span", { role: "status", "aria-live": live }, said, h("span", { class: "more" }, ` of ${count(head)}`), `, ${when}`, sentence && h("span", { class: "more" }, `, ${sentence}`), ".");
  const line = h("p", { class: "said" }, where, " ", back, jump(bank, move));
  return h("section", { class: isPast ? "time past" : "time", "aria-label": "Point in time" }, row, line);
}

function stepButton(sign, label, disabled, onclick) {
  return h("button", { type: "button", "aria-label": label, title: label, disabled, onclick }, sign);
}

// A file's slider goes from stop to stop, a served one from position to position.
function range({ head, stops }, at, when, move) {
  return h("input", {
    type: "range",
    min: 0,
    max: stops ? stops.length - 1 : head,
    step: 1,
    value: stops ? stops.indexOf(at) : at,
    "aria-label": "Position in the log",
    "aria-valuetext": `position ${at} of ${head}, ${when}`,
    oninput: ({ target: { value } }) => move(stops ? stops[value] : Number(value)),
  });
}

// Binned, so that a log of any length has at most 200 ticks of each kind. A file has one for each stop.
function ticks({ stops, notable, ticks: kinds }) {
  const red = new Set(notable.map(({ seq }) => seq));
  const marks = stops
    ? stops.map((seq, i) => ({ bin: (i * (BINS - 1)) / Math.max(1, stops.length - 1), share: 1, isRed: red.has(seq) }))
    : [...binnedTicks(kinds.starts), ...binnedTicks(kinds.notable).map(({ bin }) => ({ bin, isRed: true }))];
  const shown = marks.map(({ bin, share, isRed }) =>
    isRed
      ? h("rect", { key: `n${bin}`, class: "notable", x: bin + 0.2, y: 0, width: 0.8, height: 14 })
      : h("rect", { key: `r${bin}`, class: "tick", x: bin + 0.3, y: 8 + 6 * (1 - share) * 0.6, width: 0.5, height: 6 - 3.6 * (1 - share) }),
  );
  return h("svg", { class: "ticks", viewBox: `0 0 ${BINS} 14`, preserveAspectRatio: "none", "aria-hidden": "true" }, shown);
}

/** Return the ticks of the slider: {bin, share} with share from 0 to 1, the bin with most events of a type being 1. */
export function binnedTicks(counts) {
  const most = Math.max(1, ...counts);
  return counts.flatMap((count, bin) => (count ? [{ bin, share: count / most }] : []));
}

function jump(bank, move) {
  const notable = bank.notable.filter(({ seq }) => !bank.stops || bank.stops.includes(seq)).reverse();
  if (!notable.length) return null;
  const go = (event) => {
    if (event.target.value) move(Number(event.target.value));
    event.target.value = "";
  };
  const options = notable.map(({ seq, type, recorded_at: time, text }) => h("option", { key: seq, value: seq }, `${count(seq)}, ${day(time)}: ${(text || spaced(type)).slice(0, 90)}`));
  return h("label", { class: "jump" }, "Go to ", h("select", { value: "", onchange: go }, h("option", { key: "", value: "" }, "a notable change…"), options));
}
