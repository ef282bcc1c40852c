"""Pairs of statements by templates: one fact exchanged, added, lost or moved; or nothing but the way of writing."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator

from rbank_es.events.items import Item
from rbank_es.law.statement_reader import SILENT, read_statement

Dice = random.Random
Change = Callable[[str, Dice], str | None]
"""Changes a text; None where it can't."""

LESSONS = (
    (
        "The reporting deadline is October 15th",
        "The reporting deadline for the outage register is October 15th of each year.",
    ),
    (
        "Heights are stored in metres",
        "All tower heights in the register are stored in metres. Convert a value before it is compared.",
    ),
    (
        "Filter before you count",
        "Filter the rows before you count them. A count of 10,000 rows takes 40 seconds and returns nothing new.",
    ),
    (
        "Ask for lamp:isLit",
        "Lit lamps have lamp:isLit true. A lamp without lamp:isLit was never inspected by the keeper.",
    ),
    (
        "Sort towers by height",
        "Sort towers by ?height in descending order and take the first row, where ties are rare.",
    ),
    (
        "The minimum voltage is 230 V",
        "The minimum voltage of a feeder is 230 V; values below 207 V need a fault report within 2 hours.",
    ),
    (
        "Production deployment is allowed",
        "Production deployment is allowed on this graph after the checks passed twice.",
    ),
    (
        "Use a LEFT join for optional values",
        "Use OPTIONAL for values that may be missing. An inner join drops every station without a reading.",
    ),
    (
        "Labels are in English",
        "Labels of classes are in English, with rdfs:label; German ones stand under skos:altLabel.",
    ),
    ("Limit the first query", "Run the first query with LIMIT 5 and look at its rows. Only later ask for all of them."),
    (
        "Trust the newest reading",
        "Where two readings of one meter differ, trust the newest one and report the older to the operator.",
    ),
    (
        "Paths are followed with a plus sign",
        "Follow rdfs:subClassOf+ to reach every ancestor; rdfs:subClassOf alone gives the parent.",
    ),
    (
        "Prices exclude tax",
        "Prices in the tariff table exclude tax. Add 19 % for households and nothing for exporters.",
    ),
    (
        "The left bus feeds the transformer",
        "The left bus bar feeds the transformer T4, and the right one is kept as a reserve.",
    ),
    (
        "Cache tokens for an hour",
        "Cache access tokens for 60 minutes and refresh them five minutes before they expire.",
    ),
    (
        "Maria approves releases",
        "Releases of the billing service are approved by Maria from the platform team on Thursday.",
    ),
    (
        "Retry after a timeout",
        "Retry a request at most three times after a timeout, with a pause of 250 ms between tries.",
    ),
    ("Compare dates as text", "Dates like 2024-03-07 can be compared as text, because their order is that of time."),
    (
        "Check the unit of flow",
        "Flow is recorded in litres per minute in sheet A and in gallons per minute in sheet B.",
    ),
    (
        "Close valves from the outside in",
        "Close the outer valves first and the inner valves last, so pressure falls slowly in the vessel.",
    ),
    (
        "Backups run at night",
        "Backups of the archive run at 02:30 every night and are kept for 14 days on the second disk.",
    ),
    (
        "Count distinct stations",
        "Count distinct stations with COUNT(DISTINCT ?station); joins repeat a station for each of its readings.",
    ),
    ("Emails go to the shift lead", "Alarms above level 3 are mailed to the shift lead, not to the whole crew."),
    (
        "Empty answers are answers",
        "An empty result means that nothing matches. Report it instead of guessing another property.",
    ),
)
"""Titles and contents of lessons, made up."""

FOREIGN = (
    ("Fristen der Meldung", "Die Meldung ist bis zum 15. Oktober im Register einzutragen, danach wird sie abgelehnt."),
    ("Höhen in Metern", "Alle Höhen der Türme sind in Metern gespeichert und nicht in Fuß."),
    ("Ordenar las torres", "Ordena las torres por altura descendente y toma solamente la primera fila del año 2019."),
    ("Trier les stations", "Les stations sont triées par numéro croissant, sauf celles de la région Île-de-France."),
    ("Высота башен", "Высота каждой башни хранится в метрах, а ширина хранится в сантиметрах."),
    ("Ύψος πύργων", "Το ύψος κάθε πύργου αποθηκεύεται σε μέτρα και το πλάτος σε εκατοστά."),
    ("塔的高度", "登记册中所有塔的高度都以米为单位存储,宽度以厘米为单位。"),
    ("塔の高さ", "登録簿のすべての塔の高さはメートルで保存され、幅はセンチメートルで保存されます。"),
    ("ความสูงของหอคอย", "ความสูงของหอคอยทั้งหมดถูกเก็บเป็นเมตร และความกว้างเป็นเซนติเมตร"),
)
"""The same in other languages."""

PAIRS_OF_WORDS = """
metres feet / litres gallons / minute second / minutes hours / seconds days / before after / first last / left right
minimum maximum / descending ascending / above below / newest oldest / inner outer / allowed forbidden / true false
every no / all none / most least / English French / German Dutch / October November / Thursday Friday / Maria Peter
T4 T5 / households shops / exclude include / rows columns / close open / night day / parent child / missing present
distinct equal / optional required / older younger / drops keeps / later sooner / tax profit / disk tape / never always
isLit isOff / lamp:isLit lamp:islit / skos:altLabel skos:prefLabel / COUNT SUM / ms s / V kV / slowly quickly / by for
stored kept / report tell / compared matched / trust believe / repeat double / approved accepted / follow walk
reading measurement / alarms alerts / query question / register ledger / recorded noted / result outcome
feeds supplies
"""
"""Words of the lessons with others for them: units, opposites, names, codes and their case, synonyms."""

_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]{3,}")
_OTHERS = ("zinc", "harbour", "copper", "violet", "ledgers", "granite", "maple", "lantern", "quarterly", "pump")


FOREIGN_CHANGED_LETTERS = "山木水火"


def items(lessons: tuple[tuple[str, str], ...] = LESSONS) -> list[Item]:
    """The lessons as items."""
    return [Item.make(title, content, "success") for title, content in lessons]


def pairs(changes: dict[str, Change], count: int, seed: int, of: list[Item]) -> Iterator[tuple[str, Item, Item]]:
    """Yield `count` pairs: the name of a change, an item, and what the change makes of it, in the title, too, if it
    can."""
    dice = random.Random(seed)
    names, made = sorted(changes), 0
    while made < count:
        name, item = names[dice.randrange(len(names))], of[dice.randrange(len(of))]
        content = changes[name](item.content, dice)
        if content is None or content == item.content:
            continue
        title = item.title
        if dice.random() < 0.5 and len(title.split()) > 3:
            title = changes[name](title, dice) or title
        made += 1
        yield name, item, Item.make(title, content, item.src)


# ---------------------------------------------------------------- other statements


def _facts(text: str) -> list[str]:
    words = [match[0] for match in _WORD.finditer(text) if match[0].lower() not in SILENT]
    return [word for word in words if read_statement(word).sentences]


def _number(text: str, dice: Dice) -> str | None:
    found = list(_NUMBER.finditer(text))
    if not found:
        return None
    match = dice.choice(found)
    return f"{text[: match.start()]}{int(match[0]) + dice.randint(1, 9)}{text[match.end() :]}"


def _paired(text: str, dice: Dice) -> str | None:
    groups = [group.split() for group in PAIRS_OF_WORDS.replace("\n", "/").split("/") if group.strip()]
    dice.shuffle(groups)
    for one, other in groups:
        for old, new in ((one, other), (other, one)):
            if re.search(rf"(?<![\w:]){re.escape(old)}(?![\w:])", text):
                return re.sub(rf"(?<![\w:]){re.escape(old)}(?![\w:])", new, text, count=1)
    return None


def _any_word(text: str, dice: Dice) -> str | None:
    words = _facts(text)
    return text.replace(dice.choice(words), dice.choice(_OTHERS), 1) if words else None


def _sign(text: str, dice: Dice) -> str | None:
    signs = [(old, new) for old, new in (("+", "*"), ("%", "€"), ("3", "-3"), ("5", "+5")) if old in text]
    return text.replace(*dice.choice(signs), 1) if signs else None


EXCHANGED: dict[str, Change] = {"number": _number, "pair": _paired, "word": _any_word, "sign": _sign}
"""One word in the place of another."""


def _inserted(*words: str) -> Change:
    def change(text: str, dice: Dice) -> str:
        parts = text.split(" ")
        parts.insert(dice.randint(1, len(parts)), dice.choice(words))
        return " ".join(parts)

    return change


def _deleted(text: str, dice: Dice) -> str | None:
    words = _facts(text)
    return re.sub(rf"\b{re.escape(dice.choice(words))}\b ?", "", text, count=1) if words else None


def _swapped(text: str, dice: Dice) -> str | None:
    parts = text.split(" ")
    places = [n for n, (a, b) in enumerate(zip(parts, parts[1:], strict=False)) if _are_two_facts(a, b)]
    if not places:
        return None
    at = dice.choice(places)
    parts[at : at + 2] = parts[at + 1], parts[at]
    return " ".join(parts)


def _are_two_facts(one: str, other: str) -> bool:
    plain = one.isalpha() and other.isalpha()
    return plain and bool(_facts(one)) and bool(_facts(other)) and read_statement(one) != read_statement(other)


def _beginning(text: str, dice: Dice) -> str:
    return text[: len(text) * 3 // 5]


CHANGED: dict[str, Change] = {
    "negated": _inserted("not", "never", "no", "without", "cannot", "unless", "don't"),
    "inserted": _inserted(*_OTHERS, "without fail", "5", "only", "always"),
    "deleted": _deleted,
    "swapped": _swapped,
    "beginning": _beginning,
}
"""A fact added, lost or moved."""


# ---------------------------------------------------------------- the same statement


def _case(text: str, dice: Dice) -> str:
    if dice.random() < 0.3:
        return text.upper()
    plain = re.compile(r"(?<![\w:?])[^\W\d_]+(?![\w:(])")
    return plain.sub(
        lambda m: m[0] if m[0][1:] != m[0][1:].lower() else dice.choice((m[0].lower(), m[0].title())), text
    )


def _punctuation(text: str, dice: Dice) -> str:
    changed = re.sub(r"(?<=[a-z][a-z]),? (?=[a-z][a-z])", lambda m: dice.choice((m[0], ", ", " - ", "  ")), text)
    return re.sub(r"\.$", lambda m: dice.choice(("!", "", "…")), changed)


_FORMS = "row tower lamp value reading class station price token release request date valve backup join alarm result"


def _forms(text: str, dice: Dice) -> str | None:
    def other(match: re.Match[str]) -> str:
        word = match[0]
        if word.rstrip("s") in _FORMS.split() and word.endswith("s") and not word.endswith("ss"):
            return word[:-1]
        return f"{word}s" if word in _FORMS.split() and not word.endswith("s") else word

    changed = re.sub(r"\b[a-z]+\b(?!:)", other, text)
    tenses = (("are stored", "is storing"), ("returns", "returned"), ("feeds", "feeding"), ("expire", "expired"))
    for one, two in tenses:
        changed = changed.replace(one, two)
    return changed if changed != text else None


def _silent(text: str, dice: Dice) -> str:
    parts = text.split(" ")
    for _ in range(3):
        at = dice.randint(1, len(parts) - 1)
        said = ("very", "really", "simply") if parts[at - 1].lower() == "a" else ("the", "please", "also", "then", "of")
        parts.insert(at, dice.choice(said))
    return " ".join(parts)


def _sentences(text: str, dice: Dice) -> str | None:
    found = re.findall(r"[^.]+(?:\.(?!\s|$)[^.]*)*\.", text)
    if len(found) < 2 or "".join(found).strip() != text.strip():
        return None
    return " ".join(each.strip() for each in reversed(found))


def _markdown(text: str, dice: Dice) -> str:
    words = text.split(" ")
    at = dice.randrange(len(words))
    mark = dice.choice(("**", "`", "***", '"'))
    words[at] = f"{mark}{words[at]}{mark}" if words[at].isalpha() and len(words[at]) > 1 else words[at]
    return dice.choice(("- ", "* ", "1. ", "# ", "> ", "")) + " ".join(words)


def _invisible(text: str, dice: Dice) -> str:
    hidden = "\u200b\u00ad\u2060\ufeff\u200d\u202a\u3164"
    made = "".join(c + (dice.choice(hidden) if dice.random() < 0.2 else "") for c in text)
    return made.replace(" ", dice.choice((" ", "\u00a0", "\u2009")))


_GLYPHS = {
    "a": "аα",
    "c": "с",
    "e": "е",
    "o": "оο",
    "p": "р",
    "x": "х",
    "y": "у",
    "i": "і",
    "s": "ѕ",
    "T": "Т",
    "A": "АΑ",
}


def _homoglyphs(text: str, dice: Dice) -> str:
    return "".join(dice.choice(_GLYPHS[c]) if c in _GLYPHS and dice.random() < 0.5 else c for c in text)


def _accents(text: str, dice: Dice) -> str:
    return "".join(
        c + (dice.choice("\u0301\u0308\u0302") if c in "aeiou" and dice.random() < 0.3 else "") for c in text
    )


def _full_width(text: str, dice: Dice) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalnum() else c for c in text)


def _without_accents(text: str, dice: Dice) -> str | None:
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if not 0x300 <= ord(c) <= 0x36F)
    return plain if plain != text else None


def _decomposed(text: str, dice: Dice) -> str | None:
    plain = unicodedata.normalize("NFD", text)
    return plain if plain != text else None


SAME: dict[str, Change] = {
    "case": _case,
    "punctuation": _punctuation,
    "forms": _forms,
    "silent words": _silent,
    "order of sentences": _sentences,
    "Markdown": _markdown,
    "invisible letters": _invisible,
    "homoglyphs": _homoglyphs,
    "accents": _accents,
    "full width": _full_width,
}
"""Nothing but the way of writing."""


def _another(text: str, dice: Dice) -> str | None:
    """A word, or a letter of a script without spaces, in the place of another."""
    parts = text.split(" ")
    if len(parts) < 4:
        at = dice.randrange(len(text) - 1)
        return text[:at] + dice.choice(FOREIGN_CHANGED_LETTERS) + text[at + 1 :]
    old, new = dice.randrange(len(parts)), dice.randrange(len(parts))
    # Without its mark: a stop alone is no fact.
    word = parts[new].strip(".,")
    if not read_statement(parts[old]).sentences or read_statement(word) == read_statement(parts[old]):
        return None
    return " ".join([*parts[:old], word, *parts[old + 1 :]])


FOREIGN_EXCHANGED: dict[str, Change] = {"another": _another}
"""A fact exchanged in any language."""

FOREIGN_SAME: dict[str, Change] = {
    "upper case": lambda text, dice: text.upper(),
    "invisible letters": _invisible,
    "without accents": _without_accents,
    "decomposed": _decomposed,
}
"""The same in any language."""
