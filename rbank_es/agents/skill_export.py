"""Skills out of a bank: its active lessons as files that coding agents read, kept as the bank is.

`write_skills` exports into a folder, `sync_skills` brings every place of a bank to what it says now. Lessons that lost
their support go out of every file. What a person wrote or removed there is kept, reported, and with `adopt` remembered.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rbank_es.agents.skill_files import SkillForm, files_of
from rbank_es.agents.skill_folder import SkillFolder, checked_place
from rbank_es.agents.skill_lines import ITEM, SkillLesson, lessons_of
from rbank_es.agents.skill_manifest import (
    Manifest,
    check_target,
    is_manifest,
    parse_manifest,
    remember_place,
    remembered_places,
)
from rbank_es.agents.skill_merge import Own
from rbank_es.agents.skill_places import read_files, room_of, write_file
from rbank_es.agents.skill_plan import Change, PlacePlan, ReadPlace, difference_of, plan
from rbank_es.bank import Bank
from rbank_es.errors import BadInput, RBankError
from rbank_es.law import State
from rbank_es.limits import skill_limits
from rbank_es.system.text_cuts import cut_words

_AGENTS = "AGENTS.md"
_TITLE_CHARS = 120
_SENTENCE = re.compile(r"(?<=[.!?。])\s+")


class SkillFile(Struct, frozen=True, kw_only=True):
    """A file of a place. `change` is `added`, `changed`, `removed`, `same`, or `kept`: left as a person made it.

    `difference` is what changes, as a unified difference, in a dry run; else null.
    """

    path: str
    change: Change
    difference: str | None = None


class PersonsWords(Struct, frozen=True, kw_only=True):
    """Words of a person in a file: where they begin, the item that they name, and what became of offering them.

    `offered`: they can become an item. `adopted_as` is the item that states them now, null if none does; `because` says
    why none does.
    """

    path: str
    line: int
    words: str
    item: str | None
    offered: bool
    adopted_as: str | None = None
    because: str = ""


class SkillPlace(Struct, frozen=True, kw_only=True):
    """A folder with skills of a bank. `came`, `left` and `taken_out` are ids of items: in the files now, not any more,
    and removed there by a person, though they are active. `left_out` is the number of lessons without a place.
    `problem` says why nothing was written; null if there is none.
    """

    place: str
    form: SkillForm | None
    domain: str | None = None
    lessons: int = 0
    left_out: int = 0
    came: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    taken_out: tuple[str, ...] = ()
    files: tuple[SkillFile, ...] = ()
    own: tuple[PersonsWords, ...] = ()
    problem: str | None = None


class SkillsReport(Struct, frozen=True, kw_only=True):
    """What an export or a synchronisation did, or would do. `due`: a correction is due, after which more may change."""

    bank: str
    bank_id: str
    position: int
    head: str
    written: bool
    due: bool
    remembered: bool
    places: tuple[SkillPlace, ...]


class _Source:
    """What a bank says at a position."""

    def __init__(self, bank: Bank, point: str | int | None = None) -> None:
        self.position = bank.resolve(point)
        self.state: State = bank.state(self.position)
        self.head = str(bank.head(self.position))
        self.standing = {id for id, entry in self.state.items.items() if entry.state == "active" and not entry.erased}
        self._lessons: dict[str | None, list[SkillLesson]] = {}

    def lessons(self, domain: str | None) -> list[SkillLesson]:
        """Return the lessons of a domain, or of all."""
        if domain not in self._lessons:
            self._lessons[domain] = lessons_of(self.state, domain)
        return self._lessons[domain]


class _Written(NamedTuple):
    """What was done in one place."""

    manifest: Manifest
    plan: PlacePlan
    left_out: int


# ---------------------------------------------------------------- export


def write_skills(
    bank: Bank,
    into: str | Path,
    *,
    point: str | int | None = None,
    form: SkillForm = "skill",
    domain: str | None = None,
    dry_run: bool = False,
) -> SkillsReport:
    """Write the active lessons of a bank, or of one domain of it, into a folder, and remember the place.

    `into` may be a Markdown file, for the form `agents-md`. What is there of an earlier export becomes what the bank
    says now, with a person's words kept and what a person took out brought back. Raises `BadInput` for a file that is
    somebody else's, a link, damaged markers or a damaged manifest, before anything is written; `CannotWrite`.
    """
    source, (place, target) = _Source(bank, point), _place_of(into, form)
    if bank.log.owns(place):
        raise BadInput(f"{place} is inside the bank's own directory; choose a place outside of it")
    fresh = Manifest(bank_id=bank.id, label=_label(bank), form=form, domain=domain, target=target, position=0, head="")
    with SkillFolder.opened(place, write=not dry_run) as folder:
        data = folder.read(fresh.name, skill_limits.SKILL_MANIFEST_BYTES)
        manifest = fresh if data is None else parse_manifest(fresh.name, data)
        done = _bring(folder, manifest, source, fresh=True, dry_run=dry_run)
    remembered = not dry_run and remember_place(bank.id, place)
    report = _place_report(place, manifest, done, dry_run=dry_run)
    return _report(bank, source, [report], dry_run=dry_run, remembered=remembered)


def _label(bank: Bank) -> str:
    """Return what skills of no one domain are about: the project whose bank it is, else the bank's name."""
    folder = Path(bank.log.place).absolute().parent
    return (folder.parent.name if folder.name == ".rbank" else "") or bank.name


def _place_of(into: str | Path, form: SkillForm) -> tuple[Path, str]:
    given = Path(into)
    if form != "agents-md":
        return checked_place(given), ""
    if given.suffix == ".md" and not given.is_dir():
        return checked_place(given.parent), check_target(given.name)
    return checked_place(given), _AGENTS


def _bring(
    folder: SkillFolder,
    old: Manifest,
    source: _Source,
    *,
    fresh: bool = False,
    adopted: Collection[str] = (),
    dry_run: bool,
) -> _Written:
    """Bring one place to what the bank says; with `dry_run`, only find out."""
    lessons = source.lessons(old.domain)
    room = room_of(folder, old.target) if old.form == "agents-md" else 0
    read = _read(folder, old, ())
    room = max(0, room - sum(file.own_bytes() for file in read.files.values()))
    wanted = files_of(lessons, old.form, old.label, target=old.target, room_bytes=room)
    made = plan(_read(folder, old, wanted), wanted, source.standing, fresh=fresh, adopted=adopted)
    new = replace(
        old,
        position=source.position,
        head=source.head,
        files=made.written,
        before=(),
        taken_out=made.taken_out,
    )
    if not dry_run:
        _write(folder, old, new, made)
    shown = {id for file in made.written for line in file.lines for id in line.items}
    out = {key.removeprefix(ITEM) for key in made.taken_out}
    return _Written(new, made, sum(each.item.id not in shown | out for each in lessons))


def _read(folder: SkillFolder, manifest: Manifest, more: Collection[str]) -> ReadPlace:
    return ReadPlace.of(manifest, read_files(folder, manifest, sorted({*manifest.bases(), *more})))


def _write(folder: SkillFolder, old: Manifest, new: Manifest, made: PlacePlan) -> None:
    if any(file.change not in ("same", "kept") for file in made.files):
        # First both, because a process that is killed must not leave files that pass for a person's edits.
        between = replace(new, before=(*old.files, *old.before))
        folder.write(new.name, between.encode())
        for file in made.files:
            write_file(folder, new, file)
    if new.encode() != folder.read(new.name, skill_limits.SKILL_MANIFEST_BYTES):
        folder.write(new.name, new.encode())


# ---------------------------------------------------------------- synchronisation


def sync_skills(
    bank: Bank,
    into: str | Path | None = None,
    *,
    adopt: bool = False,
    by: str | None = None,
    dry_run: bool = False,
) -> SkillsReport:
    """Bring every place of a bank, or those in one folder, to what it says now.

    With `adopt`, words of people in the files become items, by the policies of the bank; an item that they reword is
    retracted. A place with a problem is reported, and the others are written. Raises `BadInput` if `into` has no skills
    of the bank.
    """
    places = remembered_places(bank.id) if into is None else [_place_of(into, "agents-md")[0]]
    target = Path(into).name if into is not None and Path(into).suffix == ".md" else None
    adopted: dict[tuple[Path, str], dict[str, PersonsWords]] = {}
    if adopt and not dry_run:
        source = _Source(bank)
        for place in places:
            for manifest in _manifests(bank, place, target, []):
                adopted[place, manifest.name] = _adopt(bank, place, manifest, source, by)
    source = _Source(bank)
    found: list[SkillPlace] = []
    for place in places:
        manifests = _manifests(bank, place, target, found)
        for manifest in manifests:
            taken = adopted.get((place, manifest.name), {})
            found.append(_synced(place, manifest, source, taken, dry_run=dry_run))
    if into is not None and not found:
        raise BadInput(f"there are no skills of {bank.name} in {into}; export them with --into, without --sync")
    remembered = not dry_run and into is not None and remember_place(bank.id, places[0])
    return _report(bank, source, found, dry_run=dry_run, remembered=remembered or into is None)


def _manifests(bank: Bank, place: Path, target: str | None, problems: list[SkillPlace]) -> list[Manifest]:
    """Return the manifests of a bank in a folder; report those that can't be read."""
    found = []
    try:
        checked_place(place)
        with SkillFolder.opened(place, write=False) as folder:
            names = [name for name in folder.names() if is_manifest(name)]
            for name in names:
                manifest = _manifest(folder, name, problems)
                if manifest is not None and manifest.bank_id == bank.id and target in (None, manifest.target):
                    found.append(manifest)
    except (RBankError, OSError) as error:
        problems.append(SkillPlace(place=str(place), form=None, problem=str(error)))
    return found


def _manifest(folder: SkillFolder, name: str, problems: list[SkillPlace]) -> Manifest | None:
    try:
        data = folder.read(name, skill_limits.SKILL_MANIFEST_BYTES)
        return None if data is None else parse_manifest(name, data)
    except RBankError as error:
        problems.append(SkillPlace(place=str(folder.place), form=None, problem=str(error)))
        return None


def _synced(
    place: Path, manifest: Manifest, source: _Source, taken: dict[str, PersonsWords], *, dry_run: bool
) -> SkillPlace:
    adopted = {digest for digest, words in taken.items() if words.adopted_as is not None}
    try:
        with SkillFolder.opened(place, write=not dry_run) as folder:
            # Again, because another process may have written since: from here on none can.
            data = folder.read(manifest.name, skill_limits.SKILL_MANIFEST_BYTES)
            manifest = manifest if data is None else parse_manifest(manifest.name, data)
            done = _bring(folder, manifest, source, adopted=adopted, dry_run=dry_run)
    except RBankError as error:
        return SkillPlace(place=str(place), form=manifest.form, domain=manifest.domain, problem=str(error))
    return _place_report(place, manifest, done, taken, dry_run=dry_run)


# ---------------------------------------------------------------- a person's words


def _adopt(bank: Bank, place: Path, manifest: Manifest, source: _Source, by: str | None) -> dict[str, PersonsWords]:
    """Let the bank decide about each piece of a person's words in a place; return the outcomes by digest."""
    try:
        with SkillFolder.opened(place, write=False) as folder:
            pieces = _read(folder, manifest, ()).own
    except RBankError:  # the pass that writes reports it
        return {}
    return {own.digest: _remembered(bank, own, manifest, source, by) for own in pieces if own.offered}


def _remembered(bank: Bank, own: Own, manifest: Manifest, source: _Source, by: str | None) -> PersonsWords:
    title, _, content = _SENTENCE.sub("\n", own.words, count=1).partition("\n")
    if len(title) > _TITLE_CHARS:
        title, content = cut_words(title, _TITLE_CHARS), own.words
    entry = source.state.items.get(own.item or "")
    try:
        made = bank.remember(
            title.rstrip("."),
            content,
            polarity=own.polarity,
            domain=_domain_of(own, manifest, source.state),
            tags=() if entry is None else entry.item.tags,
            reason=f"written by {by or 'a person'} in {own.path}",
        )
        now = made.targets[0] if made.action == "skip" and made.targets else made.item
        adopted = made.action == "skip" or made.state == "active"
        # The lesson that was reworded: without this, both wordings would stand in the file.
        if adopted and own.item in source.standing and own.item not in (now, None):
            bank.retract(str(own.item), because=f"reworded as {now} in {own.path}", by=by)
    except RBankError as error:
        return _own_words(own, None, str(error))
    return _own_words(own, now if adopted else None, "" if adopted else made.because)


def _domain_of(own: Own, manifest: Manifest, state: State) -> str | None:
    """Return the domain of the lessons that a person's words stand among, if they have one."""
    beside = [id for file in manifest.bases().get(own.path, ()) for line in file.lines for id in line.items]
    domains = {state.items[id].item.domain for id in (own.item or "", *beside) if id in state.items}
    return manifest.domain or (domains.pop() if len(domains) == 1 else None)


def _own_words(own: Own, adopted_as: str | None = None, because: str = "") -> PersonsWords:
    return PersonsWords(
        path=own.path,
        line=own.number,
        words=own.words,
        item=own.item,
        offered=own.offered,
        adopted_as=adopted_as,
        because=because,
    )


# ---------------------------------------------------------------- reports


def _place_report(
    place: Path, old: Manifest, done: _Written, taken: dict[str, PersonsWords] | None = None, *, dry_run: bool
) -> SkillPlace:
    before, after = (
        {id for file in manifest.files for line in file.lines for id in line.items} for manifest in (old, done.manifest)
    )
    files = (
        SkillFile(path=each.path, change=each.change, difference=difference_of(each) if dry_run else None)
        for each in done.plan.files
    )
    return SkillPlace(
        place=str(place),
        form=old.form,
        domain=old.domain,
        lessons=len(after),
        left_out=done.left_out,
        came=tuple(sorted(after - before)),
        left=tuple(sorted(before - after)),
        taken_out=tuple(key.removeprefix(ITEM) for key in done.plan.taken_out if key.startswith(ITEM)),
        files=tuple(files),
        own=tuple((taken or {}).get(own.digest) or _own_words(own) for own in done.plan.own),
    )


def _report(bank: Bank, source: _Source, places: list[SkillPlace], *, dry_run: bool, remembered: bool) -> SkillsReport:
    return SkillsReport(
        bank=bank.name,
        bank_id=bank.id,
        position=source.position,
        head=source.head,
        written=not dry_run,
        due=bool(source.state.due),
        remembered=remembered,
        places=tuple(places),
    )
