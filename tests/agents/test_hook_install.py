"""Installing the hook by the command line: the change is shown, the bank is made and trusted, and `doctor` tells."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rbank_es import Bank
from rbank_es.agents.prompt_tally import tallied, tally
from rbank_es.agents.spool_intake import take_spool_in
from rbank_es.limits import hook_limits as limits
from tests.agents.hook_banks import LESSON, PROMPT, environment, hooked, live_in, notes, sample, spool, taught, teach
from tests.cli_runner import run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return live_in(monkeypatch, tmp_path)


@pytest.fixture
def repository(home: Path) -> Path:
    place = home / "shop"
    (place / "src" / "deep").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    return place


def command(home: Path, cwd: Path, *arguments: str) -> Any:
    return run(*arguments, "--json", cwd=cwd, env=environment()).json


def prompt(cwd: Path, session: str = "s") -> dict[str, Any]:
    return {**sample("claude-code/UserPromptSubmit"), "session_id": session, "cwd": str(cwd)}


@pytest.mark.slow
def test_a_project_is_installed_and_its_bank_is_found_from_every_folder(home: Path, repository: Path) -> None:
    facts = command(home, repository / "src", "install", "claude-code", "--project", "--yes")
    bank = repository / ".rbank" / "bank"
    assert facts["created"] and facts["changed"] and facts["bank"] == str(bank)
    assert (repository / ".rbank" / ".gitignore").read_text() == "*\n"
    ignored = subprocess.run(["git", "-C", str(repository), "status", "--short"], capture_output=True, check=True)
    assert b".rbank" not in ignored.stdout
    with Bank.open(bank) as opened:
        teach(opened, LESSON)
    assert hooked(prompt(repository / "src" / "deep"))
    assert not hooked(prompt(home, "elsewhere"))
    again = command(home, repository, "install", "claude-code", "--project", "--yes")
    assert not again["changed"] and not again["created"]


def test_the_bank_that_a_clone_brings_is_a_strangers_until_the_user_says_so(home: Path, repository: Path) -> None:
    """Whoever writes the bank of a repository writes into the prompts of all who clone it, if they let him."""
    command(home, home, "install", "claude-code", "--yes")
    taught(repository / ".rbank" / "bank")
    user = home / "data" / "rbank-es" / "banks" / "coding"
    assert hooked(prompt(repository)) == "" and "not trusted" in notes(user)[0]
    said = run("install", "claude-code", "--project", cwd=repository, env=environment(), stdin="n\n", code=None)
    assert said.code != 0 and "1 active item" in said.err + said.out
    assert hooked(prompt(repository, "two")) == ""
    command(home, repository, "install", "claude-code", "--project", "--yes")
    assert LESSON.id in hooked(prompt(repository, "three"))


def test_another_bank_in_the_place_of_a_trusted_one_gives_nothing(home: Path, repository: Path) -> None:
    bank = Path(command(home, repository, "install", "claude-code", "--project", "--yes")["bank"])
    for path in bank.iterdir():
        path.unlink()
    bank.rmdir()
    taught(bank)
    assert hooked(prompt(repository)) == "" and "another bank" in notes(bank)[0]


def test_a_configuration_that_others_can_write_trusts_nobody(home: Path, repository: Path) -> None:
    bank = Path(command(home, repository, "install", "claude-code", "--project", "--yes")["bank"])
    with Bank.open(bank) as opened:
        teach(opened, LESSON)
    (home / "config" / "rbank-es" / "hooks.json").chmod(0o666)
    assert hooked(prompt(repository)) == ""


def test_a_link_in_the_place_of_the_projects_folder_is_refused(home: Path, repository: Path) -> None:
    (home / "elsewhere").mkdir()
    (repository / ".rbank").symlink_to(home / "elsewhere")
    said = run("install", "claude-code", "--project", "--yes", cwd=repository, env=environment(), code=2)
    assert "not a directory" in said.err
    assert list((home / "elsewhere").iterdir()) == []


def test_without_a_yes_nothing_is_changed(home: Path) -> None:
    (home / ".claude").mkdir()
    settings = home / ".claude" / "settings.json"
    settings.write_text("{}\n")
    said = run("install", "claude-code", cwd=home, env=environment(), stdin="n\n", code=None)
    assert said.code != 0 and '+    "SessionStart": [' in said.out and settings.read_text() == "{}\n"
    assert not (home / "config").exists()
    settings.write_text("{\n // mine\n}")
    refused = run("install", "claude-code", "--yes", cwd=home, env=environment(), code=2)
    assert f"{settings}:2: a comment" in refused.err


def test_uninstall_gives_the_bytes_back(home: Path) -> None:
    (home / ".claude").mkdir()
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"model":   "opus"}')
    command(home, home, "install", "claude-code", "--yes")
    assert command(home, home, "uninstall", "claude-code", "--yes")["changed"]
    assert settings.read_text() == '{"model":   "opus"}'
    assert not command(home, home, "uninstall", "claude-code", "--yes")["changed"]


@pytest.mark.slow
def test_doctor_tells_what_is_installed_what_ran_and_whether_the_lesson_arrived(home: Path, repository: Path) -> None:
    def checks() -> dict[str, Any]:
        said = run("doctor", "--hooks", "--json", cwd=repository, env=environment(), code=None)
        return {check["name"]: check for check in said.json["checks"]}

    assert not checks()["installed"]["ok"] and not checks()["last run"]["ok"]
    bank = Path(command(home, repository, "install", "claude-code", "--project", "--yes")["bank"])
    with Bank.open(bank) as opened:
        teach(opened, LESSON)
    transcript = home / "session.jsonl"
    transcript.write_text("{}\n")
    assert hooked({**prompt(repository), "transcript_path": str(transcript)})
    found = checks()
    assert found["installed claude-code --project"]["ok"] and found["bank"]["ok"] and found["last run"]["ok"]
    assert not found["delivery"]["ok"]
    transcript.write_text(spool(bank).look()[-1]["text"])
    assert checks()["delivery"]["ok"]
    assert sample("claude-code/UserPromptSubmit")["prompt"] == PROMPT


@pytest.mark.slow
def test_doctor_says_that_the_last_prompt_got_no_answer_and_why(home: Path, repository: Path) -> None:
    command(home, repository, "install", "claude-code", "--project", "--yes")
    [bank] = repository.glob(".rbank/bank")
    made = spool(bank).append({"kind": "prompt", "prompt": PROMPT})
    spool(bank).append({"kind": "note", "of": made, "why": "late: the time of a hook was over"})
    said = run("doctor", "--hooks", "--json", cwd=repository, env=environment(), code=None)
    [check] = [check for check in said.json["checks"] if check["name"] == "last run"]
    assert not check["ok"] and "late" in check["detail"] and "busy" in check["fix"]


def checked(home: Path, repository: Path, name: str) -> dict[str, Any]:
    said = run("doctor", "--hooks", "--json", cwd=repository, env=environment(), code=None)
    [check] = [check for check in said.json["checks"] if check["name"] == name]
    return dict(check)


@pytest.mark.slow
def test_doctor_counts_the_lessons_of_the_bank_and_warns_of_an_empty_one(home: Path, repository: Path) -> None:
    bank = Path(command(home, repository, "install", "claude-code", "--project", "--yes")["bank"])
    empty = checked(home, repository, "bank")
    assert empty["ok"] and "0 active lessons" in empty["detail"] and "rbank-es import" in empty["fix"]
    said = run("doctor", "--hooks", cwd=repository, env=environment(), code=None).out
    assert "warns   bank" in said and "to fix: fill it" in said
    with Bank.open(bank) as opened:
        teach(opened, LESSON)
    full = checked(home, repository, "bank")
    assert full["ok"] and "1 active lesson" in full["detail"] and not full["fix"]


def test_doctor_counts_late_prompts_though_the_spool_was_taken_in(home: Path, repository: Path) -> None:
    bank = Path(command(home, repository, "install", "claude-code", "--project", "--yes")["bank"])
    with Bank.open(bank) as opened:
        teach(opened, LESSON)
    for number in range(3):
        assert hooked(prompt(repository, f"s{number}"))
        hooked({**sample("claude-code/Stop"), "session_id": f"s{number}", "cwd": str(repository)})
    late = {"kind": "note", "why": "late: the time of a hook was over"}
    spool(bank).append(late | {"of": spool(bank).append({"kind": "prompt", "prompt": PROMPT})})
    with Bank.open(bank) as opened:
        assert take_spool_in(opened).turns == 3
    assert not [line for line in spool(bank).look() if line.get("of")]
    check = checked(home, repository, "prompts")
    assert check["ok"] and "of the last 4 prompts, 3 were given a lesson, 0 fitted none, 1 had a" in check["detail"]
    spool(bank).append(late | {"of": "another"})
    check = checked(home, repository, "prompts")
    assert not check["ok"] and "of the last 5 prompts" in check["detail"] and "busy" in check["fix"]


def test_a_tally_is_bounded_owner_only_and_believes_no_other_letters(tmp_path: Path) -> None:
    tally(tmp_path, "g" * 80)
    tally(tmp_path, "l" * 80)
    assert tallied(tmp_path) == "g" * (limits.TALLY_PROMPTS - 80) + "l" * 80
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(b"g\xff{}l")
    assert tallied(tmp_path) == "gl"
    file.write_bytes(b"g" * 1_000)
    assert tallied(tmp_path) == ""


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_doctor_says_that_hooks_are_turned_off(home: Path, repository: Path, name: str) -> None:
    command(home, repository, "install", "claude-code", "--project", "--yes")
    path = repository / ".claude" / name
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(settings | {"disableAllHooks": True}))
    check = checked(home, repository, "turned off")
    assert not check["ok"] and str(path) in check["fix"]


def test_doctor_says_what_codex_does_not_trust(home: Path) -> None:
    def trusted() -> dict[str, Any]:
        said = run("doctor", "--hooks", "--json", cwd=home, env=environment(), code=None)
        found: dict[str, Any] = next(check for check in said.json["checks"] if check["name"] == "trusted")
        return found

    command(home, home, "install", "codex", "--yes")
    assert not trusted()["ok"] and "runs nothing untrusted" in trusted()["detail"]
    hooks = home / ".codex" / "hooks.json"
    events = json.loads(hooks.read_text())["hooks"]
    state = "".join(f'[hooks.state."{hooks}:{event}:0:0"]\ntrusted_hash = "x"\n' for event in events)
    (home / ".codex" / "config.toml").write_text(state)
    assert trusted()["ok"]
