"""The vocabulary: what facts and texts may be, that every type can be written and read, and how versions follow."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import types
import typing
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rbank_es.events as vocabulary
from rbank_es.errors import UnknownEvent
from rbank_es.events import Candidate, Event, Text, type_of
from rbank_es.events.codec import (
    CLASSES,
    ENVELOPE,
    TYPES,
    UPCASTERS,
    Chains,
    Upcaster,
    chains,
    decode_event,
    decoder_of,
    encode_body,
    facts_of,
    schema_of,
    texts_of,
    version_of,
)
from rbank_es.events.event_envelope import Ref, Salt
from rbank_es.log import lines as line_format
from rbank_es.log.groups import as_read, prepare
from tests.effort import examples

each_type = pytest.mark.parametrize("cls", CLASSES, ids=type_of)
SALT = "A" * line_format.SALT_CHARS


def hints_of(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def parts_of(annotation: Any) -> tuple[Any, dict[str, Any]]:
    """An annotation without `Annotated`, and the constraints of all its `Meta`."""
    limits: dict[str, Any] = {}
    while get_origin(annotation) is Annotated:
        annotation, *metas = get_args(annotation)
        for meta in metas:
            names = ("min_length", "max_length", "ge", "le", "description")
            limits |= {name: getattr(meta, name) for name in names if getattr(meta, name) is not None}
    return annotation, limits


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def free_text_in(annotation: Any, path: str) -> list[str]:
    """Paths in a type of fact at which text of any length could stand."""
    bare, limits = parts_of(annotation)
    if bare is str:
        return [] if "max_length" in limits else [path]
    if bare in (int, float, bool, type(None), msgspec.UnsetType) or get_origin(bare) is Literal:
        return []
    if is_union(bare) or get_origin(bare) in (tuple, dict):
        inner = [part for part in get_args(bare) if part is not Ellipsis]
        return [found for part in inner for found in free_text_in(part, f"{path}[]")]
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        hints = hints_of(bare)
        return [found for name in bare.__struct_fields__ for found in free_text_in(hints[name], f"{path}.{name}")]
    return [f"{path}: {bare}"]


@each_type
def test_facts_hold_no_free_text(cls: type[Event]) -> None:
    """Facts outlive erasure, so they are numbers, names of limited length, times, and structures of these."""
    hints = hints_of(cls)
    assert [found for name in facts_of(cls) for found in free_text_in(hints[name], name)] == []


@each_type
def test_texts_are_text_and_stand_below_the_salt(cls: type[Event]) -> None:
    """What stands below the salt can be erased: each field is a text or a row of texts, or absent."""
    own = [name for name in cls.__struct_fields__ if name not in ENVELOPE]
    assert "salt" in own or not texts_of(cls)
    assert list(facts_of(cls)) + (["salt"] if "salt" in own else []) + list(texts_of(cls)) == own
    allowed = (Text, Text | None, tuple[Text, ...], Candidate, tuple[Candidate, ...])
    hints = hints_of(cls)
    for name in texts_of(cls):
        assert parts_of(hints[name])[0] in allowed, name
    if "salt" in own:
        assert parts_of(hints["salt"])[0] == parts_of(Salt)[0]


@each_type
def test_every_field_is_described(cls: type[Event]) -> None:
    """The JSON Schema describes each field, its unit included where it has one; so do the structures inside."""
    schema = schema_of(type_of(cls))
    assert schema["$ref"].endswith(cls.__name__)
    for definition in schema["$defs"].values():
        assert definition.get("description"), definition
        for name, field in definition.get("properties", {}).items():
            assert name in ("type", "is") or described(field, schema), (definition["title"], name)
    assert (cls.__doc__ or "").strip().endswith(".")


def described(field: dict[str, Any], schema: dict[str, Any]) -> bool:
    if "$ref" in field:
        return bool(schema["$defs"][field["$ref"].rpartition("/")[2]].get("description"))
    return bool(field.get("description")) or any(described(part, schema) for part in field.get("anyOf", ()))


@each_type
def test_defaults_say_nothing(cls: type[Event]) -> None:
    """A field that is left out reads as not known: a default never claims anything, except the usual kind of an act."""
    usual = (None, (), {}, "", False, "{}", "auto")
    acts = {("memories_retracted", "how"): "withdrawn", ("memories_restored", "how"): "vouched"}
    defaults = {name: default for name, default in defaults_of(cls).items() if name not in ENVELOPE}
    claims = {(type_of(cls), name): default for name, default in defaults.items() if default not in usual}
    assert claims.items() <= acts.items()


def defaults_of(cls: type[msgspec.Struct]) -> dict[str, Any]:
    found = {}
    for field in msgspec.structs.fields(cls):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
    return found


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a type of the vocabulary, by its annotation."""
    bare, limits = parts_of(annotation)
    if bare is str:
        longest = min(limits.get("max_length", 60), 60)
        # Names are limited in length, and refused with U+0000.
        refused = "\0" if "max_length" in limits else ""
        text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=refused), max_size=longest)
        shortest = limits.get("min_length", 0)
        return text.map(lambda value: value.ljust(shortest, "x")) if shortest < 60 else st.just("f" * shortest)
    if bare is int:
        return st.integers(limits.get("ge", -(2**53)), limits.get("le", 2**53 - 1))
    if bare is float:
        return st.floats(limits.get("ge"), limits.get("le"), allow_nan=False, allow_infinity=False)
    if bare is bool:
        return st.booleans()
    if bare is type(None):
        return st.none()
    if bare is msgspec.UnsetType:
        return st.just(msgspec.UNSET)
    if get_origin(bare) is Literal:
        return st.sampled_from(get_args(bare))
    if is_union(bare):
        return st.one_of([values(part) for part in get_args(bare) if part is not Ref and part is not vocabulary.Erased])
    if get_origin(bare) is tuple:
        return st.lists(values(get_args(bare)[0]), max_size=3).map(tuple)
    if get_origin(bare) is dict:
        key, value = get_args(bare)
        return st.dictionaries(values(key).filter(lambda name: name != "salt"), values(value), max_size=3)
    assert issubclass(bare, msgspec.Struct)
    hints = hints_of(bare)
    return st.builds(bare, **{name: values(hints[name]) for name in bare.__struct_fields__})


def events_of(cls: type[Event]) -> st.SearchStrategy[Event]:
    hints = hints_of(cls)
    own = [*facts_of(cls), *texts_of(cls)]
    return st.builds(cls, **{name: values(hints[name]) for name in own})


@pytest.mark.slow
@each_type
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_every_event_can_be_written_and_read(cls: type[Event], data: st.DataObject) -> None:
    """Whatever values the types allow, the line reads as the event that was given, and keeps the order of a line."""
    event = data.draw(events_of(cls))
    (item,) = prepare([event], ["01900000-0000-7000-8000-000000000001"], [SALT])
    read = as_read(item)
    own = [*facts_of(cls), *texts_of(cls)]
    assert {name: getattr(read, name) for name in own} == {name: getattr(event, name) for name in own}
    line = b'{"type":"%b","seq":1%b,"more":0,"dur":0,"crc":"00000000"}' % (
        type_of(cls).encode(),
        encode_body(event, SALT),
    )
    assert decode_event(line).__class__ is cls
    facts, salt, units = line_format.split(line)
    assert salt == (SALT if texts_of(cls) else "") and {unit.path.partition(".")[0] for unit in units} <= set(
        texts_of(cls)
    )
    assert b'"salt":"' + SALT.encode() not in facts


def test_no_type_is_another_ones_name_with_a_bit_flipped() -> None:
    """A damaged type never passes for another one, nor for a line that has no number."""
    names = [name.encode() for name in (*TYPES, "text", "text_erased", "segment_opened", "segment_sealed")]
    for one, other in itertools.combinations(names, 2):
        if len(one) == len(other):
            assert sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True)) > 1, (one, other)
        assert not other.startswith(b"text") or one == b"text" or not one.startswith(b"text")
    assert all(not name.startswith((b"text", b"segment_")) for name in names[:-4])


def test_every_class_is_exported_and_known() -> None:
    """Each event type is one class, exported by name, and in the union that decodes."""
    exported = {getattr(vocabulary, name) for name in vocabulary.__all__}
    assert {cls for cls in exported if isinstance(cls, type) and issubclass(cls, Event)} - {Event} == set(CLASSES)
    assert len(TYPES) == len(CLASSES) == 32
    assert {name for name in (vocabulary.__doc__ or "").split() if "_" in name} == set(TYPES)


def test_schema_of_all_and_of_none() -> None:
    """Without a type the schema holds all; a type that doesn't exist raises."""
    assert {f"#/$defs/{cls.__name__}" for cls in CLASSES} == {each["$ref"] for each in schema_of()["anyOf"]}
    with pytest.raises(UnknownEvent, match="run_sung"):
        schema_of("run_sung")


class TestVersions:
    """Older lines are read as today's; newer ones raise."""

    def test_chain_of_this_release(self) -> None:
        """The upcasters that are shipped fit the vocabulary."""
        chains()
        assert all(version_of(cls) == 1 for cls in CLASSES) and UPCASTERS == []

    @pytest.mark.parametrize(
        ("steps", "versions", "said"),
        [
            ([("a", 1), ("a", 1)], {"a": 2}, "two upcasters"),
            ([("a", 1)], {"a": 3}, "from version 2"),
            ([("a", 2)], {"a": 3}, "from version 1"),
            ([], {"a": 2}, "from version 1"),
            ([("a", 2)], {"a": 2}, "cycle"),
            ([("a", 0)], {"a": 1}, "cycle"),
            ([("a", 1)], {"a": 1}, "cycle"),
            ([("b", 1)], {"a": 1}, "no such event type"),
        ],
    )
    def test_chain_that_does_not_fit(self, steps: list[tuple[str, int]], versions: dict[str, int], said: str) -> None:
        """A duplicate, a gap, a step that leads nowhere or back raise when the chain is made."""
        with pytest.raises(ValueError, match=said):
            Chains([Upcaster(type_, version, dict) for type_, version in steps], versions)

    def test_chain_is_followed_step_by_step(self) -> None:
        """Each step turns the fields of one version into those of the next, and `v` follows."""
        steps = [
            Upcaster("a", 1, lambda fields: fields | {"two": fields["one"] + 1}),
            Upcaster("a", 2, lambda fields: {name: value for name, value in fields.items() if name != "one"}),
        ]
        chain = Chains(reversed(steps), {"a": 3})
        assert chain.upcast("a", 1, 3, {"v": 1, "one": 1}) == {"v": 3, "two": 2}
        assert chain.upcast("a", 2, 3, {"v": 2, "one": 1, "two": 5}) == {"v": 3, "two": 5}

    def test_older_line_is_read_as_todays(self) -> None:
        """A line of an older version reads as an event of today's, the log being left as it is."""
        code = """
from rbank_es.events import codec, NoteLogged
codec.version_of = lambda cls, real=codec.version_of: 2 if cls is NoteLogged else real(cls)
def renamed(fields):
    return {"note" if name == "words" else name: value for name, value in fields.items()}
codec.UPCASTERS = (codec.Upcaster("note_logged", 1, renamed),)
real = codec.msgspec.convert
codec.msgspec.convert = lambda fields, type: real(fields | {"v": 1}, type=type)
line = b'{"type":"note_logged","seq":4,"at":"","id":"x","v":1,"salt":"","words":"old","more":0,"dur":0,"crc":"0"}'
assert codec.decode_event(line).note == "old"
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def test_future(self) -> None:
        """A type or version from the future raises, naming type, version, what is known, and the position."""
        with pytest.raises(UnknownEvent, match="position 7: event type 'run_sung' .version 3.") as caught:
            decode_event(b'{"type":"run_sung","seq":7,"v":3}')
        assert (caught.value.type, caught.value.version, caught.value.known, caught.value.seq) == (
            "run_sung",
            3,
            None,
            7,
        )
        with pytest.raises(UnknownEvent, match="run_started has version 2, this release knows up to 1") as caught:
            decode_event(b'{"type":"run_started","seq":1234,"v":2,"run":"r","new":[1]}')
        assert (caught.value.version, caught.value.known, caught.value.seq) == (2, 1, 1234)

    @pytest.mark.parametrize(
        "line", [b"", b"{", b"[]", b"1", b'{"type":"run_started"}', b'{"type":"run_started","v":0,"run":"r"}', b"\xff"]
    )
    def test_anything_else_is_no_event(self, line: bytes) -> None:
        """Bytes that are no event of any version are told apart from those of the future."""
        with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
            decode_event(line)


def test_threads_make_decoders_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that read the first events at once crashed in msgspec: one met types that another had half described."""
    making, most = 0, 0

    def slow(_: object) -> object:
        nonlocal making, most
        making += 1
        most = max(most, making)
        time.sleep(0.01)
        making -= 1
        return object()

    monkeypatch.setattr(msgspec.json, "Decoder", slow)
    decoder_of.cache_clear()
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(decoder_of, CLASSES[:8]))
    finally:
        decoder_of.cache_clear()
    assert most == 1
