"""Changes of the policies in force: files and assignments that choose them, and the differences that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.policies.policy import UNRECORDED, Policy, default_policies, policy_class, released, unknown_kind

Tables = Mapping[str, Any]
"""By kind, a table of `name`, `version` and settings, each only where it changes something."""

_NAMING = ("name", "version")


class PolicyChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between policies in force. `setting` is None where another policy, or version, took over."""

    kind: PolicyKind
    setting: str | None = None
    before: Any = None
    after: Any = None


def load_policies(text: str) -> tuple[PolicyChoice, ...]:
    """Parse a file of policies into the choices of a new bank, with every setting.

    A table without a name sets up the default policy; one without a version takes the default policy's, or the only
    one there is. A kind that is left out keeps its default. Raises `BadPolicy`.

        [retrieval]
        name = "bm25"
        k_success = 2
    """
    return changed(default_policies(), parse_tables(text))


def parse_tables(text: str) -> dict[str, Any]:
    """Parse TOML, or JSON if it begins with a brace, into tables by kind. Raises `BadPolicy`."""
    import tomllib  # only those who bring a file of their own pay for it

    text = text.lstrip("\ufeff")
    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text, type=dict[str, Any])
        return tomllib.loads(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadPolicy(f"the policies are neither TOML nor a JSON object: {error}") from None


def parse_assignments(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parse `kind.setting=value` (JSON, else plain text) and `kind=name` or `kind=name-version` into tables by kind.

    Raises `BadPolicy` for a text without `=`, and for two values of one setting.
    """
    tables: dict[str, dict[str, Any]] = {}
    for text in texts:
        left, equals, value = text.partition("=")
        kind, dot, setting = left.strip().partition(".")
        if not equals or not kind or (dot and not setting):
            raise BadPolicy(f"{text!r} sets nothing: write kind.setting=value, or kind=name-version")
        given = {setting: _value(value)} if dot else _named(value.strip())
        table = tables.setdefault(kind, {})
        if twice := given.keys() & table.keys():
            raise BadPolicy(f"{kind}: {min(twice)} is given twice")
        table |= given
    return tables


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _named(label: str) -> dict[str, Any]:
    name, dash, version = label.rpartition("-")
    return {"name": name, "version": int(version)} if dash and version.isdecimal() else {"name": label}


def changed(in_force: Iterable[PolicyChoice], tables: Tables) -> tuple[PolicyChoice, ...]:
    """Return the policies in force after a change, whole: one per kind, in the order of `PolicyKind`.

    A table that names no other policy than the one in force changes the settings that it has; another version keeps
    what was changed from the defaults, as far as it has such settings; another policy begins with its defaults. Kinds
    without a table stay as recorded, known to this release or not. Raises `BadPolicy`.
    """
    present: dict[str, PolicyChoice] = {choice.kind: choice for choice in in_force}
    for kind, table in tables.items():
        if kind not in released():
            raise unknown_kind(kind)
        present[kind] = _chosen(kind, table, present.get(kind)).choice
    return tuple(present[kind] for kind in get_args(PolicyKind) if kind in present)


def chosen_policy(kind: PolicyKind, name: str) -> Policy:
    """Return the policy that a table with this name alone means. Raises `BadPolicy`."""
    return _chosen(kind, {"name": name}, None)


def _chosen(kind: Any, table: Any, present: PolicyChoice | None) -> Policy:
    if not isinstance(table, Mapping):
        raise BadPolicy(f"{kind} must be a table of name, version and settings, not {type(table).__name__}")
    given = {name: value for name, value in table.items() if name not in _NAMING}
    name, version = (present.name, present.version) if present is not None else UNRECORDED[kind]
    wanted = table.get("name", name)
    if not isinstance(wanted, str):
        raise BadPolicy(f"{kind}: name must be a string, not {type(wanted).__name__}")
    if wanted == name and table.get("version", version) == version:
        own = present.settings if present is not None else {}
        return policy_class(kind, name, table.get("version", version)).with_settings(own | given)
    found = policy_class(kind, wanted, table.get("version", _usual(kind, wanted, name, version)))
    kept = _off_default(present) if wanted == name and present is not None else {}
    return found.with_settings({name: kept[name] for name in found.__struct_fields__ if name in kept} | given)


def _off_default(choice: PolicyChoice) -> dict[str, Any]:
    """Return the settings that were changed from the defaults; none of a policy that is unknown here."""
    try:
        usual = policy_class(choice.kind, choice.name, choice.version)().choice.settings
    except BadPolicy:
        return {}
    return {name: value for name, value in choice.settings.items() if _plain(value) != _plain(usual.get(name))}


def _usual(kind: Any, wanted: str, name: str, version: int) -> int | None:
    """Return the version of a policy that is named without one; None if there are several and none is usual."""
    for known, usual in ((name, version), UNRECORDED[kind]):
        if wanted == known:
            return usual
    versions = released()[kind].get(wanted, [])
    return versions[0] if len(versions) == 1 else None


def differences(before: Sequence[PolicyChoice], after: Sequence[PolicyChoice]) -> tuple[PolicyChange, ...]:
    """Return the differences between policies in force, by kind. Of another policy, the settings off its defaults."""
    old = {choice.kind: choice for choice in before}
    return tuple(change for choice in after for change in _differences(old.get(choice.kind), choice))


def _differences(old: PolicyChoice | None, new: PolicyChoice) -> Iterator[PolicyChange]:
    if old is None or (old.name, old.version) != (new.name, new.version):
        yield PolicyChange(kind=new.kind, before=label_of(old) if old else None, after=label_of(new))
        settings = policy_class(new.kind, new.name, new.version)().choice.settings
    else:
        settings = old.settings
    for name, value in new.settings.items():
        # Settings that are read from a log are lists, where a policy's own are tuples.
        if _plain(settings.get(name)) != _plain(value):
            yield PolicyChange(kind=new.kind, setting=name, before=settings.get(name), after=value)


def label_of(choice: PolicyChoice) -> str:
    """Return name and version of a recorded policy: `dedup-1`."""
    return f"{choice.name}-{choice.version}"


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
