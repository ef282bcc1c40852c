"""A place as its form has it: whole files in a folder, or one block between two markers in a file of somebody's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rbank_es.agents.skill_files import BEGIN, END
from rbank_es.agents.skill_folder import SkillFolder
from rbank_es.agents.skill_manifest import Manifest
from rbank_es.agents.skill_plan import PlannedFile
from rbank_es.errors import BadInput
from rbank_es.limits import skill_limits

_BEGIN, _END = BEGIN.encode(), END.encode()


class SplitFile(NamedTuple):
    """A file with a block: what is above it, the block with its markers (None: there is none), and what is below."""

    above: bytes
    block: bytes | None
    below: bytes

    def with_block(self, block: bytes) -> bytes:
        """Return the file with another block; a first one is put at the end, behind an empty line."""
        above = self.above
        if self.block is None and above:
            above += b"\n" if above.endswith(b"\n") else b"\n\n"
        return above + block + self.below


def split_at_block(data: bytes, name: str) -> SplitFile:
    """Return a file in three parts. Raises `BadInput` for markers that are damaged, doubled or out of order."""
    lines = data.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if line.strip() == _BEGIN]
    ends = [number for number, line in enumerate(lines) if line.strip() == _END]
    if not begins and not ends:
        return SplitFile(data, None, b"")
    if len(begins) != 1 or len(ends) != 1 or begins > ends:
        raise BadInput(
            f"{name} has {len(begins)} lines {BEGIN} and {len(ends)} lines {END}, where one block has one of each, in "
            "this order; nothing was written. Repair or remove them"
        )
    first, last = begins[0], ends[0] + 1
    return SplitFile(b"".join(lines[:first]), b"".join(lines[first:last]), b"".join(lines[last:]))


def read_files(folder: SkillFolder, manifest: Manifest, paths: Iterable[str]) -> dict[str, bytes | None]:
    """Return the bytes of each file, or of its block; None where there is none. Raises as `SkillFolder.read`."""
    found = {path: folder.read(path) for path in paths}
    if manifest.form != "agents-md":
        return found
    return {path: split_at_block(data, path).block if data else None for path, data in found.items()}


def room_of(folder: SkillFolder, target: str) -> int:
    """Return the bytes that a block may take in a file, beside what else is in it."""
    data = folder.read(target) or b""
    others = len(data) - len(split_at_block(data, target).block or b"")
    return max(0, min(skill_limits.AGENTS_BLOCK_BYTES, skill_limits.AGENTS_FILE_BYTES - others))


def write_file(folder: SkillFolder, manifest: Manifest, file: PlannedFile) -> None:
    """Write or remove one file as it is planned. Raises as `SkillFolder.write`."""
    if file.change in ("same", "kept"):
        return
    if file.after is None:
        folder.remove(file.path)
        return
    data = file.after.encode()
    if manifest.form == "agents-md":
        data = split_at_block(folder.read(file.path) or b"", file.path).with_block(data)
    folder.write(file.path, data)
