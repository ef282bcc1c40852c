// Drawings in SVG: lines over the log, and a mark for each run.
import { verdictMark } from "./parts.js";
import { h } from "./renderer.js";
import { count, plural } from "./words.js";

const WIDTH = 600;
const LEFT = 52;
const RIGHT = WIDTH - 8;

/**
 * Return a step line over positions. `points` are [position, value or null] in order; `head` is the width of the log,
 * `marks` positions to draw as dashed lines, `beside` the points of a dashed line, `format` the words of a value.
 */
export function stepLine({ points, head, label, marks = [], beside = null, height = 110, top = null, format = count }) {
  const most = top ?? Math.max(1, ...points.map(([, value]) => value ?? 0));
  const x = (seq) => LEFT + (seq / Math.max(1, head)) * (RIGHT - LEFT);
  const y = (value) => height - 18 - (value / most) * (height - 30);
  return h(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label },
    h("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: y(0), y2: y(0) }),
    h("text", { x: LEFT - 6, y: y(most) + 4, "text-anchor": "end" }, format(most)),
    h("text", { x: LEFT - 6, y: y(0) + 4, "text-anchor": "end" }, format(0)),
    marks.map((seq) => h("line", { key: seq, class: "mark", x1: x(seq), x2: x(seq), y1: 8, y2: y(0) })),
    beside && h("path", { class: "beside", d: stepPath(beside, x, y) }),
    h("path", { class: "line", d: stepPath(points, x, y) }),
    h("text", { x: LEFT, y: height - 3 }, "position 0"),
    h("text", { x: RIGHT, y: height - 3, "text-anchor": "end" }, count(head)),
  );
}

/** Return the path of a step line; where a value is null the line has a gap. */
export function stepPath(points, x, y) {
  let path = "";
  let isDown = false;
  for (const [seq, value] of points) {
    if (value === null) isDown = false;
    else {
      path += isDown ? `H${x(seq).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(seq).toFixed(1)} ${y(value).toFixed(1)}`;
      isDown = true;
    }
  }
  return path;
}

/** Return a horizontal bar of a share from 0 to 1. */
export function bar(share, isOver = false) {
  return h(
    "svg",
    { class: "bar", viewBox: "0 0 100 10", width: 100, height: 10, "aria-hidden": "true", preserveAspectRatio: "none" },
    h("rect", { class: "room", width: 100, height: 10 }),
    h("rect", { class: isOver ? "over" : "taken", width: Math.min(100, Math.max(0, share * 100)), height: 10 }),
  );
}

const SIGNS = { success: "", failure: "✕", undecided: "◐" };
const GROUP_ORDER = ["success", "undecided", "none", "failure"];

/** Return a linked mark for each run, in the order given. */
export function runStrip(context, runs) {
  const marks = runs.map(({ run, verdict, score }) => {
    const said = `${run}: ${verdict ?? "not judged"}${score ? `, scored ${score === "success" ? "right" : "wrong"}` : ""}`;
    const attributes = { href: context.href("run", run), class: verdict ?? "none", title: said, "aria-label": said };
    return h("li", { key: run }, h("a", attributes, SIGNS[verdict] ?? "○"));
  });
  return h("ol", { class: "strip", "aria-label": "Runs in order, each a link" }, marks);
}

/** Return a linked column for each group of runs, stacked by verdict, in the order given. */
export function groupStrip(context, groups) {
  const columns = groups.map(({ runs, after, not_judged: none, ...counts }) => {
    const verdicts = { ...counts, none };
    const shares = GROUP_ORDER.filter((verdict) => verdicts[verdict]);
    const said = `${plural(runs, "run")}: ${shares.map((verdict) => `${count(verdicts[verdict])} ${verdict === "none" ? "not judged" : verdict}`).join(", ")}`;
    let top = 1;
    const parts = shares.map((verdict) => {
      const height = verdicts[verdict] / runs;
      top -= height;
      return h("rect", { key: verdict, class: verdict, width: 1, height, y: top });
    });
    const drawing = h("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
    return h("li", { key: after }, h("a", { href: context.href("runs", "", { after }), title: said, "aria-label": said }, drawing));
  });
  return h("ol", { class: "strip groups", "aria-label": "Older runs in groups, each a link" }, columns);
}

/** Return the legend of `runStrip`. */
export function stripLegend() {
  return h("p", { class: "legend" }, ["success", "failure", "undecided", null].map((verdict) => h("span", null, verdictMark(verdict), " ")));
}
