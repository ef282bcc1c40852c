// Numbers, times and intervals in words. A value that was not recorded is a dash, never zero.

export const DASH = "–";
const THOUSANDS = /\B(?=(\d{3})+$)/g;

/** Return a number with thousands separators and at most two decimals; a dash where it was not recorded. */
export function count(value) {
  if (value === null || value === undefined) return DASH;
  // By hand, because to load the browser's formats takes a sixth of the time in which the page opens.
  const [whole, decimals] = String(Math.round(value * 100) / 100).split(".");
  return whole.replace(THOUSANDS, ",") + (decimals ? `.${decimals}` : "");
}

/** Return a counted noun: "1 run", "2 runs". */
export function plural(n, one, many = one + "s") {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Return a share from 0 to 1 in per cent. */
export function percent(share) {
  return share === null || share === undefined ? DASH : `${Math.round(share * 100)}\u00a0%`;
}

/** Return a name of the log in words: `run_finished` as "run finished". */
export const spaced = (name) => name.replaceAll("_", " ");

/** Return what was decided on a candidate, in words. */
export const decided = (action) => DECIDED[action] ?? "not decided yet";

const DECIDED = { add: "added", skip: "skipped", merge: "merged", supersede: "added in place of another", discard: "discarded" };

/** Return the day of an ISO time. */
export function day(time) {
  return time ? time.slice(0, 10) : DASH;
}

/** Return an ISO time to the minute, in UTC. */
export function minute(time) {
  return time ? time.slice(0, 16).replace("T", " ") : DASH;
}

/** Return the text as a word that a POSIX shell takes unchanged. */
export function shellWord(text) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\"'\"'") + "'";
}

/** Return a command line: a verb, quoted names, options; options first where a name could be taken for one. */
export function commandOn(verb, names, options = "") {
  const quoted = names.map(shellWord).join(" ");
  const parts = names.some((name) => name.startsWith("-")) ? [verb, options, "--", quoted] : [verb, quoted, options];
  return ["rbank-es", ...parts].filter(Boolean).join(" ");
}
