"""What a word is, for searching and for telling duplicates: a run of letters and digits, composed and in lower case."""

from __future__ import annotations

import re
import unicodedata

from rbank_es.errors import BadPolicy

# Letters and digits of any script; an underscore parts words, as it does in the index.
_WORD = re.compile(r"[^\W_]+")

_ENGLISH_1 = """
a about above after again against also although am among an and another any anybody anyone anything are as at be
because been before being below between both but by can cannot could did do does doing done down during each either
else etc ever every everyone everything few for from further get gets getting give given gives got had has have having
he her here hers herself him himself his how however i if in into is it its itself just let like ll made make makes
many may me might more most much must my myself need needs neither nor of off often on once one onto or other others
ought our ours ourselves out over own per please put rather re really s shall she should show since so some somebody
someone something still such t than that the their theirs them themselves then there therefore these they thing things
this those though through thus to too toward towards under until up upon us use used uses using ve very via want wants
was way we well were what whatever when whenever where whether which while who whoever whole whom whose why will with
within would yes yet you your yours yourself yourselves
"""

STOP_WORDS: dict[str, frozenset[str]] = {"none": frozenset(), "english-1": frozenset(_ENGLISH_1.split())}
"""Lists of words that a search leaves out, by name and version. A list never changes: a better one gets a new name."""


def words_of(text: str) -> list[str]:
    """The words of a text in order, with repetitions. Any Unicode will do; text without letters or digits has none."""
    return [word.lower() for word in _WORD.findall(unicodedata.normalize("NFC", text))]


def stop_words(name: str) -> frozenset[str]:
    """The list of that name. Raises `BadPolicy` if there is none."""
    if name not in STOP_WORDS:
        raise BadPolicy(f"no list of stop words is called {name!r}; there are: {', '.join(sorted(STOP_WORDS))}")
    return STOP_WORDS[name]
