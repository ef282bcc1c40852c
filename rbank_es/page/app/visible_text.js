// Stored text as people may see it: hidden and steering characters are spelled out, as `\u202e`. The rules are those of
// the command line (rbank_es/events/hidden_characters.py), because a reader must see what programs and agents read.

const HIDDEN =
  /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0d\u{e0100}-\u{e01ef}]/gu;
// Joiners are letters of Persian and Hindi words and parts of many emoji.
const KEPT = new Set(["\n", "\t", "\r\n", "\u200c", "\u200d"]);
// The densest scripts have at most four marks over one letter.
const PILED_MARKS = /(\p{M}{4})(\p{M}+)/gu;
// Letters of Europe, dashes, quotes, arrows and marks, of which none is hidden: the first match of HIDDEN takes milliseconds.
const PLAIN = /^[\n\t\x20-\x7e\xa0-\xac\xae-\u024f\u2013-\u2027\u2190-\u21ff\u25a0-\u25ff\u2700-\u27bf]*$/;

/** Return the text with every hidden or steering character spelled out; line ends and tabs stay. */
export function visible(text) {
  if (PLAIN.test(text)) return text;
  return text
    .replaceAll("\r\n", "\n")
    .replace(HIDDEN, (char) => (KEPT.has(char) ? char : spelled(char)))
    .replace(PILED_MARKS, (_, shown, piled) => shown + [...piled].map(spelled).join(""));
}

function spelled(char) {
  const code = char.codePointAt(0);
  if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
  return code < 0x10000 ? "\\u" + code.toString(16).padStart(4, "0") : "\\U" + code.toString(16).padStart(8, "0");
}

/** Return the first `most` code points of a text. */
export function cut(text, most) {
  return text.length <= most ? text : [...text.slice(0, 2 * most)].slice(0, most).join("");
}

/** Return a text in at most `most` code points, with a mark where it goes on: lists hold the first 300. */
export function brief(text, most = 300) {
  const start = [...(text ?? "").slice(0, 2 * most)];
  return start.length < most ? text : `${start.slice(0, most - 1).join("")}…`;
}
