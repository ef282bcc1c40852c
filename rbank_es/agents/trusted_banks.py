"""Places of a user that hooks go by: the data directory, and the banks that the user trusts hooks with.

A bank lies in a project's own folder, and a repository that somebody clones may bring one. Its lessons would enter the
prompts of whoever works there. So a bank of a project is used only where the user said so once, by `install --project`:
the list is in the user's own configuration, by the folder of the project and the id of the bank.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rbank_es.limits import hook_limits as limits

_FORM = 1


class HookBank(NamedTuple):
    """The bank of a hook: its place, the id that it must have (empty: any), and a stranger's bank passed over.

    `locator` opens it: the place of a bank on a server leaves out the user and the options of a connection.
    """

    place: str
    id: str
    locator: str
    project: str | None = None
    stranger: str | None = None


def data_folder() -> Path:
    """Return the user's data directory of this program; it need not exist."""
    return _folder("XDG_DATA_HOME", ".local/share")


def config_file() -> Path:
    """Return the file that names the banks of hooks; it need not exist."""
    return _folder("XDG_CONFIG_HOME", ".config") / "hooks.json"


def _folder(variable: str, below: str) -> Path:
    named = os.environ.get(variable, "")
    # As the standard says: a path that isn't absolute is ignored.
    return (Path(named) if Path(named).is_absolute() else Path.home() / below) / "rbank-es"


def user_bank() -> str:
    """Return the place of the bank of all projects that have none."""
    home = os.environ.get("RBANK_HOME")
    return str((Path(home).absolute() if home else data_folder() / "banks") / "coding")


def read_config() -> dict[str, Any]:
    """Return what the user set; empty where there is nothing, or nothing that this user alone can have written."""
    with suppress(OSError, ValueError, RecursionError):
        fd = os.open(config_file(), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            if status.st_uid == os.geteuid() and not status.st_mode & 0o022:
                found = json.loads(file.read(limits.SETTINGS_BYTES))
                if isinstance(found, dict) and found.get("form") == _FORM:
                    return _usable(found)
    return {}


def _usable(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without the entries that name no bank."""
    projects, user = config.get("projects"), config.get("user")
    named = {key: entry for key, entry in projects.items() if _names_bank(entry)} if isinstance(projects, dict) else {}
    return {"projects": named} | ({"user": user} if _names_bank(user) else {})


def _names_bank(entry: object) -> bool:
    place = entry.get("place") if isinstance(entry, dict) else None
    # A name that no file can have raises where it is looked for.
    return isinstance(place, str) and "\0" not in place and not any("\ud800" <= each <= "\udfff" for each in place)


def changed_config(config: dict[str, Any], bank: HookBank) -> bytes:
    """Return the file with another bank: of its project, or without one of the user."""
    project, entry = bank.project, {"place": bank.place, "id": bank.id, "locator": bank.locator}
    projects = dict(config.get("projects", {}))
    if project is not None:
        projects[project] = entry
    user = config.get("user") if project is not None else entry
    made = {"form": _FORM, "projects": projects} | ({"user": user} if user else {})
    return json.dumps(made, indent=1).encode() + b"\n"


def bank_for(cwd: str | None) -> HookBank:
    """Return the bank that a hook in a directory goes by: of the nearest project that is trusted, else the user's."""
    config, stranger = read_config(), None
    projects = config.get("projects", {})
    for folder in _upwards(cwd):
        if (entry := projects.get(folder)) is not None:
            return _hook_bank(entry)._replace(project=folder)
        if stranger is None and os.path.lexists(f"{folder}/.rbank"):
            stranger = f"{folder}/.rbank"
    if (user := config.get("user")) is not None:
        return _hook_bank(user)._replace(stranger=stranger)
    return HookBank(user_bank(), "", user_bank(), stranger=stranger)


def _hook_bank(entry: dict[str, Any]) -> HookBank:
    place, bank_id, locator = (str(entry.get(name) or "") for name in ("place", "id", "locator"))
    return HookBank(place, bank_id, locator or place)


def project_root(cwd: str) -> str:
    """Return the root of the repository that a directory is in, else the directory itself."""
    return _upwards(cwd)[-1]


def _upwards(cwd: str | None) -> list[str]:
    """Return the directories from `cwd` up to the root of its repository; `cwd` alone where it is in none."""
    if not cwd or not cwd.startswith("/"):
        return []
    try:
        folder = Path(os.path.realpath(cwd))
    except ValueError:  # no folder has such a name: it has U+0000, or half a character
        return []
    around = [folder, *folder.parents][: limits.PROJECT_DEPTH]
    for number, each in enumerate(around, start=1):
        if os.path.lexists(each / ".git"):
            return [str(place) for place in around[:number]]
    return [str(folder)]
