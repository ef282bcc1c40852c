"""Every question on every face, Python, the command line and the served page: the same answer, or the same sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.answers import QUESTIONS, Bounds, ListQuestion, Moment, question_kind
from rbank_es.errors import BadInput
from rbank_es.events import RunStarted
from rbank_es.limits import page_limits
from tests.answers.asked import fillings, parameters, required, served
from tests.attacks.hostile_text import TEXTS, hostile_bank
from tests.attacks.test_absurd_banks import NUL, written_elsewhere
from tests.cli_runner import SAMPLE, run
from tests.effort import one_in

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
    try:
        # Commands name the bank as the command line did.
        moment = Moment(bank, bank.resolve(point or None), Bounds(command=str(bank.place)))
        found = json.loads(moment.ask(name, **given).json())
    except BadInput as error:
        found = str(error)
    words = [f"{each}={value}" for each, value in given.items()]
    place = f"{bank.place}@{point}" if point else str(bank.place)
    told = run("ask", place, name, *words, "--json", cwd=Path(bank.place).parent, code=None)
    assert (told.err.removeprefix("rbank-es: ").strip() if told.code else told.json) == found
    status, page = served(bank, name, given | ({"at": point} if point else {}))
    assert (page.get("error") if status != 200 else type(page)) == (found if isinstance(found, str) else dict)
    return found


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
    found = on_every_face(sample, name, {}, "0")
    assert found["position"] == 0 and not found.get("rows")


NO_POINTS = [(name, point) for name in QUESTIONS.names() for point in ("nosuch", "99999")]


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


STRANGE = [(kind, name) for name in QUESTIONS.names() for kind in ("erased", "hostile", "foreign", "empty")]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), one_in(5, STRANGE))
def test_every_bank_is_answered_alike_on_every_face(strange: dict[str, Bank], kind: str, name: str) -> None:
    bank = strange[kind]
    for given in parameters(name, fillings(bank))[:2]:
        # No argument of a command line can have U+0000.
        if not any("\0" in str(value) for value in given.values()):
            assert on_every_face(bank, name, given)["position"] == bank.position


def test_a_page_waits_for_no_answer_that_takes_long(sample: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_limits, "ANSWER_S", 0)
    asked = {
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
