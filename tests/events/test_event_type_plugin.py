"""An event type of another package: validated, stored, decoded, shown; and refused where the package is missing."""

from pathlib import Path

import msgspec
import pytest

from rbank_es import Bank
from rbank_es.errors import BadEvent, BadInput, UnknownEvent
from rbank_es.events import Event, NoteLogged
from rbank_es.events.codec import CLASSES, TYPES, register
from tests.plugins import install, run_with

PLUGIN = '''
"""Measured tides."""
from typing import Annotated

from msgspec import Meta

from rbank_es.events import Event, Text
from rbank_es.events.codec import register
from rbank_es.events.event_envelope import Salt
from rbank_es.events.items import Name


class TideMeasured(Event, frozen=True, kw_only=True, tag="tide_measured"):
    """A tide was measured."""

    harbour: Name
    metres: Annotated[float, Meta(ge=0)]
    salt: Salt = ""
    remark: Text = ""


def add():
    register(TideMeasured)
'''
PROGRAM = """
good = '{"type":"tide_measured","harbour":"Ostend","metres":2.5,"remark":"' + "calm " * 600 + '"}'
open("good.json", "w").write(good)
open("bad.json", "w").write('{"type":"tide_measured","harbour":"Ostend","metres":-1}')
codes = [command("init", "./bank")[0], command("append", "./bank", "good.json")[0]]
refused = command("append", "./bank", "bad.json")
with Bank.open("./bank") as bank:
    from tide_events import TideMeasured
    bank.append(TideMeasured(harbour="Dover", metres=6.1))
    stored = [event.remark for event in bank.log.read(types={"tide_measured"})]
    whole = [len(event.remark) for event in bank.log.read(types={"tide_measured"}, resolve={"tide_measured"})]
    from rbank_es.events.event_sentences import summary
    said = [summary(event) for event in bank.events(types={"tide_measured"})]
    others = [type(event).__name__ for event in bank.log.read(types={"bank_created"})]
result = {"codes": codes, "refused": refused, "handle": type(stored[0]).__name__, "whole": whole, "others": others,
          "said": said, "log": command("log", "./bank", "--type", "tide_measured")[1],
          "show": command("show", "./bank", "4"),
          "schema": command("schema", "tide_measured")[1], "verify": command("verify", "./bank")[0]}
"""


def test_an_event_type_of_another_package_is_stored_decoded_and_shown(tmp_path: Path) -> None:
    """Its long texts are stored apart; `log` has a sentence; readers of other types pass it by."""
    install(tmp_path, "tide_events", PLUGIN)
    result = run_with(tmp_path, PROGRAM, tmp_path)
    assert result["codes"] == [0, 0] and result["verify"] == 0
    assert result["refused"][0] == 2 and "`float` >= 0" in result["refused"][1]
    assert (result["handle"], result["whole"], result["others"]) == ("Ref", [3000, 0], ["BankCreated"])
    assert result["said"][0].startswith("harbour Ostend, metres 2.5: calm calm")
    assert result["said"][1] == "harbour Dover, metres 6.1" and '"harbour":"Dover"' in result["log"]
    assert result["show"][0] == 0 and "Dover" in result["show"][1]
    assert '"metres"' in result["schema"]
    with Bank.open(tmp_path / "bank") as bank, pytest.raises(UnknownEvent, match="'tide_measured' .version 1."):
        list(bank.log.read(types={"bank_created"}))


def test_an_event_of_a_class_that_was_not_registered_is_refused(tmp_path: Path) -> None:
    """Or the log would hold what nobody can read."""

    class TideTurned(Event, frozen=True, kw_only=True, tag="tide_turned"):
        hour: int = 0

    class OtherNote(Event, frozen=True, kw_only=True, tag="note_logged"):
        pass

    with Bank.create(tmp_path / "bank") as bank:
        for event in (TideTurned(hour=3), OtherNote()):
            with pytest.raises(BadEvent, match="no registered event type"):
                bank.append(event)
        bank.append(NoteLogged())


@pytest.mark.parametrize("tag", ["note_logged", "text_note", "segment_note", "Note", "note-logged", "_note"])
def test_a_name_that_is_taken_or_belongs_to_the_log_is_refused(tag: str) -> None:
    cls = msgspec.defstruct("Other", [("x", int, 0)], bases=(Event,), tag=tag, frozen=True, kw_only=True)
    with pytest.raises(BadInput, match="event type"):
        register(cls)
    assert tuple(TYPES.values()) == CLASSES
