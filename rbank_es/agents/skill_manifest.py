"""The manifest beside skills: from which bank, position and head they are, and the items behind each line as written.

It holds ids and digests and no words, so that what is erased in the bank and goes out of the files is gone. Whoever can
write in a project can write its manifest: a path in it is believed only if this program could have made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from rbank_es.agents.skill_files import PLUGIN, REFERENCE, SKILL, SkillForm
from rbank_es.agents.skill_groups import PREFIX
from rbank_es.agents.skill_lines import SkillLine, digest_of
from rbank_es.agents.trusted_banks import data_folder
from rbank_es.errors import BadInput, LimitExceeded
from rbank_es.limits import skill_limits
from rbank_es.system.files import make_private, read_regular, write_replacing

_SKILL_PATH = re.compile(rf"{PREFIX}-[a-z0-9-]{{1,58}}/(?:{re.escape(SKILL)}|{re.escape(REFERENCE)})")
_TARGET = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\.md")
_MANIFEST = re.compile(r"\.rbank-es-[0-9a-f]{12}\.json")


class ManifestLine(Struct, frozen=True, kw_only=True):
    """A line as it was written: its key in the file, its digest, and the ids of the items behind it."""

    key: str
    digest: str
    items: tuple[str, ...] = ()


class ManifestFile(Struct, frozen=True, kw_only=True):
    """A file, or a block, as it was written. `own` are the digests of a person's lines in it."""

    path: str
    digest: str
    lines: tuple[ManifestLine, ...]
    own: tuple[str, ...] = ()


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one export wrote into a place.

    `before` are the files of the export before, while this one is being written: each file is as one of both says.
    `taken_out` are keys of lines that a person removed. `label` is what the bank was called at the first export.
    """

    made_by: Literal["rbank-es skills 1"] = "rbank-es skills 1"
    bank_id: str
    label: str
    form: SkillForm
    domain: str | None
    target: str
    position: int
    head: str
    files: tuple[ManifestFile, ...] = ()
    before: tuple[ManifestFile, ...] = ()
    taken_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the manifest's file: one for each bank, form, domain and target."""
        key = "\n".join((self.bank_id, self.form, self.domain or "", self.target))
        return f".rbank-es-{sha256(key.encode()).hexdigest()[:12]}.json"

    def bases(self) -> dict[str, list[ManifestFile]]:
        """Return by path the file as it may have been written."""
        found: dict[str, list[ManifestFile]] = {}
        for file in (*self.files, *self.before):
            found.setdefault(file.path, []).append(file)
        return found

    def encode(self) -> bytes:
        """Return the bytes of the manifest's file, on lines that a difference can show."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def written_file(path: str, lines: Sequence[SkillLine]) -> ManifestFile:
    """Return the entry of a file that has these lines."""
    return ManifestFile(
        path=path,
        digest=digest_of(text_of(lines)),
        lines=tuple(
            ManifestLine(key=each.key, digest=digest_of(each.text), items=each.items) for each in lines if each.key
        ),
        own=tuple(digest_of(each.text) for each in lines if not each.key and each.text.strip()),
    )


def text_of(lines: Iterable[SkillLine]) -> str:
    """Return the text of a file or block that has these lines."""
    return "".join(each.text + "\n" for each in lines)


def is_manifest(name: str) -> bool:
    """Return whether a file has the name of a manifest."""
    return _MANIFEST.fullmatch(name) is not None


def check_target(name: str) -> str:
    """Return the name of a Markdown file that may hold a block. Raises `BadInput` for another."""
    if not _TARGET.fullmatch(name):
        raise BadInput(
            f"{name!r} is no name of a Markdown file; give a folder, or a file such as AGENTS.md or CLAUDE.md"
        )
    return name


def parse_manifest(name: str, data: bytes) -> Manifest:
    """Return the manifest in a file. Raises `BadInput` for one that this program didn't write."""
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{name} is damaged ({error}); {_REMEDY}") from None
    paths = [file.path for file in (*found.files, *found.before)]
    odd = next((path for path in paths if not _belongs(path, found)), None)
    if odd is not None:
        raise BadInput(f"{name} names the file {odd!r}, which no export writes; {_REMEDY}")
    if found.name != name:
        raise BadInput(f"{name} is the manifest of another place or bank; {_REMEDY}")
    return found


_REMEDY = "restore it, or remove it together with what was exported, and export again"


def _belongs(path: str, manifest: Manifest) -> bool:
    if manifest.form == "agents-md":
        return path == manifest.target and _TARGET.fullmatch(path) is not None
    if manifest.form == "plugin":
        return path == PLUGIN or (
            path.startswith("skills/") and bool(_SKILL_PATH.fullmatch(path.removeprefix("skills/")))
        )
    return _SKILL_PATH.fullmatch(path) is not None


# ---------------------------------------------------------------- places


def _places_file(bank_id: str) -> Path:
    return data_folder() / "skills" / f"{sha256(bank_id.encode()).hexdigest()[:32]}.json"


def remembered_places(bank_id: str) -> list[Path]:
    """Return the folders into which this user exported skills of a bank, in order."""
    file = _places_file(bank_id)
    try:
        data = read_regular(file, skill_limits.SKILL_MANIFEST_BYTES)
        return [Path(each) for each in msgspec.json.decode(data, type=list[str])][: skill_limits.SKILL_PLACES]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, LimitExceeded) as error:
        raise BadInput(
            f"the list of places in {file} can't be read ({error}); remove it, and name places by --into"
        ) from None


def remember_place(bank_id: str, place: Path) -> bool:
    """Remember a folder as one with skills of a bank. Return whether that is possible."""
    file = _places_file(bank_id)
    places = sorted({*map(str, remembered_places(bank_id)), str(place)})[: skill_limits.SKILL_PLACES]
    try:
        make_private(file.parent)
        write_replacing(file, [msgspec.json.encode(places)])
    except OSError:
        return False
    return True
