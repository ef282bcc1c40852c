// The slider of time, above every page.
import { h } from "./renderer.js";
import { BINS, binnedTicks, notableMarks, sentenceOf } from "./time_model.js";
import { count, minute } from "./words.js";

/** Return the slider: `move(position)` is called with where it is put. */
export function timeSlider(bank, at, move) {
  const { head, event } = bank;
  const isPast = at < head;
  const when = at === 0 ? "before the first event" : `${minute(bank.at_time)} UTC`;
  const sentence = at > 0 && `when ${sentenceOf(event.type)}`;
  const row = h(
    "div",
    { class: "row" },
    stepButton("◀", "To the change before", bank.before === null && at === 0, () => move(bank.before ?? 0)),
    h("div", { class: "track" }, ticks(bank), range(head, at, [when, sentence].filter(Boolean).join(", "), move)),
    stepButton("▶", "To the next change", !isPast, () => move(bank.after ?? head)),
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

function range(head, at, when, move) {
  return h("input", {
    type: "range",
    min: 0,
    max: head,
    step: 1,
    value: at,
    "aria-label": "Position in the log",
    "aria-valuetext": `position ${at} of ${head}, ${when}`,
    oninput: (event) => move(Number(event.target.value)),
  });
}

// Binned, so that a log of any length has at most 200 ticks of each kind.
function ticks(bank) {
  const runs = binnedTicks(bank.kinds.starts).map(({ bin, share }) =>
    h("rect", { key: `r${bin}`, class: "tick", x: bin + 0.3, y: 8 + 6 * (1 - share) * 0.6, width: 0.5, height: 6 - 3.6 * (1 - share) }),
  );
  const notable = notableMarks(bank.notable, bank.head).map(({ bin }) => h("rect", { key: `n${bin}`, class: "notable", x: bin + 0.2, y: 0, width: 0.8, height: 14 }));
  return h("svg", { class: "ticks", viewBox: `0 0 ${BINS} 14`, preserveAspectRatio: "none", "aria-hidden": "true" }, runs, notable);
}

function jump(bank, move) {
  if (!bank.notable.length) return null;
  const go = (event) => {
    if (event.target.value) move(Number(event.target.value));
    event.target.value = "";
  };
  const options = [...bank.notable].reverse().map(({ seq, type, text, run }) => h("option", { key: seq, value: seq }, `${count(seq)}: ${(text ?? sentenceOf(type) + (run ? `, ${run}` : "")).slice(0, 90)}`));
  return h("label", { class: "jump" }, "Go to ", h("select", { value: "", onchange: go }, h("option", { key: "", value: "" }, "a notable change…"), options));
}
