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
  const groups = groupSteps(events.map(({ facts, ...event }) => ({ ...event, ...facts })));
  if (!groups.length) return h("p", { class: "muted" }, "No steps were recorded.");
  return h("ol", { class: "steps" }, groups.map((group) => oneStep(group, context)));
}

function oneStep({ step, name, events }, context) {
  const shown = (event) => (event.type === "tool_called" ? toolCall : modelCall)(event, context);
  if (!step) return h("li", { key: name }, h("h4", null, name), events.map(shown));
  const [reasoning, code, output] = ["reasoning", "code", "output"].map((name) => textAt(step, name));
  const [tools, models] = ["tool_called", "lm_called"].map((type) => events.filter((event) => event.type === type).map(shown));
  return h(
    "li",
    { key: step.seq, class: step.error_code ? "bad" : null },
    h("h4", null, `Step ${step.index}`, step.error_code && h("span", { class: "error-code" }, ` ✕ ${step.error_code}`)),
    reasoning && h("p", { class: "reasoning text" }, reasoning.text ?? "(text erased)"),
    code && textBlock(context, "code", code, step.seq),
    tools,
    output && fold(context, `output ${step.seq}`, "Output", `${count(output.chars)} characters${step.stdout_chars === undefined ? "" : `, ${count(step.stdout_chars)} of them printed`}`, () => textBlock(context, "output", output, step.seq), output.chars < 400),
    models,
  );
}

function textAt(event, path) {
  return event.texts.find((text) => text.path === path);
}

function toolCall(event, context) {
  const large = (event.chars ?? 0) > context.bank.flag_limits.return_chars;
  const name = [h("code", null, event.tool), event.error_code && h("span", { class: "error-code" }, ` ✕ ${event.error_code}`), " ", large && h("span", { class: "tag bad" }, "large return")];
  const size = `${count(event.chars)} characters back${event.truncated ? ", cut" : ""}${event.alias ? `, behind ${event.alias}` : ""}`;
  const [given, error, result] = ["arguments", "error", "result"].map((name) => textAt(event, name));
  const body = () => [
    given && [h("h5", null, "Asked"), textBlock(context, "arguments", given, event.seq, readableArguments)],
    error && [h("h5", null, "Error"), textBlock(context, "error", error, event.seq)],
    result ? [h("h5", null, "What stands behind the handle"), textBlock(context, "result", result, event.seq)] : !event.error_code && h("p", { class: "muted" }, "What came back is not recorded, only its size."),
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
  const error = textAt(event, "error");
  const body = () => [
    h("h5", null, "What it was sent"),
    messages(context, "request", event),
    h("h5", null, "What it answered"),
    error ? textBlock(context, "error", error, event.seq) : messages(context, "response", event),
  ];
  return fold(context, `model ${event.seq}`, `Model asked as ${event.role}`, size, body);
}

function messages(context, name, { seq, texts }) {
  const sent = texts.filter(({ path }) => path === name || path.startsWith(`${name}.`));
  if (!sent.length) return textBlock(context, name, null, seq);
  return sent.map((text, i) => [text.author && h("p", { class: "role" }, text.author), textBlock(context, `${name} ${i + 1}`, text, seq)]);
}
