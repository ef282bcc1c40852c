// The answer `search` of an exported bank. The bank's own ranking needs its index, so here words are compared plainly.
import { itemRows } from "./item_rows.js";
import { BadRequest, compared, hasWords, numberOf, wordsOf } from "./row_list.js";
import { short } from "./run_rows.js";

const NOTE = "plain words: every word must occur in the item; a served page, or rbank-es search, ranks as agents are given items";

export function searchAnswer(bank, position, asked) {
  const words = wordsOf(asked.q);
  if (!words.length) throw new BadRequest("give some words");
  const wanted = numberOf(asked.k, 10, 1, 100);
  const found = itemRows(bank, position).filter((row) => row.state === "active" && (!asked.domain || row.domains.includes(asked.domain)));
  const hits = found.filter((row) => hasWords(words, [row.title, row.desc, row.content, ...row.tags]));
  // Those that have the words in their title first.
  const order = (row) => Number(!hasWords(words, [row.title]));
  hits.sort((a, b) => order(a) - order(b) || b.uses - a.uses || compared(a.id, b.id));
  const shown = hits.slice(0, wanted).map(({ id, title, desc, content, src, polarity }, i) => ({ rank: i + 1, id, title: short(title), desc: short(desc), content: short(content), src, polarity, score: null }));
  return { hits: shown, withheld: [], note: NOTE };
}
