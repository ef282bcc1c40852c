// The steps of a run: what the agent thought, wrote, called and printed, with each prompt as it was sent.
import { fold, textBlock } from "./parts.js";
import { h } from "./renderer.js";
import { count } from "./words.js";

const OF_OTHERS = ["judge", "extractor"];

/** Return the calls of a run in groups: by the step that ended after them, else of the run itself, then those of judges and extractors. */
export function groupSteps(events) {
  const groups = [];
  let pending = [];
  const later = [];
  for (const event of events) {
    if (event.type === "step_taken") {
      groups.push({ step: event, events: pending });
      pending = [];
    } else if (OF_OTHERS.includes(event.role)) later.push(event);
    else if (event.type === "tool_called" || event.type === "lm_called") pending.push(event);
  }
  if (pending.length) groups.push({ name: groups.length ? "Outside of a step" : "What it called", events: pending });
  if (later.length) groups.push({ name: "Judging and extracting", events: later });
  return groups;
}

/** Return the steps as a list. */
export function runSteps(events, context) {
  const groups = groupSteps(events);
  if (!groups.length) return h("p", { class: "muted" }, "No steps were recorded.");
  return h("ol", { class: "steps" }, groups.map((group) => oneStep(group, context)));
}

function oneStep({ step, name, events }, context) {
  const shown = (event) => (event.type === "tool_called" ? toolCall : modelCall)(event, context);
  if (!step) return h("li", { key: name }, h("h4", null, name), events.map(shown));
  const [tools, models] = ["tool_called", "lm_called"].map((type) => events.filter((event) => event.type === type).map(shown));
  return h(
    "li",
    { key: step.seq, class: step.error_code ? "bad" : null },
    h("h4", null, `Step ${step.index}`, step.error_code && h("span", { class: "error-code" }, ` ✕ ${step.error_code}`)),
    step.reasoning && h("p", { class: "reasoning text" }, plain(step.reasoning)),
    step.code && textBlock(context, "code", step.code, step.seq),
    tools,
    step.output && fold(context, `output ${step.seq}`, "Output", `${count(lengthOf(step.output))} characters${step.stdout_chars === undefined ? "" : `, ${count(step.stdout_chars)} of them printed`}`, () => textBlock(context, "output", step.output, step.seq), lengthOf(step.output) < 400),
    models,
  );
}

function plain(value) {
  return value.text ?? (value.erased ? "(text erased)" : "");
}

function lengthOf(value) {
  return value.chars ?? 0;
}

function toolCall(event, context) {
  const large = (event.chars ?? 0) > context.bank.flags.return_chars;
  const name = [h("code", null, event.tool), event.error_code && h("span", { class: "error-code" }, ` ✕ ${event.error_code}`), " ", large && h("span", { class: "tag bad" }, "large return")];
  const size = `${count(event.chars)} characters back${event.truncated ? ", cut" : ""}${event.alias ? `, behind ${event.alias}` : ""}`;
  const body = () => [
    event.arguments && [h("h5", null, "Asked"), textBlock(context, "arguments", event.arguments, event.seq, readableArguments)],
    event.error && [h("h5", null, "Error"), textBlock(context, "error", event.error, event.seq)],
    event.result ? [h("h5", null, "What stands behind the handle"), textBlock(context, "result", event.result, event.seq)] : !event.error_code && h("p", { class: "muted" }, "What came back is not recorded, only its size."),
  ];
  return fold(context, `tool ${event.seq}`, name, size, body, Boolean(event.error_code));
}

/** Return the arguments of a call as people read them: a query alone as it is, others as JSON on several lines. */
export function readableArguments(text) {
  try {
    const given = JSON.parse(text);
    return Object.keys(given).length === 1 && typeof given.query === "string" ? given.query : JSON.stringify(given, null, 1);
  } catch {
    return text;
  }
}

function modelCall(event, context) {
  const size = `${count(event.tokens_in)} tokens in, ${count(event.tokens_out)} out${event.error_code ? `, failed: ${event.error_code}` : ""}`;
  const body = () => [
    h("h5", null, "What it was sent"),
    messages(context, "request", event.request, event.seq),
    h("h5", null, "What it answered"),
    event.error ? textBlock(context, "error", event.error, event.seq) : messages(context, "response", event.response, event.seq),
  ];
  return fold(context, `model ${event.seq}`, `Model asked as ${event.role}`, size, body);
}

function messages(context, name, recorded, seq) {
  if (!Array.isArray(recorded)) return textBlock(context, name, recorded ?? null, seq);
  return recorded.map(({ role, text }, i) => [role && h("p", { class: "role" }, role), textBlock(context, `${name} ${i + 1}`, text, seq)]);
}
