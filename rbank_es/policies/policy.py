"""Policies: their common form (kind, name, version, checked settings), their registry, and files that choose them.

Every version that ever was released stays in the registry beside the newer ones: an old bank decides, searches and
verifies by the versions that it names. An unknown kind, name, version or setting raises `BadPolicy`; nothing is ever
replaced by a default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind
from rbank_es.system.registry import Registry


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
            known = ", ".join(cls.__struct_fields__) or "none"
            raise BadPolicy(f"{cls.kind} policy {cls.name} has no setting {unknown[0]!r}; its settings: {known}")
        try:
            return msgspec.convert(settings, type=cls)
        except msgspec.ValidationError as error:
            reason = str(error).replace("$.", "")
            raise BadPolicy(f"{cls.kind} policy {cls.name}: {reason}") from None


POLICIES: Registry[type[Policy]] = Registry(
    "policy",
    {
        "retrieval:bm25-1": "rbank_es.policies.bm25_1:Bm25V1",
        "retrieval:bm25-2": "rbank_es.policies.bm25_2:Bm25V2",
        "consolidation:append-1": "rbank_es.policies.consolidation:Append",
        "consolidation:dedup-1": "rbank_es.policies.consolidation:Dedup",
        "forgetting:never-1": "rbank_es.policies.forgetting_policies:Never",
        "forgetting:bounded-1": "rbank_es.policies.forgetting_policies:Bounded",
        "judging:checks-1": "rbank_es.policies.run_policies:CheckJudging",
        "judging:lm-1": "rbank_es.policies.run_policies:LmJudging",
        "extraction:success-failure-1": "rbank_es.policies.run_policies:SuccessFailure",
    },
)
"""Every version of every policy, as `kind:name-version`."""

DEFAULTS = {"retrieval": ("bm25", 1), "consolidation": ("dedup", 1), "forgetting": ("never", 1)}
"""The policy of each kind that a new bank starts with."""

UNRECORDED = {
    "retrieval": ("bm25", 1),
    "consolidation": ("append", 1),
    "forgetting": ("never", 1),
    "judging": ("checks", 1),
    "extraction": ("success-failure", 1),
}
"""The policy of each kind that governs where no event names one. It never changes, because the past would."""


def default_policies() -> tuple[PolicyChoice, ...]:
    """Return the policies of a new bank (bm25-1, dedup-1, never-1), with every setting."""
    return tuple(policy_class(kind, *named)().choice for kind, named in DEFAULTS.items())


def policy_of(choice: PolicyChoice) -> Policy:
    """Return the policy that a record names. Raises `BadPolicy` for an unknown kind, name, version or setting."""
    return policy_class(choice.kind, choice.name, choice.version).of(choice)


def governing(kind: PolicyKind, choice: PolicyChoice | None) -> Policy:
    """Return the policy that a record names, that of `UNRECORDED` for None. Raises as `policy_of`."""
    return policy_class(kind, *UNRECORDED[kind])() if choice is None else policy_of(choice)


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
    kinds = _released()
    if kind not in kinds:
        return BadPolicy(f"no policies of kind {kind!r} can be set{_hint(kind, kinds)}")
    if name not in kinds[kind]:
        return BadPolicy(f"there is no {kind} policy {name!r}{_hint(name, kinds[kind])}")
    versions = ", ".join(map(str, kinds[kind][name]))
    return BadPolicy(f"{kind} policy {name} has no version {version!r} in this release; there are: {versions}")


def _released() -> dict[str, dict[str, list[int]]]:
    """Return every kind, with the versions of each name."""
    kinds: dict[str, dict[str, list[int]]] = {}
    for key in POLICIES.names():
        kind, _, label = key.partition(":")
        name, _, version = label.rpartition("-")
        kinds.setdefault(kind, {}).setdefault(name, []).append(int(version))
    return kinds


def _hint(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only those who mistype pay for it

    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(sorted(known))}"


def load_policies(text: str) -> tuple[PolicyChoice, ...]:
    """Parse a file of policies, in TOML, or in JSON if it begins with a brace, into choices with every setting.

    One table per kind: its `name`, its `version`, and any settings beside them. A table without a name sets up the
    default policy; one without a version takes the default policy's, or the only one there is. A kind that is left out
    keeps its default; of one without a default, none is recorded. Raises `BadPolicy`.

        [retrieval]
        name = "bm25"
        k = 2
    """
    tables, known = _parse(text.lstrip("\ufeff")), _released()
    for kind in tables:
        if kind not in known:
            raise BadPolicy(f"no policies of kind {kind!r} can be set{_hint(kind, known)}")
    given = {kind: _chosen(kind, tables[kind]).choice for kind in known if kind in tables}
    return tuple(({choice.kind: choice for choice in default_policies()} | given).values())


def _parse(text: str) -> dict[str, Any]:
    import tomllib  # only those who bring a file of their own pay for it

    try:
        if text.lstrip().startswith("{"):
            return msgspec.json.decode(text, type=dict[str, Any])
        return tomllib.loads(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadPolicy(f"the policies are neither TOML nor a JSON object: {error}") from None


def _chosen(kind: str, table: Any) -> Policy:
    if not isinstance(table, dict):
        raise BadPolicy(f"{kind} must be a table of name, version and settings, not {type(table).__name__}")
    default, usual = (UNRECORDED | DEFAULTS).get(kind, (None, None))
    name = table.get("name", default)
    if not isinstance(name, str):
        raise BadPolicy(f"{kind}: name must be a string, not {type(name).__name__}")
    versions = _released()[kind].get(name, [])
    # Several versions and none of them usual: guessing one would be a default in silence.
    only = usual if name == default else versions[0] if len(versions) == 1 else None
    settings = {key: value for key, value in table.items() if key not in ("name", "version")}
    return policy_class(kind, name, table.get("version", only)).with_settings(settings)
