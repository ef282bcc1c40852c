"""Installing the hook: the change to a settings file, its backup, and the bank that the user then trusts."""

from __future__ import annotations

import difflib
import errno
import os
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from rbank_es.agents.host_settings import BadSettings, Host, hooked_events, moved_events, with_hooks, without_hooks
from rbank_es.agents.trusted_banks import HookBank, changed_config, config_file, project_root, read_config, user_bank
from rbank_es.errors import BadInput, CannotWrite, LimitExceeded
from rbank_es.limits import hook_limits as limits
from rbank_es.system.files import kind_of, make_private, read_regular, replaceable, write_replacing

BACKUP = ".before-rbank-es"
"""The end of the name of the backup, which is made once."""


class SettingsChange(NamedTuple):
    """A change to a settings file: its bytes before and after, None for no file; notes for the user."""

    path: Path
    before: bytes | None
    after: bytes | None
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> str:
        """The change as a unified difference; empty where there is none."""
        both = (self.before, self.after)
        before, after = ((each or b"").decode("utf-8", "replace").splitlines(keepends=True) for each in both)
        old, new = ("/dev/null" if each is None else str(self.path) for each in both)
        lines = difflib.unified_diff(before, after, old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def settings_path(host: Host, project: str | None) -> Path:
    """Return the settings file of a host: of a project, or without one of the user. It need not exist."""
    if host == "claude-code":
        home = os.environ.get("CLAUDE_CONFIG_DIR")
        folder = Path(project, ".claude") if project else Path(home) if home else Path.home() / ".claude"
        return folder / "settings.json"
    home = os.environ.get("CODEX_HOME")
    folder = Path(project, ".codex") if project else Path(home) if home else Path.home() / ".codex"
    return folder / "hooks.json"


def planned_install(host: Host, project: str | None) -> SettingsChange:
    """Return the change that installs the hook. Raises `BadSettings`, `CannotWrite`."""
    path, before = _read(settings_path(host, project))
    after = with_hooks(_decoded(before or b"", path), host, str(path)).encode()
    notes = _codex_notes(path.parent) if host == "codex" else ()
    return SettingsChange(path, before, before if after == before else after, notes)


def planned_uninstall(host: Host, project: str | None) -> SettingsChange:
    """Return the change that takes the hook out: to the bytes of the backup where nothing else changed since."""
    path, before = _read(settings_path(host, project))
    if before is None:
        return SettingsChange(path, None, None)
    text = _decoded(before, path)
    backup = _backup_of(path)
    if backup is not None and with_hooks(_decoded(backup, path), host, str(path)).encode() == before:
        return SettingsChange(path, before, backup)
    if backup is None and with_hooks("", host, str(path)).encode() == before:
        return SettingsChange(path, before, None)
    moved = moved_events(text, str(path)) if host == "codex" else []
    advice = "hooks of others follow ours, and Codex runs them no more until they are trusted again in /hooks"
    notes = tuple(f"{event}: {advice}" for event in moved)
    after = without_hooks(text, str(path)).encode()
    return SettingsChange(path, before, before if after == before else after, notes)


def apply_change(change: SettingsChange) -> None:
    """Write a change, unless the file is another by now. Raises `BadInput` then, `CannotWrite`, and changes nothing."""
    place, now = _read(change.path)
    if now != change.before:
        raise BadInput(
            f"{change.path} was changed meanwhile by another program; nothing was written. Run the same again"
        )
    try:
        if change.after is None:
            place.unlink()
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        backup = place.with_name(place.name + BACKUP)
        # The state before the first install is kept: later ones have our groups in them.
        if change.before is not None and not _has_hooks(change.before, place):
            write_replacing(backup, [change.before])
        write_replacing(place, [change.after])
        if not _has_hooks(change.after, place):
            backup.unlink(missing_ok=True)
    except OSError as error:
        raise CannotWrite(str(place), error) from error


def bank_place(project: str | None) -> str:
    """Return where the bank of an installation is unless another is named."""
    return str(Path(project, ".rbank", "bank")) if project is not None else user_bank()


def prepare_folder(project: str) -> None:
    """Make the folder of a project's bank, which git ignores. Raises `CannotWrite` for anything else in its place."""
    folder = Path(project, ".rbank")
    try:
        if kind_of(folder) not in (None, "a directory"):
            raise CannotWrite(str(folder), OSError(errno.EACCES, f"it is {kind_of(folder)}, not a directory"))
        make_private(folder)
        if kind_of(folder / ".gitignore") is None:
            write_replacing(folder / ".gitignore", [b"*\n"])
    except OSError as error:
        raise CannotWrite(str(folder), error) from error


def trust_bank(bank: HookBank) -> None:
    """Record in the user's configuration that hooks may give lessons of a bank. Raises `CannotWrite`."""
    path = config_file()
    try:
        make_private(path.parent)
        write_replacing(path, [changed_config(read_config(), bank)], follow=True)
    except OSError as error:
        raise CannotWrite(str(path), error) from error


def chosen_project(cwd: str, *, project: bool) -> str | None:
    """Return the root of the project that an installation is for; None for the user."""
    return project_root(cwd) if project else None


def codex_config(folder: Path) -> dict[str, Any]:
    """Return Codex's `config.toml` in a folder; empty where there is none. Raises `BadSettings` with the line."""
    path = folder / "config.toml"
    try:
        return tomllib.loads(read_regular(path, limits.SETTINGS_BYTES, follow=True).decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSettings(str(path), f"not TOML ({error})") from None
    except (OSError, LimitExceeded) as error:
        raise BadSettings(str(path), str(error)) from None


def _codex_notes(folder: Path) -> tuple[str, ...]:
    hooks = codex_config(folder).get("hooks")
    notes = ["Codex runs no hook before you trust it: start codex, write /hooks, and trust those of rbank-es"]
    if isinstance(hooks, dict) and hooks.keys() - {"state"}:
        notes.append(f"{folder / 'config.toml'} has hooks of its own: Codex runs those of both files, and warns")
    return tuple(notes)


def _read(path: Path) -> tuple[Path, bytes | None]:
    """Return the place of a settings file behind links, and its bytes; None for none. Raises `CannotWrite`."""
    place = replaceable(path)
    try:
        data = read_regular(place, limits.SETTINGS_BYTES)
        if not place.stat().st_mode & 0o222:
            raise CannotWrite(str(place), OSError(errno.EACCES, "it is read-only"))
    except (FileNotFoundError, NotADirectoryError):
        return place, None
    except OSError as error:
        raise CannotWrite(str(place), error) from error
    return place, data


def _has_hooks(data: bytes, path: Path) -> bool:
    return bool(hooked_events(_decoded(data, path), str(path)))


def _backup_of(path: Path) -> bytes | None:
    try:
        return read_regular(path.with_name(path.name + BACKUP), limits.SETTINGS_BYTES)
    except (OSError, LimitExceeded):
        return None


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadSettings(str(path), "it is not UTF-8") from None
