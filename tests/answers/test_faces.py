"""Every question on every face, Python, the command line and the served page: the same answer, or the same sentence."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawn
from hypothesis import strategies as st

from rbank_es import Bank
from rbank_es.agents.mcp_tools import BankTools
from rbank_es.answers import QUESTIONS, Bounds, Face, ListQuestion, Moment, bounds_of, question_kind
from rbank_es.answers.shared.answer_schema import answer_fields
from rbank_es.answers.shared.glossary_units import TEXT
from rbank_es.errors import BadInput, NotInBank
from rbank_es.events import Event, RunStarted
from rbank_es.limits import answer_limits, mcp_limits, page_limits
from rbank_es.system.text_cuts import cut_words
from tests.answers.asked import as_text, fillings, parameters, required, served
from tests.answers.test_vocabulary import names_in
from tests.attacks.hostile_text import TEXTS, hostile_bank
from tests.attacks.test_absurd_banks import NUL, written_elsewhere
from tests.cli_runner import ROOT, SAMPLE, run
from tests.effort import examples, one_in
from tests.strategies import histories

CUTS = (page_limits.LIST_TEXT_CHARS, page_limits.TEXT_CHARS, mcp_limits.MCP_TEXT_CHARS)
LISTS = [name for name in QUESTIONS.names() if issubclass(question_kind(name).question, ListQuestion)]
IDS = {"run": "run", "item": "item", "id": "item"}
"""Parameters that are ids, with the kind of what they name."""
NAMED = [(name, each) for name in QUESTIONS.names() for each in required(name) if each in IDS]


@pytest.fixture(scope="module")
def sample() -> Iterator[Bank]:
    with Bank.open(SAMPLE) as opened:
        yield opened


def on_every_face(bank: Bank, name: str, given: dict[str, Any], point: str = "") -> Any:
    """Return the JSON of an answer, or the sentence that refuses it, after comparing what all faces give."""
    argument = str(bank.place)
    place, at = (f"{argument}@{point}", {"at": point}) if point else (argument, {})
    answer = None
    try:
        # Commands name the bank as the command line did.
        answer = Moment(bank, bank.resolve(point or None), Bounds(command=argument)).ask(name, **given)
        found = json.loads(answer.json())
    except BadInput as error:
        found = str(error)
    words = [f"{each}={as_text(value)}" for each, value in given.items()]
    assert printed(bank, "ask", place, name, *words, "--json") == found
    for root in ("api/v1/", "page/"):
        status, page = served(bank, name, given | at, root=root, argument=argument)
        wanted = {"error": found} if answer is None else found
        assert (status == 200) == (answer is not None), page
        assert not (list(departures(wanted, page)) if root == "page/" else page != wanted), (wanted, page)
    return found


def printed(bank: Bank, *words: str) -> Any:
    """The JSON that a command prints, or the sentence that it ends with."""
    done = run(*words, cwd=Path(bank.place).parent, code=None)
    return done.json if done.code in (0, 1) else done.err.removeprefix("rbank-es: ").strip()


def departures(whole: Any, shown: Any, path: str = "", cuts: Sequence[int] = CUTS) -> Iterator[tuple[str, Any, Any]]:
    """What a page shows otherwise than others, but for texts that it cuts and the digits of fractions of events."""
    if isinstance(whole, dict) and isinstance(shown, dict) and whole.keys() == shown.keys():
        is_cut = shown.get("next_offset") is not None and whole["next_offset"] is None
        for name in whole.keys() - ({"next_offset"} if is_cut else set()):
            yield from departures(whole[name], shown[name], f"{path}.{name}", cuts)
    elif isinstance(whole, list) and isinstance(shown, list) and len(whole) == len(shown):
        for place, each in enumerate(whole):
            yield from departures(each, shown[place], f"{path}.{place}", cuts)
    elif isinstance(whole, float) and whole != shown and ".facts." in path:
        yield from [(path, whole, shown)] if shown != float(f"{whole:.{page_limits.FRACTION_DIGITS}g}") else []
    elif isinstance(whole, str) and whole != shown:
        # A block of a text goes on at its `next_offset`, without a mark.
        cut = {cut for most in cuts for cut in (whole[:most], cut_words(whole, most))}
        yield from [(path, whole, shown)] if shown not in cut else []
    elif whole != shown:
        yield path, whole, shown


@pytest.mark.slow
@pytest.mark.parametrize("point", ["", "200"])
@pytest.mark.parametrize("name", QUESTIONS.names())
def test_every_question_has_the_same_answer_on_every_face(sample: Bank, name: str, point: str) -> None:
    for given in parameters(name, fillings(sample.at(point or None))):
        assert on_every_face(sample, name, given, point)["position"] == (200 if point else sample.position)


@pytest.mark.parametrize("name", [each for each in QUESTIONS.names() if question_kind(each).rows is not None])
def test_csv_has_the_rows_of_the_answer(sample: Bank, name: str) -> None:
    [given] = parameters(name, fillings(sample))[:1]
    words = [f"{each}={as_text(value)}" for each, value in given.items()]
    told = run("ask", SAMPLE, name, *words, "--csv", cwd=SAMPLE.parent).out
    header, *rows = csv.reader(io.StringIO(told, newline=""))
    found = json.loads(sample.ask(name, **given).json())[question_kind(name).rows_name]
    assert header == list(question_kind(name).row_fields) and [cell_of(row[0]) for row in rows] == [
        cell_of(row[header[0]]) for row in found
    ]


def cell_of(value: Any) -> str:
    return "" if value is None else str(value)


BOUNDS: dict[str, dict[str, Any]] = {
    "so many": {"limit": 2},
    "of texts": {"chars": 20},
    "of no text": {"chars": 0},
    "some fields": {"where": "verdict=failure", "sort": "-started_seq"},
    "behind the end": {"after": "1000000"},
    "a page that is too long": {"limit": 10**6},
}


BOUNDED_QUESTIONS = [
    (case, name)
    for name in QUESTIONS.names()
    for case, given in BOUNDS.items()
    if given.keys() <= set(question_kind(name).question.__struct_fields__)
]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "name"), [("so many", "about"), *BOUNDED_QUESTIONS])
def test_bounds_are_the_same_on_every_face(sample: Bank, name: str, case: str) -> None:
    """Those that a question doesn't take, too: each face says so."""
    [given] = parameters(name, fillings(sample))[:1]
    found = on_every_face(sample, name, {**given, **BOUNDS[case]})
    assert found
    if case == "of texts":
        most = BOUNDS[case]["chars"]
        whole = Moment(sample, sample.position, Bounds(command=str(sample.place))).ask(name, **given)
        assert not list(departures(json.loads(whole.json()), found, cuts=(most,)))
        units = [(each.name, each.entry.unit) for each in answer_fields(name) if each.entry is not None]
        texts = {name for name, unit in units if unit == TEXT} - {name for name, unit in units if unit != TEXT}
        assert all(len(value) <= most for name, value in names_in(found) if name in texts and isinstance(value, str))


def test_methods_take_every_parameter_of_their_question() -> None:
    for name in QUESTIONS.names():
        if (method := getattr(Moment, name, None)) is not None:
            taken = signature(method).parameters
            missing = set(question_kind(name).question.__struct_fields__) - taken.keys()
            assert not missing or any(each.kind is Parameter.VAR_KEYWORD for each in taken.values()), (name, missing)


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
def test_the_page_behind_the_last_row_is_empty_on_every_face(sample: Bank, name: str) -> None:
    kind = question_kind(name)
    last = sample.ask(name, limit=ALL).rows[-1]
    found = on_every_face(sample, name, {"after": getattr(last, kind.row_fields[0])})
    assert found["next"] is None and found[kind.rows_name] == []


ALL = answer_limits.ANSWER_ROWS_MOST
COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "runs": (["runs", "PLACE"], {"limit": ALL}),
    "items": (["items", "PLACE"], {"limit": ALL}),
    "run": (["show", "PLACE", "RUN"], {"run": "RUN", "limit": ALL}),
    "item": (["show", "PLACE", "ITEM"], {"item": "ITEM", "limit": ALL}),
    "event": (["show", "PLACE", "event:5"], {"event": "5"}),
    "prompts": (["show", "PLACE", "RUN", "--prompts"], {"run": "RUN"}),
    "review": (["review", "PLACE"], {"limit": ALL}),
    "doubts": (["review", "PLACE", "--verdicts", "3"], {"limit": 3}),
    "health": (["health", "PLACE", "--points", "3"], {"points": 3}),
    "search": (["search", "PLACE", "the tallest"], {"query": "the tallest"}),
    "policies": (["policy", "PLACE"], {}),
    "check": (["verify", "PLACE"], {}),
    "drift": (["drift", "PLACE", "--ont", "lights"], {"ont": ["lights"]}),
    "curve": (["retrieval", "curve", "PLACE"], {}),
    "lineage": (["impact", "PLACE", "ITEM"], {"kind": "item", "id": "ITEM"}),
    "whatif": (["whatif", "PLACE", "--without", "ITEM"], {"without": ["ITEM"]}),
    "bisect": (["bisect", "PLACE"], {}),
    "difference": (["diff", "PLACE@100", "PLACE"], {"since": 100}),
}
"""Commands of their own, with what they ask: lists whole, as people and files want them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_its_own_prints_the_same_answer(sample: Bank, name: str) -> None:
    words, given = COMMANDS[name]
    filled = {"PLACE": str(SAMPLE), "RUN": sample.runs().rows[0].run, "ITEM": sample.items().rows[0].id}
    given = json.loads(replaced(json.dumps(given), filled))
    moment = Moment(sample, sample.position, Bounds(command=str(SAMPLE)))
    assert printed(sample, *(replaced(each, filled) for each in words), "--json") == json.loads(
        moment.ask(name, **given).json()
    )


def replaced(text: str, by: dict[str, str]) -> str:
    for name, value in by.items():
        text = text.replace(name, value)
    return text


def test_the_tools_for_agents_have_the_fields_of_the_answers(sample: Bank) -> None:
    moment, tools = sample.at(), BankTools(sample, writes=False)

    def call(name: str, **given: Any) -> Any:
        return json.loads(msgspec.json.encode(tools.call(name, given)))

    query, run, item = "Which light is the tallest?", moment.runs().rows[0].run, moment.items().rows[0].id
    whole = json.loads(moment.search(query, 5).json())["hits"]
    hits = call("search", query=query, k=5)["hits"]
    assert hits == [{name: each[name] for name in hits[0]} for each in whole] != []
    [got] = call("get", ids=[item])["items"]
    assert got.items() <= json.loads(moment.item(item).json())["item"].items()
    for kind, id in (("run", run), ("item", item)):
        told, answer = call("why", id=id), json.loads(moment.ask(kind, **{kind: id}).json())
        assert told.keys() <= answer.keys() and not list(departures({each: answer[each] for each in told}, told))
    with pytest.raises(NotInBank, match="no item 'nobody' at position 609"):
        call("get", ids=["nobody"])


def test_what_faces_allow_is_what_the_document_says() -> None:
    """Each bound that differs, as its table has it."""
    document = (ROOT / "docs" / "questions.md").read_text()
    for face in get_args(Face):
        bounds = bounds_of(face)
        [row] = [line for line in document.splitlines() if line.startswith(f"| {face} |")]
        cells = [each.strip() for each in row.strip("|").split("|")][1:]
        assert cells == [shown_bound(getattr(bounds, name)) for name in BOUNDED], face
    assert {*BOUNDED, "command", "head", "digits"} == set(Bounds.__struct_fields__)


BOUNDED = ("rows_most", "chars", "text_chars", "events_bytes", "statement_s", "answer_s", "files", "prompts")


def shown_bound(value: float | bool | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:,}".removesuffix(".0")


def of_lists(field: str) -> dict[str, tuple[dict[str, Any], str]]:
    return {
        "unknown field to filter by": ({"where": "nosuch=1"}, "can't filter by 'nosuch'"),
        "unknown field to sort by": ({"sort": "-nosuch"}, "can't sort by 'nosuch'"),
        "no condition": ({"where": field}, f"{field!r} is no condition: write FIELD=VALUE"),
        "behind no row": ({"after": "nobody"}, "'nobody' at position"),
        "no rows": ({"limit": 0}, "Expected `int` >= 1 - at `limit`"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("case", "name"), one_in(3, [(case, name) for name in LISTS for case in of_lists("")]))
def test_a_list_that_cant_be_is_refused_with_one_sentence(sample: Bank, name: str, case: str) -> None:
    given, sentence = of_lists(question_kind(name).row_fields[0])[case]
    [needed] = parameters(name, fillings(sample))[:1]
    assert sentence in on_every_face(sample, name, {**needed, **given})


@pytest.mark.parametrize(("name", "parameter"), NAMED)
def test_an_id_that_names_nothing_is_refused_with_one_sentence(sample: Bank, name: str, parameter: str) -> None:
    """One of another kind, the beginning of several, none, and any before the first event."""
    filled = fillings(sample)
    [given] = parameters(name, filled)[:1]
    kind = IDS[parameter]
    other = filled["run" if kind == "item" else "item"][0]
    if parameter != "id":
        assert f"no {kind} {other!r} at position" in on_every_face(sample, name, {**given, parameter: other})
    several = "lights-" if kind == "run" else several_items(sample)
    assert "begins several ids" in on_every_face(sample, name, {**given, parameter: several})
    assert "'nobody' at position" in on_every_face(sample, name, {**given, parameter: "nobody"})
    assert f"{given[parameter]!r} at position 0" in on_every_face(sample, name, given, "0")


def several_items(bank: Bank) -> str:
    firsts = [row.id[0] for row in bank.items(limit=1000).rows]
    return next(first for first in firsts if firsts.count(first) > 1 and first.isalpha())


@pytest.mark.parametrize("name", [each for each in QUESTIONS.names() if not required(each)])
def test_a_question_about_a_point_before_the_first_event_has_an_answer(sample: Bank, name: str) -> None:
    found = on_every_face(sample, name, {}, "2000-01-01")
    assert found["position"] == 0 and not found.get("rows")


NO_POINTS = [(name, point) for name in QUESTIONS.names() for point in ("nosuch", "99999", "HEAD~99999")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "point"), one_in(3, NO_POINTS))
def test_a_point_that_is_none_is_refused_with_one_sentence(sample: Bank, name: str, point: str) -> None:
    [given] = parameters(name, fillings(sample))[:1]
    assert f"point '{point}': " in on_every_face(sample, name, given, point)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Bank]]:
    """Banks that are unlike those that this project makes, by what is strange in them."""
    folder = tmp_path_factory.mktemp("strange")
    shutil.copytree(SAMPLE, folder / "erased", ignore=shutil.ignore_patterns("derived", "*lock"))
    with Bank.open(folder / "erased") as erased:
        erased.erase(run=erased.runs(limit=1).rows[0].run, by="ann", reason="asked to")
    hostile_bank(folder / "hostile", " ".join(TEXTS.values())).log.close()
    with Bank.create(folder / "foreign") as foreign:
        foreign.append(
            [RunStarted(run=f"{NUL}first", task="of the first"), RunStarted(run=f"sec{NUL}ond", task="of the second")]
        )
        bank_id = foreign.id
    written_elsewhere(folder / "foreign", bank_id)
    Bank.create(folder / "empty").log.close()
    banks = {place.name: Bank.open(place) for place in sorted(folder.iterdir())}
    yield banks
    for bank in banks.values():
        bank.log.close()


@pytest.mark.slow
@settings(max_examples=examples(2), suppress_health_check=list(HealthCheck))
@drawn(
    history=histories(min_size=4, max_size=12).filter(bool),
    names=st.lists(st.sampled_from(QUESTIONS.names()), min_size=4, max_size=4, unique=True),
)
def test_any_bank_is_answered_alike_on_every_face(
    history: list[Event], names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Bank.create(tmp_path_factory.mktemp("any") / "bank") as bank:
        bank.append(history)
        filled = fillings(bank)
        for name in names:
            for asked in parameters(name, filled)[:1]:
                on_every_face(bank, name, asked)


STRANGE = [(kind, name) for name in QUESTIONS.names() for kind in ("erased", "hostile", "foreign", "empty")]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), one_in(5, STRANGE))
def test_every_bank_is_answered_alike_on_every_face(strange: dict[str, Bank], kind: str, name: str) -> None:
    bank = strange[kind]
    for given in parameters(name, fillings(bank))[:2]:
        # No argument of a command line can have U+0000.
        if not any("\0" in str(value) for value in given.values()):
            assert on_every_face(bank, name, given)["position"] == bank.position
            for each in given.keys() & IDS.keys():
                assert "'nobody' at position" in on_every_face(bank, name, {**given, each: "nobody"})


def test_a_page_waits_for_no_answer_that_takes_long(sample: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_limits, "ANSWER_S", 0)
    asked: dict[str, dict[str, Any]] = {
        "whatif": {"without": '["lights-02"]'},
        "bisect": {"bad": '["lights-08"]', "good": '["lights-05"]'},
        "check": {"decisions": True},
    }
    for name, given in asked.items():
        status, refused = served(sample, name, given)
        assert status == 400 and "is over the limit of 0; ask for less, or ask rbank-es itself" in refused["error"], (
            name
        )
    assert served(sample, "runs", {})[0] == 200


def test_a_page_opens_no_file_and_no_other_bank(sample: Bank) -> None:
    for name, given in (("drift", {"ont": '["/etc"]'}), ("check", {"parent": str(SAMPLE)})):
        status, refused = served(sample, name, given)
        assert status == 400 and refused["error"].startswith("a page opens no file and no other bank"), name
