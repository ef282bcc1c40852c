"""What every policy has: a kind, a name, a version, settings that are checked, and a record of itself."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import msgspec

from rbank_es.errors import BadPolicy
from rbank_es.events import PolicyChoice
from rbank_es.events.bank_events import PolicyKind


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pure decision rule. Its fields are its settings; a change of what it decides is a new `version`."""

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
        """The policy that a record names. Raises `BadPolicy` if it is another one, or its settings are wrong."""
        if (choice.kind, choice.name, choice.version) != (cls.kind, cls.name, cls.version):
            raise BadPolicy(f"{choice.kind} policy {choice.name}-{choice.version} is not {cls.name}-{cls.version}")
        return cls.with_settings(choice.settings)

    @classmethod
    def with_settings(cls, settings: dict[str, Any]) -> Self:
        """The policy with the settings given and defaults for the others. Raises `BadPolicy` naming the culprit."""
        unknown = sorted(settings.keys() - set(cls.__struct_fields__))
        if unknown:
            known = ", ".join(cls.__struct_fields__) or "none"
            raise BadPolicy(f"{cls.kind} policy {cls.name} has no setting {unknown[0]!r}; its settings: {known}")
        try:
            return msgspec.convert(settings, type=cls)
        except msgspec.ValidationError as error:
            reason = str(error).replace("$.", "")
            raise BadPolicy(f"{cls.kind} policy {cls.name}: {reason}") from None
