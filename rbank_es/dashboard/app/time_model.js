// What the slider shows: pure.

/** Types of events that are drawn red on the slider, each in words. */
const NOTABLE = {
  judgment_overruled: "a verdict was overruled",
  memories_retracted: "items were retracted",
  memories_forgotten: "items were forgotten",
  memories_restored: "items were restored",
  memories_admitted: "items were admitted",
  decision_undone: "a decision was undone",
  content_erased: "text was erased",
  policy_set: "a policy was set",
};

const SENTENCES = {
  ...NOTABLE,
  bank_created: "the bank was created",
  run_started: "a run began",
  run_finished: "a run ended",
  run_judged: "a run was judged",
  tool_called: "a tool answered",
  lm_called: "a model answered",
  step_taken: "a step was taken",
  context_built: "a context was built",
  memories_retrieved: "the bank was searched",
  memories_read: "items were read",
  memories_extracted: "items were extracted",
  memories_consolidated: "items were decided on",
  memory_proposed: "an item was proposed",
  correction_completed: "a correction was completed",
  ontology_registered: "an ontology was registered",
};

/** Return in words what an event of a type was. */
export function sentenceOf(type) {
  return SENTENCES[type] ?? type.replaceAll("_", " ");
}

/** The number of bins in which the log is drawn. */
export const BINS = 200;

/** Return the bin of a position in a log of `head` events. */
export function binOf(position, head) {
  return Math.floor(((position - 1) * BINS) / head);
}

/** Return the ticks of the slider: {bin, share} with share from 0 to 1, the bin with most events of a type being 1. */
export function binnedTicks(counts) {
  const most = Math.max(1, ...counts);
  return counts.flatMap((count, bin) => (count ? [{ bin, share: count / most }] : []));
}

/** Return the notable changes to draw: one mark a bin, with the number of them. */
export function notableMarks(notable, head) {
  const marks = new Map();
  for (const { seq } of notable) {
    const bin = binOf(seq, head);
    marks.set(bin, (marks.get(bin) ?? 0) + 1);
  }
  return [...marks].map(([bin, count]) => ({ bin, count }));
}
