"""The context family: the size, the beginning, a part of a payload, and the places where it matches a pattern."""

from __future__ import annotations

from typing import Any

from rbank_es.limits import tool_limits
from rbank_es.tools.shared.tool_answers import largest, leading, size
from rbank_es.tools.shared.tool_family import Reply, SessionTools, ToolError, ToolFamily

_FRAME_CHARS = 240
"""Characters of a result that the keys, numbers and hints around a text take."""


class ContextTools(SessionTools):
    """Tools over the text behind a handle."""

    def ctx_stats(self, ref: str | dict[str, Any]) -> Reply:
        """Size of what stands behind a handle, without reading it.

        Args: ref: a handle that a tool returned, its key, or its alias such as 'results_0'.
        Returns: key, dtype, length (characters), lines, sha256.
        Example: ctx_stats(result)['length']
        """
        return Reply(self._session.store.stats(ref))

    def ctx_peek(self, ref: str | dict[str, Any], n: int = tool_limits.PEEK_CHARS) -> Reply:
        """The first characters behind a handle.

        Args: ref: a handle, key or alias; n: how many characters (at most what fits into 1,000).
        Returns: text, length (of the whole), has_more.
        Example: print(ctx_peek(result, 100)['text'])
        """
        return self._part(ref, 0, _count("n", n), tool_limits.TOOL_RETURN_CHARS)

    def ctx_slice(self, ref: str | dict[str, Any], start: int, end: int) -> Reply:
        """A part of the text behind a handle.

        Args: ref: a handle, key or alias; start, end: offsets in characters from 0, end not included.
        Returns: text (at most what fits into 4,000), start, end, length, has_more, next_start.
        Example: part = ctx_slice(result, 0, 2000); rest = ctx_slice(result, part['next_start'], part['length'])
        """
        return self._part(ref, _count("start", start), _count("end", end), tool_limits.SLICE_RETURN_CHARS)

    def ctx_find(
        self, ref: str | dict[str, Any], pattern: str, k: int = tool_limits.FIND_HITS_DEFAULT, start: int = 0
    ) -> Reply:
        """Where a pattern occurs in the text behind a handle.

        Args: ref: a handle, key or alias; pattern: a regular expression, case ignored; k: hits wanted (at most 100);
        start: offset to look from.
        Returns: hits (start, end, snippet) in order, returned, has_more, next_start (give it as start for more).
        Example: [hit['start'] for hit in ctx_find(result, 'P0[0-9]+')['hits']]
        """
        wanted = min(max(1, k), tool_limits.FIND_HITS)
        text = self._session.store.get(ref)
        # One hit more than wanted, to know whether there are more.
        found = _matches(pattern, text, wanted + 1, min(_count("start", start), len(text)))
        return _hits(text, found[:wanted], more=len(found) > wanted)

    def _part(self, ref: str | dict[str, Any], start: int, end: int, cap_chars: int) -> Reply:
        text = self._session.store.get(ref)
        asked = text[start:end]
        # Truncated by the size of the JSON: a quote or a line feed takes two characters there.
        shown = asked if self._session.naive else fitting(asked, cap_chars - _FRAME_CHARS)
        stop = start + len(shown)
        body: dict[str, Any] = {"text": shown, "start": min(start, len(text)), "end": min(stop, len(text))}
        body["length"] = len(text)
        body["has_more"] = stop < len(text)
        if body["has_more"]:
            body["next_start"] = stop
        return Reply(body, truncated=len(shown) < len(asked))


FAMILY = ToolFamily(
    ContextTools, caps_chars={"ctx_slice": tool_limits.SLICE_RETURN_CHARS}, rare=frozenset({"ctx_stats"})
)


def fitting(text: str, room: int) -> str:
    """Return the longest beginning of a text whose JSON takes at most `room` characters."""
    return text[: largest(min(len(text), room), lambda chars: size(text[:chars]) <= room)]


def _count(name: str, value: int) -> int:
    if value < 0:
        raise ToolError("bad_range", f"{name} is {value}", "offsets count from 0; ctx_stats(ref) tells the length")
    return value


def _matches(pattern: str, text: str, most: int, start: int) -> list[tuple[int, int]]:
    # Not `re`, because only `regex` has a timeout, and an agent's pattern may backtrack for ever.
    import regex

    found: list[tuple[int, int]] = []
    try:
        for match in regex.finditer(pattern, text, regex.IGNORECASE, start, timeout=tool_limits.FIND_TIME_S):
            found.append(match.span())
            if len(found) == most:
                break
    except regex.error as error:
        raise ToolError("bad_pattern", f"not a regular expression: {error}", "escape ( ) [ ] . * + ? with \\") from None
    except TimeoutError:
        raise ToolError(
            "timeout",
            f"the pattern was still looking after {tool_limits.FIND_TIME_S:g} s",
            "use a plainer pattern: no repeats inside repeats",
        ) from None
    return found


def _hits(text: str, found: list[tuple[int, int]], *, more: bool) -> Reply:
    rows = ({"start": start, "end": end, "snippet": _snippet(text, start)} for start, end in found)
    hits: list[dict[str, Any]] = leading(rows, tool_limits.TOOL_RETURN_CHARS - _FRAME_CHARS, lambda hit: size(hit) + 1)
    more = more or len(hits) < len(found)
    body: dict[str, Any] = {"hits": hits, "returned": len(hits), "has_more": more, "length": len(text)}
    if more and hits:
        last = hits[-1]
        # At least one further: an empty match would be found again and again.
        body["next_start"] = max(last["end"], last["start"] + 1)
    return Reply(body, truncated=more)


def _snippet(text: str, start: int) -> str:
    around = tool_limits.SNIPPET_CHARS
    return " ".join(text[max(0, start - around) : start + around].split())
