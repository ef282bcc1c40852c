"""The memory family: items found by their titles, read within bounds, and proposed.

No tool makes an item active. A proposal is an event; the judge and the policies decide about it after the run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from rbank_es import limits
from rbank_es.events import MemoriesRead, NoteLogged, Ref
from rbank_es.events.codec import encodable
from rbank_es.events.items import JUDGE_SOURCES, Item, Polarity, without_controls
from rbank_es.events.run_events import VerdictValue, verdict_value
from rbank_es.limits import tool_limits
from rbank_es.policies.words import query_words
from rbank_es.system.text_cuts import ELLIPSIS
from rbank_es.tools.memory.item_search import fit_hits, fit_items, items_view, quoted, search_items
from rbank_es.tools.memory.proposal import Proposer
from rbank_es.tools.shared.tool_answers import HANDLE, OK_CHARS, UNBOUNDED, encode, size, within
from rbank_es.tools.shared.tool_family import Reply, SessionTools, ToolError, ToolFamily

if TYPE_CHECKING:
    from rbank_es.tools.memory.query_extractor import ProposalEvidence

NEXT_HITS = "ask with more telling words, or with polarity, domain or role, to see others"
NEXT_ITEMS = "what is cut: mem_get one id at a time"
NEXT_REST = f"ctx_slice(ref={HANDLE}, start=0, end=4000) reads content whole, or go on from there"

UNFIT = "no memory fits: try other words or fewer filters, or go on without"
WEAK = "memories that have some of these words fit too little to help: name what you look for, or go on without"
UNKNOWN = "no memory has this id"
OWN = "it was learned from a run of this very task"
PROPOSED = "it was proposed in this run, and nothing is stored before the run is judged"
ENDS = {
    "pending": "it waits for somebody to admit it",
    "unsupported": "the verdicts that it was learned under no longer hold",
}
"""Why an item of a state is withheld; for other states the name of the state says it."""

READS_MEMORY = frozenset({"mem_search", "mem_get", "mem_quote"})
"""The tools that a run is not offered where memory reaches the agent by its context alone (mode `auto`)."""


class MemoryTools(SessionTools):
    """Tools over the items of the bank, and `event_log`."""

    def mem_search(
        self,
        q: str,
        k: int | None = None,
        polarity: str | None = None,
        domain: str | None = None,
        role: str | None = None,
    ) -> Reply:
        """Find memories of earlier runs by words; titles only, read the best with mem_quote or mem_get.

        Args: q: plain words of the task; k: hits wanted (at most 20; the bank's policy says, if left out); polarity:
        'success' (what to do) or 'failure' (what to avoid); domain: id of the
        ontology whose memories come first (default: yours); role: a role.
        Returns: hits, best first: id, title, desc, src, score (farther from 0 is better); more: hits left out.
        Example: for hit in mem_search('count proteins by organism', 3)['hits']: print(hit['id'], hit['title'])
        """
        wanted = None if k is None else within("k", k, tool_limits.FOUND_ITEMS)
        seen = search_items(self._session, q, wanted, polarity=polarity, domain=domain, role=role)
        hits = [
            {
                "id": hit.id,
                **_shown({"title": hit.title, "desc": hit.desc}),
                "src": hit.src,
                # Four digits order the hits; all sixteen would take the room of a description.
                "score": float(f"{hit.score:.4g}"),
            }
            for hit in seen.hits
        ]
        # Reserve the longest form of the other fields, so that adding them never exceeds the cap.
        room = self._room(tool_limits.TOOL_RETURN_CHARS, {"hits": [], "more": len(hits), "next": NEXT_HITS})
        body: dict[str, Any] = {"hits": fit_hits(hits, room)}
        more = len(hits) - len(body["hits"])
        if more:
            body |= {"more": more, "next": NEXT_HITS}
        if not hits:
            body["hint"] = WEAK if seen.events[0].withheld else UNFIT
        return Reply(body, truncated=body["hits"] != hits, beside=seen.events, position=seen.position)

    def mem_get(self, ids: str | dict[str, Any] | list[str | dict[str, Any]], max_n: int = limits.READ_ITEMS) -> Reply:
        """Read memories in full, a few at a time.

        Args: ids: one id or a list of ids, as mem_search gives them; max_n: how many at most (no more than 3).
        Returns: items: id, title, desc, content, src, polarity, tags, and domain, role, scope where set; not_given:
        id and reason of those that can't be had. Contents that don't fit are cut and marked truncated; of one item
        alone, the whole content is then behind the handle.
        Example: print(mem_get(hits[0]['id'])['items'][0]['content'])
        """
        wanted = self._wanted(ids, max_n)
        given, refused = self._looked_up(wanted)
        if not given:
            raise _unavailable(refused)
        body: dict[str, Any] = {"items": []}
        if refused:
            body["not_given"] = [{"id": clipped(id), "reason": reason} for id, reason in refused.items()]
        room = self._room(tool_limits.ITEMS_RETURN_CHARS, {**body, "next": NEXT_REST})
        shown = fit_items(given, room)
        rest = given[0]["content"] if shown != given and len(given) == 1 else None
        if rest is not None:
            # Fit again: the handle to the rest needs room, too.
            shown = fit_items(given, room - _handle_chars(rest))
        if shown != given:
            body["next"] = NEXT_ITEMS if rest is None else NEXT_REST
        body["items"] = shown
        event = self._read([item["id"] for item in given], "get", size(shown))
        return Reply(body, rest, "text", truncated=shown != given, beside=(event,))

    def mem_quote(self, id: str | dict[str, Any], max_chars: int = limits.QUOTE_CHARS, about: str = "") -> Reply:
        """Read the beginning of one memory, or its part about some words.

        Args: id: as mem_search gives it; max_chars: length wanted (at most what fits into 1,000); about: words to
        quote around, such as your question.
        Returns: id, quote, length (characters of the whole content), truncated.
        Example: print(mem_quote(hits[0]['id'], 300, 'tower height')['quote'])
        """
        if max_chars < 1:
            raise ToolError("bad_limit", f"max_chars is {max_chars}", "give a number of characters, such as 500")
        given, refused = self._looked_up([_id_of(id)])
        if not given:
            raise _unavailable(refused)
        content = given[0]["content"]
        body: dict[str, Any] = {"id": clipped(given[0]["id"]), "quote": "", "length": len(content), "truncated": False}
        # Plus 2, because the body already counts the quotation marks of the empty quote.
        body["quote"] = quoted(
            content, max_chars, self._room(tool_limits.TOOL_RETURN_CHARS, body) + 2, query_words(about)
        )
        body["truncated"] = body["quote"] != content
        event = self._read([given[0]["id"]], "quote", len(body["quote"]))
        return Reply(body, truncated=body["truncated"], beside=(event,))

    def mem_add(
        self, title: str, content: str, desc: str = "", polarity: str = "success", tags: list[str] | None = None
    ) -> Reply:
        """Propose a memory in your own words; it is judged after the run.

        Args: title: about 10 words (120 characters at most); content: steps, reasons, pitfalls (2,000); desc: one
        sentence (240); polarity: 'success' (what to do) or 'failure' (what to avoid); tags: up to 12 words.
        Returns: id, proposed, stored (always false here), why, title, desc, src, polarity.
        Example: mem_add('Count with DISTINCT', 'Joins repeat rows: write COUNT(DISTINCT ?x).', tags=['sparql'])
        """
        if polarity not in get_args(Polarity):
            raise ToolError(
                "bad_item", f"{polarity[: limits.GIVEN_WORD_CHARS]!r} is no polarity", "give 'success' or 'failure'"
            )
        item = Item.make(
            encodable(title.strip()),
            encodable(content.strip()),
            "failure" if polarity == "failure" else "success",
            desc=encodable(desc.strip()),
            tags=tuple(encodable(tag) for tag in tags or ()),
            domain=self._session.domain,
        )
        return Proposer(self._session).propose(item, "mem_add", "")

    def mem_extract(
        self, result: str | dict[str, Any], task: str, judgment: dict[str, Any], auto_store: bool = True
    ) -> Reply:
        """Propose the pattern of a query that answered the task as a memory.

        Args: result: the handle that sparql_query returned; task: the question; judgment: a dict with success (True,
        False or 'undecided') and reason; auto_store: False shows the candidate without proposing it.
        Returns: id, proposed, stored (always false here), why, title, desc, src, polarity; with auto_store=False also
        a handle to the content.
        Example: mem_extract(result, question, {'success': True, 'reason': 'the rows answer it'})
        """
        verdict, reason = _judged(judgment)
        if verdict == "undecided":
            hint = "find out whether the rows answer the task, then call mem_extract or mem_learn_from_failure"
            raise ToolError("undecided", "nothing is learned from a query that may be right or wrong", hint)
        if verdict == "failure":
            raise ToolError(
                "judged_a_failure",
                "a query that was judged a failure is no procedure",
                "call mem_learn_from_failure(result, task, error)",
            )
        making = Proposer(self._session)
        evidence = msgspec.structs.replace(making.evidence(result, encodable(task)), reason=reason)
        item = self._session.extractor.from_success(evidence)
        if item is None:
            raise _nothing(evidence, "call mem_learn_from_failure if that is not what you wanted")
        return making.propose(item, "mem_extract", self._why(evidence)) if auto_store else making.show(item)

    def mem_learn_from_failure(self, result: str | dict[str, Any], task: str, error: str | dict[str, Any]) -> Reply:
        """Propose a warning from a query that failed, found nothing, or answered wrongly.

        Args: result: the handle of its result, or the text of the query; task: the question; error: what went wrong,
        in words, or the error that a tool returned.
        Returns: id, proposed, stored (always false here), why, title, desc, src, polarity.
        Example: mem_learn_from_failure(query, question, answer['error'])
        """
        making = Proposer(self._session)
        code, reason = _went_wrong(error)
        # Neither a key nor an alias has a brace or a blank: this is the text of a query.
        if isinstance(result, str) and ("{" in result or " " in result.strip()):
            evidence = making.evidence_of_text(result, encodable(task))
        else:
            evidence = making.evidence(result, encodable(task))
        evidence = msgspec.structs.replace(evidence, reason=reason, error_code=code)
        item = self._session.extractor.from_failure(evidence)
        if item is None:
            raise _nothing(evidence, "give the handle of a query's result, or the text of the query; or use mem_add")
        return making.propose(item, "mem_learn_from_failure", self._why(evidence))

    def event_log(self, obj: dict[str, Any]) -> Reply:
        """Note something for whoever reads the log of this run; it prints nothing and comes back to nobody.

        Args: obj: any JSON object.
        Returns: ok.
        Example: event_log({'step': 'schema', 'found': 12})
        """
        return Reply({}, beside=(NoteLogged(run=self._session.run, by="agent", note=_json(obj)),))

    def _room(self, cap_chars: int, body: dict[str, Any]) -> int:
        return (UNBOUNDED if self._session.naive else cap_chars) - OK_CHARS - size(body)

    def _wanted(self, ids: str | dict[str, Any] | list[str | dict[str, Any]], max_n: int) -> list[str]:
        """Return the distinct ids that a call asks for. Raises `ToolError` for none or too many."""
        most = limits.READ_ITEMS
        if not 1 <= max_n <= most:
            raise ToolError("bad_limit", f"max_n is {max_n}", f"give a number from 1 to {most}; call again for others")
        wanted = list(dict.fromkeys(_id_of(each) for each in (ids if isinstance(ids, list) else [ids])))
        if not wanted:
            raise ToolError("bad_arguments", "no id was given", "give ids that mem_search returned")
        if len(wanted) > max_n:
            raise ToolError(
                "too_many",
                f"{len(wanted)} memories were asked for, and max_n is {max_n}",
                "read the best first; mem_quote reads the beginning of one",
            )
        return wanted

    def _looked_up(self, ids: list[str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Return the items that may be read, and by id the reason why each other item may not."""
        given, refused = [], {}
        without = self._session.policy.without_task
        with items_view(self._session) as (view, _):
            own = view.items_of_task(without) if without is not None else ()
            for id in ids:
                row = view.item(id)
                reason = OWN if id in own else self._refusal(id, row)
                if row is None or reason:
                    refused[id] = reason
                else:
                    given.append(_item_of(row))
        return given, refused

    def _refusal(self, id: str, row: dict[str, Any] | None) -> str:
        """Return why an item is withheld from agents; an empty text if it is not."""
        if row is None:
            return PROPOSED if id in {item for item, _ in self._session.proposed} else UNKNOWN
        if row["src"] in JUDGE_SOURCES:
            return "it serves the judge and is not given to agents"
        if row["erased"]:
            return "its words were erased"
        return "" if row["state"] == "active" else _end(row)

    def _read(self, ids: list[str], how: Literal["get", "quote"], chars: int) -> MemoriesRead:
        return MemoriesRead(run=self._session.run, ids=tuple(ids), how=how, chars=chars, call=self._session.call)

    def _why(self, evidence: ProposalEvidence) -> str:
        parts = {"by": self._session.extractor.label, "task": evidence.task, "because": evidence.reason}
        return "; ".join(f"{name} {text}" for name, text in parts.items() if text)


FAMILY = ToolFamily(
    MemoryTools,
    lambda session, tool: session.policy.mode != "auto" or tool not in READS_MEMORY,
    {"mem_get": tool_limits.ITEMS_RETURN_CHARS},
    rare=frozenset({"mem_add", "mem_extract", "mem_learn_from_failure", "event_log"}),
)


def _unavailable(refused: dict[str, str]) -> ToolError:
    unknown = all(reason == UNKNOWN for reason in refused.values())
    failure = "; ".join(f"{clipped(id)!r}: {reason}" for id, reason in refused.items())
    code = "unknown_memory" if unknown else "not_available"
    return ToolError(code, failure, "mem_search finds those that can be read")


def _id_of(given: Any) -> str:
    """Return the id that an id, a hit or a handle names."""
    if isinstance(given, Ref):
        return given.key
    id = given.get("id", given.get("key")) if isinstance(given, dict) else given
    if not isinstance(id, str) or not id.strip():
        raise ToolError("bad_arguments", "an id is missing", "give ids, or hits, that mem_search returned")
    return encodable(id.strip())


def _item_of(row: dict[str, Any]) -> dict[str, Any]:
    item = {name: row[name] for name in ("id", "title", "desc", "content", "src", "polarity")}
    item |= _shown({name: row[name] for name in ("title", "desc")})
    item["tags"] = msgspec.json.decode(row["tags"])
    return item | {name: row[name] for name in ("domain", "role", "scope") if row[name]}


def _shown(words: dict[str, str]) -> dict[str, str]:
    """Return the words that name an item without control characters. Contents keep them."""
    return {name: without_controls(text) for name, text in words.items()}


def clipped(id: str) -> str:
    """Return an id, truncated if it is longer than `SHOWN_ID_CHARS`."""
    return id if size(id) <= tool_limits.SHOWN_ID_CHARS else id[: tool_limits.SHOWN_ID_CHARS // 2] + ELLIPSIS


def _handle_chars(content: str) -> int:
    """Return an upper bound of the characters that a handle to a text takes in an answer."""
    preview = content[: limits.REF_PREVIEW_CHARS]
    return size({"alias": "x" * 12, "key": "x" * 36, "dtype": "text", "size": len(content), "preview": preview})


def _end(row: dict[str, Any]) -> str:
    """Return why an item that agents might read is not active, with the item that took its place, if any."""
    heirs: list[str] = msgspec.json.decode(row["superseded_by"])
    if heirs:
        return f"it was {'merged into' if row['state'] == 'merged' else 'superseded by'} {clipped(heirs[-1])}"
    return ENDS.get(row["state"], f"it was {row['state']}")


def _judged(judgment: dict[str, Any]) -> tuple[VerdictValue, str]:
    """Return the verdict of a judgment, and its reason."""
    verdict, reason = verdict_value(judgment.get("verdict", judgment.get("success"))), judgment.get("reason", "")
    if verdict is None or not isinstance(reason, str):
        raise ToolError(
            "bad_arguments", "judgment says neither success nor failure", "give {'success': True, 'reason': 'why'}"
        )
    return verdict, encodable(reason)


def _went_wrong(error: str | dict[str, Any]) -> tuple[str, str]:
    """Return the code and the message of a failure, given in words or as the error that a tool returned."""
    if isinstance(error, str):
        return "", encodable(error)
    inner = error.get("error")
    failure = inner if isinstance(inner, dict) else error
    code, message = failure.get("code", ""), failure.get("message", "")
    return encodable(code) if isinstance(code, str) else "", encodable(message) if isinstance(message, str) else ""


def _nothing(evidence: ProposalEvidence, hint: str) -> ToolError:
    why = "it found nothing" if evidence.rows == 0 else "it names no class and no property"
    return ToolError("nothing_to_learn", f"nothing can be learned from this query: {why}", hint)


def _json(obj: dict[str, Any]) -> str:
    """Return the object as JSON; values that JSON can't hold are encoded as in tool results."""
    try:
        # Encoded to UTF-8 and back, because a lone surrogate must fail here and not in the log.
        return json.dumps(obj, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode().decode()
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(encode(obj, tool_limits.READ_ARGUMENT_CHARS)).decode()
