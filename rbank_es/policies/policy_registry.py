"""Policies: their common form (kind, name, version, checked settings), their registry, and their changes.

Every version that ever was released stays in the registry beside the newer ones: an old bank decides, searches and
verifies by the versions that it names. An unknown kind, name, version or setting raises `BadPolicy`; nothing is ever
replaced by a default.

The policies in force change by files and by assignments (`kind.setting=value`), which become tables by kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.system.nearest_name import hint
from rbank_es.system.registry import Registry
from rbank_es.system.toml_input import parse_toml
from rbank_es.system.validation_messages import reason_of
from rbank_es.system.whole_number import whole_number

P = TypeVar("P", bound="Policy")


class Setting(Struct, frozen=True):
    """One setting of a policy. `meaning` says what it changes, with the source of its default."""

    name: str
    default: Any
    meaning: str


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pure decision rule. Its fields are its settings; another decision is a new `version`."""

    kind: ClassVar[PolicyKind]
    name: ClassVar[str]
    version: ClassVar[int] = 1

    @property
    def label(self) -> str:
        """Name and version, as events record them: `dedup-1`."""
        return f"{self.name}-{self.version}"

    @property
    def choice(self) -> PolicyChoice:
        """The policy as `policy_set` records it, with every setting."""
        settings = {name: getattr(self, name) for name in self.__struct_fields__}
        return PolicyChoice(kind=self.kind, name=self.name, version=self.version, settings=settings)

    @classmethod
    def described(cls) -> tuple[Setting, ...]:
        """Return the settings in order; the meaning of one is the description of its annotation."""
        fields = msgspec.structs.fields(cls)
        return tuple(Setting(field.name, field.default, _description(field.type)) for field in fields)

    @classmethod
    def of(cls, choice: PolicyChoice) -> Self:
        """Return the policy that a record names. Raises `BadPolicy` for another one, or for wrong settings."""
        if (choice.kind, choice.name, choice.version) != (cls.kind, cls.name, cls.version):
            raise BadPolicy(f"{choice.kind} policy {choice.name}-{choice.version} is not {cls.name}-{cls.version}")
        return cls.with_settings(choice.settings)

    @classmethod
    def with_settings(cls, settings: dict[str, Any]) -> Self:
        """Return the policy with these settings, and defaults for the others. Raises `BadPolicy` naming the culprit."""
        unknown = sorted(settings.keys() - set(cls.__struct_fields__))
        if unknown:
            advice = hint(unknown[0], sorted(cls.__struct_fields__))
            raise BadPolicy(f"{cls.kind} policy {cls.name}-{cls.version} has no setting {unknown[0]!r}{advice}")
        try:
            return msgspec.convert(settings, type=cls)
        except msgspec.ValidationError as error:
            raise BadPolicy(f"{cls.kind} policy {cls.name}: {reason_of(error, cls)}") from None


def _description(annotation: Any) -> str:
    if get_origin(annotation) is not Annotated:
        return ""
    metas = (meta for meta in get_args(annotation)[1:] if isinstance(meta, msgspec.Meta))
    return next((meta.description for meta in metas if meta.description), "")


POLICIES: Registry[type[Policy]] = Registry(
    "policy",
    {
        "retrieval:bm25-1": "rbank_es.policies.bm25_1:Bm25V1",
        "retrieval:bm25-2": "rbank_es.policies.bm25_2:Bm25V2",
        "retrieval:bm25-3": "rbank_es.policies.bm25_3:Bm25V3",
        "retrieval:hybrid-1": "rbank_es.policies.hybrid_1:HybridV1",
        "admission:standard-1": "rbank_es.policies.admission:StandardAdmission",
        "admission:open-1": "rbank_es.policies.admission:OpenAdmission",
        "admission:reviewed-1": "rbank_es.policies.admission:ReviewedAdmission",
        "judging:checks-1": "rbank_es.policies.judging_and_extraction:CheckJudging",
        "judging:lm-1": "rbank_es.policies.judging_and_extraction:LmJudging",
        "extraction:success-failure-1": "rbank_es.policies.judging_and_extraction:SuccessFailure",
        "consolidation:append-1": "rbank_es.law.consolidation:Append",
        "consolidation:dedup-1": "rbank_es.law.consolidation:Dedup",
        "consolidation:merge-1": "rbank_es.law.consolidation:Merge",
        "consolidation:append-2": "rbank_es.law.consolidation_2:AppendV2",
        "consolidation:dedup-2": "rbank_es.law.consolidation_2:DedupV2",
        "consolidation:merge-2": "rbank_es.law.consolidation_2:MergeV2",
        "forgetting:never-1": "rbank_es.law.forgetting_policies:Never",
        "forgetting:bounded-1": "rbank_es.law.forgetting_policies:Bounded",
        "forgetting:utility-1": "rbank_es.law.forgetting_policies:LeastProven",
        "selection:best-of-1": "rbank_es.policies.selection:BestOf",
        "attribution:exposure-1": "rbank_es.law.attribution:Exposure",
        "correction:law-1": "rbank_es.law.law_versions:LawV1",
        "correction:law-2": "rbank_es.law.law_versions:LawV2",
    },
)
"""Every version of every policy, as `kind:name-version`."""

DEFAULTS: dict[PolicyKind, tuple[str, int]] = {
    "retrieval": ("bm25", 3),
    "admission": ("standard", 1),
    "judging": ("lm", 1),
    "extraction": ("success-failure", 1),
    "consolidation": ("dedup", 2),
    "forgetting": ("never", 1),
    "selection": ("best-of", 1),
    "attribution": ("exposure", 1),
    "correction": ("law", 2),
}
"""The policy of each kind that a new bank starts with."""

UNRECORDED = DEFAULTS | {"retrieval": ("bm25", 1), "consolidation": ("append", 1), "correction": ("law", 1)}
"""The policy of each kind that governs where no event names one. It never changes, because the past would."""


def default_policies() -> tuple[PolicyChoice, ...]:
    """Return the policies of a new bank, one of each kind, with every setting."""
    return tuple(policy_class(kind, *named)().choice for kind, named in DEFAULTS.items())


def policy_of(choice: PolicyChoice) -> Policy:
    """Return the policy that a record names. Raises `BadPolicy` for an unknown kind, name, version or setting."""
    return policy_class(choice.kind, choice.name, choice.version).of(choice)


def governing(kind: PolicyKind, choice: PolicyChoice | None) -> Policy:
    """Return the policy that a record names, that of `UNRECORDED` for None. Raises as `policy_of`."""
    return policy_class(kind, *UNRECORDED[kind])() if choice is None else policy_of(choice)


def governing_as(base: type[P], choice: PolicyChoice | None) -> P:
    """Return the policy that governs, as one of a class. Raises as `policy_of`, and `BadPolicy` for another class."""
    policy = governing(base.kind, choice)
    if not isinstance(policy, base):
        raise BadPolicy(f"{policy.label} is no {base.kind} policy")
    return policy


def policy_class(kind: str, name: str, version: object) -> type[Policy]:
    """Return the class of one version of a policy. Raises `BadPolicy` for an unknown kind, name or version."""
    key = f"{kind}:{name}-{version}"
    # A version given as "1" or True would make the same key as 1, and is a mistake.
    if type(version) is not int or key not in POLICIES:
        raise _unknown(kind, name, version)
    # A slip in a plugin: an event would record another version than the one that decided.
    found = POLICIES.get(key)
    if f"{found.kind}:{found.name}-{found.version}" != key:
        raise BadPolicy(f"the policy registered as {key} is {found.kind}:{found.name}-{found.version}")
    return found


def _unknown(kind: str, name: str, version: object) -> BadPolicy:
    kinds = released()
    if kind not in kinds:
        return unknown_kind(kind)
    if name not in kinds[kind]:
        return BadPolicy(f"there is no {kind} policy {name!r}{hint(name, sorted(kinds[kind]))}")
    versions = sorted(kinds[kind][name])
    if version is None:
        labels = " or ".join(f"{name}-{each}" for each in versions)
        return BadPolicy(f"{kind} policy {name} has several versions; name one of them: {labels}")
    known = ", ".join(map(str, versions))
    return BadPolicy(f"{kind} policy {name} has no version {version!r} in this release; there are: {known}")


def unknown_kind(kind: str) -> BadPolicy:
    """Return the error for a kind of policies that there is not."""
    return BadPolicy(f"no policies of kind {kind!r} can be set{hint(kind, sorted(released()))}")


def released() -> dict[str, dict[str, list[int]]]:
    """Return every kind, with the versions of each name."""
    kinds: dict[str, dict[str, list[int]]] = {}
    for key in POLICIES.names():
        kind, _, label = key.partition(":")
        name, _, version = label.rpartition("-")
        kinds.setdefault(kind, {}).setdefault(name, []).append(int(version))
    return kinds


Tables = Mapping[str, Any]
"""By kind, a table of `name`, `version` and settings, each only where it changes something."""

_NAMING = ("name", "version")


class PolicyDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between policies in force. `setting` is None where another policy, or version, took over.

    Policies are named by label: `dedup-1`; None where none is recorded.
    """

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
    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text, type=dict[str, Any])
        return parse_toml(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
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
    number = whole_number(version) if dash else None
    return {"name": label} if number is None else {"name": name, "version": number}


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


def chosen_policy(kind: PolicyKind, name: str, present: PolicyChoice | None = None) -> Policy:
    """Return the policy that a table with this name alone means where `present` is in force. Raises `BadPolicy`."""
    return _chosen(kind, {"name": name}, present)


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
    usual = _usual_settings(choice)
    return {name: value for name, value in choice.settings.items() if _plain(value) != _plain(usual.get(name))}


def _usual_settings(choice: PolicyChoice) -> Mapping[str, Any]:
    """Return the defaults of a policy; those recorded where it is unknown here, because its defaults are, too."""
    try:
        return policy_class(choice.kind, choice.name, choice.version)().choice.settings
    except BadPolicy:
        return choice.settings


def _usual(kind: Any, wanted: str, name: str, version: int) -> int | None:
    """Return the version of a policy that is named without one; None if there are several and none is usual.

    It is that in force; of another policy, the one with the number of that in force: append-2 where dedup-2 was.
    """
    versions = released()[kind].get(wanted, [])
    if wanted == name or version in versions:
        return version
    return versions[0] if len(versions) == 1 else None


def differences(before: Sequence[PolicyChoice], after: Sequence[PolicyChoice]) -> tuple[PolicyDifference, ...]:
    """Return the differences between policies in force, by kind. Of another policy, the settings off its defaults."""
    old, new = ({choice.kind: choice for choice in each} for each in (before, after))
    return tuple(found for kind in get_args(PolicyKind) for found in _differences(kind, old.get(kind), new.get(kind)))


def _differences(kind: PolicyKind, old: PolicyChoice | None, new: PolicyChoice | None) -> Iterator[PolicyDifference]:
    labels = [None if choice is None else label_of(choice) for choice in (old, new)]
    if labels[0] != labels[1]:
        yield PolicyDifference(kind=kind, before=labels[0], after=labels[1])
        settings = {} if new is None else _usual_settings(new)
    else:
        settings = {} if old is None else old.settings
    for name, value in () if new is None else new.settings.items():
        was, now = _plain(settings.get(name)), _plain(value)
        if was != now:
            yield PolicyDifference(kind=kind, setting=name, before=was, after=now)


def label_of(choice: PolicyChoice) -> str:
    """Return name and version of a recorded policy: `dedup-1`."""
    return f"{choice.name}-{choice.version}"


def _plain(value: Any) -> Any:
    """Return a setting as a log has it: with lists, where a policy's own has tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))
