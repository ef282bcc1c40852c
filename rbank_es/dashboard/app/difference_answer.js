// The answers `changes`, between two positions, and `compare`, of two runs at one, of an exported bank. Pure.
import { wholeItemRow } from "./item_rows.js";
import { BadRequest, compared, countedBy, pointOf } from "./row_list.js";
import { short } from "./run_rows.js";
import { standing } from "./time_model.js";

const ROWS = 200;
// Fields that differ between any two runs, or say why others differ.
const NAMING = new Set(["run", "task_id", "started", "time", "finished", "ended", "reason", "score_reason"]);

/** Return what changed behind the point `from`: states of items, verdicts, policies, and the runs that began. */
export function changesAnswer(bank, position, asked) {
  if (!asked.from && asked.from !== 0) throw new BadRequest("say from which position");
  const from = pointOf(bank, String(asked.from));
  if (from > position) throw new BadRequest(`from is position ${from}, later than ${position}: exchange the two`);
  const learning = bank.tables.verdicts.filter((row) => row.purpose === "learning");
  const items = changed(bank.tables.item_states, "item", "state", from, position);
  const judged = changed(learning, "run", "verdict", from, position);
  const verdicts = judged.filter((row) => row.before !== null);
  return {
    from,
    from_time: bank.timeAt(from),
    first_verdicts: countedBy(judged.filter((row) => row.before === null), ({ after }) => after),
    runs: bank.starts.filter((row) => row.from_seq > from && row.from_seq <= position).length,
    policies: policyChanges(bank, from, position),
    items: { total: items.length, added: items.filter((row) => row.before === null).length, rows: items.slice(0, ROWS).map((row) => ({ ...row, title: short(wholeItemRow(bank, row.id, position)?.title ?? null) })) },
    verdicts: { total: verdicts.length, rows: verdicts.slice(0, ROWS).map(({ id, ...row }) => ({ run: id, task: taskOf(bank, id, position), ...row })) },
  };
}

function taskOf(bank, run, position) {
  const start = bank.start.get(run);
  return start && start.from_seq <= position ? short(start.task) : null;
}

/** Return what has another value than at an earlier position, with the position of its last change, latest first. */
function changed(rows, key, column, from, position) {
  const touched = new Map();
  const isBetween = (seq) => seq !== null && seq > from && seq <= position;
  for (const row of rows) {
    const seqs = [row.from_seq, row.to_seq].filter(isBetween);
    if (seqs.length) touched.set(row[key], Math.max(touched.get(row[key]) ?? 0, ...seqs));
  }
  const of = new Map();
  for (const row of rows) if (touched.has(row[key])) of.set(row[key], [...(of.get(row[key]) ?? []), row]);
  const found = [...touched].map(([id, seq]) => {
    const at = (n) => standing(of.get(id), n)?.[column] ?? null;
    return { id, before: at(from), after: at(position), seq };
  });
  return found.filter((row) => row.before !== row.after).sort((a, b) => b.seq - a.seq || compared(a.id, b.id));
}

function policyChanges(bank, from, position) {
  const at = (n) => new Map(bank.tables.policy_choices.filter((row) => row.from_seq <= n && (row.to_seq === null || row.to_seq > n)).map((row) => [row.kind, row]));
  const [before, after] = [at(from), at(position)];
  const same = (a, b) => a?.name === b?.name && a?.version === b?.version && a?.settings === b?.settings;
  const label = (row) => (row ? `${row.name}-${row.version}` : null);
  const kinds = [...new Set([...before.keys(), ...after.keys()])].sort(compared);
  return kinds.filter((kind) => !same(before.get(kind), after.get(kind))).map((kind) => ({ kind, before: label(before.get(kind)), after: label(after.get(kind)) }));
}

/** Return two runs without their events, and the names of the fields in which they differ. */
export function comparison(a, b) {
  const names = Object.keys(a.run).filter((name) => !NAMING.has(name));
  return { a, b, differ: names.filter((name) => a.run[name] !== b.run[name]).sort(compared) };
}
