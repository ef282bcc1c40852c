"""Settings files of coding agents: our hooks come in and go out, and no byte of anybody else's changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.agents import hook_install
from rbank_es.agents.host_settings import (
    COMMAND,
    EVENTS,
    BadSettings,
    Host,
    hooked_events,
    moved_events,
    with_hooks,
    without_hooks,
)
from rbank_es.errors import BadInput, CannotWrite
from tests.agents.hook_banks import live_in

OTHER = {"hooks": [{"type": "command", "command": "say done", "timeout": 5}]}
VALUES: dict[str, Any] = {
    "empty object": {},
    "no hooks": {"model": "opus"},
    "empty hooks": {"hooks": {}},
    "empty list": {"hooks": {"Stop": []}},
    "others": {"hooks": {"Stop": [OTHER]}},
    "two others": {"hooks": {"Stop": [OTHER, OTHER], "SessionEnd": [OTHER]}},
    "another event": {"hooks": {"PreToolUse": [{"matcher": "Bash", **OTHER}]}, "zeal": True},
    "others of all": {"hooks": {name: [OTHER] for name in EVENTS["claude-code"]}},
    "hooks first": {"hooks": {"Stop": [OTHER]}, "permissions": {"allow": ["Bash(git *)"]}},
    "deep": {"a": {"b": [[{"c": [1, 2.50, -1e9, None, False]}]]}, "hooks": {}},
    "odd words": {"ä\u2028\U0001f600": '"hooks": {', "hooks": {"Stop": [OTHER]}, "end": "}]"},
}
LAYOUTS = {
    "compact": lambda value: json.dumps(value, separators=(",", ":")),
    "spaced": json.dumps,
    "one": lambda value: json.dumps(value, indent=1) + "\n",
    "two": lambda value: json.dumps(value, indent=2, ensure_ascii=False) + "\n",
    "four, no end": lambda value: json.dumps(value, indent=4),
    "tabs": lambda value: json.dumps(value, indent="\t") + "\n\n",
    "CRLF": lambda value: json.dumps(value, indent=2).replace("\n", "\r\n") + "\r\n",
    "mark": lambda value: "\ufeff" + json.dumps(value, indent=2) + "\n",
}
SHAPES = {f"{name}, {layout}": make(value) for name, value in VALUES.items() for layout, make in LAYOUTS.items()}
SHAPES |= {
    "nothing": "",
    "spaces": " \n",
    "a mark alone": "\ufeff",
    "loose": ' {\t"hooks" :{ "Stop":[ ] , "x" : [] }} ',
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(monkeypatch, tmp_path)


def at(home: Path, text: str | None, host: Host = "claude-code") -> Path:
    path = home / (".claude/settings.json" if host == "claude-code" else ".codex/hooks.json")
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text.encode())
    return path


def installed(host: Host = "claude-code") -> None:
    hook_install.apply_change(hook_install.planned_install(host, None))


def uninstalled(host: Host = "claude-code") -> None:
    hook_install.apply_change(hook_install.planned_uninstall(host, None))


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_every_shape_is_installed_and_uninstalled_to_the_byte(home: Path, host: Host) -> None:
    for name, text in SHAPES.items():
        path = at(home, text, host)
        installed(host)
        settings = json.loads(path.read_bytes().decode("utf-8-sig"))
        for event in EVENTS[host]:
            assert settings["hooks"][event][-1]["hooks"][0]["command"] == COMMAND, name
        uninstalled(host)
        assert path.read_bytes() == text.encode(), name
        assert [each.name for each in path.parent.iterdir()] == [path.name], name


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(), some, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), _JSON, max_size=4), st.booleans(), st.sampled_from(sorted(LAYOUTS)))
def test_any_settings_keep_their_bytes_around_ours(values: dict[str, Any], hooks: bool, layout: str) -> None:
    values.pop("hooks", None)
    text = LAYOUTS[layout](values | ({"hooks": {"Stop": [OTHER]}} if hooks else {}))
    made = with_hooks(text, "claude-code", "x")
    assert hooked_events(made, "x").keys() == EVENTS["claude-code"].keys()
    assert without_hooks(made, "x") == text or not values and not hooks


BROKEN = {
    "a comment": ('{\n  // mine\n  "model": "opus"\n}', "comment", 2),
    "a block comment": ('{"a": 1}\n/* end */', "comment", 2),
    "a trailing comma": ('{\n "a": 1,\n}', "comma", 2),
    "half": ('{"hooks": {', "not JSON", 1),
    "a list": ("[]", "no JSON object", None),
    "twice": ('{"hooks": {}, "hooks": {}}', "twice", None),
    "hooks of a wrong form": ('{"hooks": []}', "not lists", None),
    "an event of a wrong form": ('{"hooks": {"Stop": {}}}', "not lists", None),
    "NaN": ('{"a": NaN}', "NaN", None),
    "too deep": ("[" * 100_000, "nested", None),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_the_host_would_not_read_is_refused_with_its_line_and_left_as_it_is(home: Path, name: str) -> None:
    text, reason, line = BROKEN[name]
    path = at(home, text)
    for planned in (hook_install.planned_install, hook_install.planned_uninstall):
        with pytest.raises(BadSettings, match=reason) as refused:
            planned("claude-code", None)
        assert line is None or abs((refused.value.line or 0) - line) <= 1
    assert path.read_text() == text


def test_a_missing_file_is_made_and_removed_again(home: Path) -> None:
    path = at(home, None)
    installed()
    assert path.stat().st_mode & 0o777 == 0o600
    uninstalled()
    assert not path.exists() and not list(path.parent.iterdir())


def test_a_read_only_file_is_refused(home: Path) -> None:
    path = at(home, "{}")
    path.chmod(0o444)
    with pytest.raises(CannotWrite, match="read-only"):
        hook_install.planned_install("claude-code", None)


def test_a_change_by_another_program_in_between_stays(home: Path) -> None:
    path = at(home, "{}")
    change = hook_install.planned_install("claude-code", None)
    path.write_text('{"model": "haiku"}')
    with pytest.raises(BadInput, match="meanwhile"):
        hook_install.apply_change(change)
    assert path.read_text() == '{"model": "haiku"}'


def test_a_removal_that_moves_hooks_of_others_in_codex_is_said(home: Path) -> None:
    path = at(home, "{}", "codex")
    installed("codex")
    settings = json.loads(path.read_text())
    settings["hooks"]["Stop"].append(OTHER)
    path.write_text(json.dumps(settings))
    assert moved_events(path.read_text(), "x") == ["Stop"]
    (note,) = hook_install.planned_uninstall("codex", None).notes
    assert note.startswith("Stop:") and "trusted again in /hooks" in note


def test_codex_settings_in_toml_are_read_and_never_written(home: Path) -> None:
    at(home, None, "codex")
    toml = home / ".codex" / "config.toml"
    toml.write_text('# mine\nmodel = "x"\n[[hooks.Stop]]\n')
    change = hook_install.planned_install("codex", None)
    assert any("hooks of its own" in note for note in change.notes)
    hook_install.apply_change(change)
    assert toml.read_text() == '# mine\nmodel = "x"\n[[hooks.Stop]]\n'
    toml.write_text("model = \n")
    with pytest.raises(BadSettings, match="line 1"):
        hook_install.planned_install("codex", None)
