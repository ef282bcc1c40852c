"""Whether what was recalled for a run reached its agent's prompts: a search for the items in each request.

An item was sent if one string of a request's JSON holds one of its texts: as quoted to the agent, or in full. Line ends
count as equal, and escapes of JSON inside of a string are undone, because agents put JSON into prompts. A text that was
truncated or reworded is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rbank_es import limits

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class RecallDelivery:
    """The items recalled for a run, and those of them that its requests held. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, tuple[str, ...]], bool] = {}
        """The items that no request held yet, each with its texts, and whether a request was made since."""
        self._found = self._uncertain = False

    def recall(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Add recalled items, each with the texts of which one must stand in a later request."""
        for item, ways in texts.items():
            if worded := tuple(with_plain_line_ends(text) for text in ways if text.strip()):
                self._waiting.setdefault((item, worded), False)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to look for."""
        return not self._waiting

    def look(self, request: Any) -> None:
        """Look for the items in a request: plain data, as its JSON has it."""
        if self.complete:
            return
        held = held_texts(request, {text for _, ways in self._waiting for text in ways})
        left = {key: True for key in self._waiting if held.isdisjoint(key[1])}
        self._found |= len(left) < len(self._waiting)
        self._waiting = left

    def miss(self) -> None:
        """Note a request that could not be searched: what was not found may have been in it."""
        self._uncertain = True

    @property
    def sent(self) -> bool | None:
        """Whether every item recalled before a request stood in one; None without such an item, or if uncertain."""
        if any(self._waiting.values()):
            return None if self._uncertain else False
        return True if self._found else None

    @property
    def unsent(self) -> tuple[str, ...]:
        """Ids of the items that stood in no request made after they were recalled, each once; none if uncertain."""
        asked = (item for (item, _), asked in self._waiting.items() if asked)
        return () if self._uncertain else tuple(dict.fromkeys(asked))


def lesson_texts(text: str, contents: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the texts of the items that `text` quotes, a line for each behind its id: its quote, and its content.

    `contents` are those of the items by id, empty where only the quote counts.
    """
    lines, texts = text.split("\n"), dict[str, tuple[str, ...]]()
    for id, content in contents.items():
        start = f"- [{id}] "
        # An id that can't stand in brackets has its line somewhere in the whole.
        quote = next((line.removeprefix(start) for line in lines if line.startswith(start)), text)
        texts[id] = (quote, content)
    return texts


def held_texts(request: Any, texts: set[str]) -> set[str]:
    """Return those of the texts that a string of the request holds, as it is or with escapes of JSON undone."""
    held: set[str] = set()
    for string in _strings(request):
        for reading in _readings(string):
            held |= {text for text in texts - held if text in reading}
        if len(held) == len(texts):
            break
    return held


def with_plain_line_ends(text: str) -> str:
    """Return the text with each line end as a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _strings(value: Any) -> Iterator[str]:
    # A stack instead of recursion: the request is as deep as its sender made it.
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list | tuple):
            left += each


def _readings(string: str) -> Iterator[str]:
    """Yield the string, then with one level of escapes after another undone."""
    for _ in range(limits.ERASURE_LEVELS):
        yield with_plain_line_ends(string)
        undone = _ESCAPE.sub(_character, string) if "\\" in string else string
        if undone == string:
            return
        # Two escaped halves of a character are joined; a lone half stays.
        string = undone.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _character(found: re.Match[str]) -> str:
    code, mark = found.groups()
    return chr(int(code, 16)) if code else _SHORT.get(mark, mark)
