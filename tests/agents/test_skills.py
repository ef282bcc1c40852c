"""Skills: lessons in files that hosts read, within their rules, and taken back when they fall."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbank_es import Item
from rbank_es.agents.skill_export import sync_skills, write_skills
from rbank_es.agents.skill_files import PLUGIN_SCHEMA
from rbank_es.agents.skill_folder import SkillFolder
from rbank_es.errors import BadInput
from rbank_es.limits import skill_limits
from tests.agents.skill_banks import (
    PLUGIN_FIELDS,
    bank_of,
    check_listing,
    exported,
    learn,
    lessons,
    lines_with_ids,
)
from tests.cli_runner import fails, run

ROUNDING = Item.make("Round half up", "Not banker's rounding.", "success", domain="shop")
TWICE = Item.make("Never charge twice", "Look for the receipt first.", "failure", domain="shop")


def test_a_lesson_that_lost_its_support_goes_out_of_every_place(tmp_path: Path) -> None:
    with bank_of([ROUNDING]) as bank:
        learn(bank, [TWICE], "r2")
        write_skills(bank, tmp_path / "a")
        write_skills(bank, tmp_path / "b", form="plugin")
        write_skills(bank, tmp_path / "CLAUDE.md", form="agents-md")
        bank.overrule("r1", "failure", reason="the tests fail")
        report = sync_skills(bank)
        assert [place.left for place in report.places] == [(ROUNDING.id,)] * 3
        left = {id for id, _ in lines_with_ids(exported(tmp_path))}
        assert left == {TWICE.id}
        bank.overrule("r2", "failure", reason="too")
        sync_skills(bank)
        assert set(exported(tmp_path)) == {"CLAUDE.md", "b/plugin.json"}
        assert not list(lines_with_ids(exported(tmp_path)))
        assert not (tmp_path / "a" / "rbank-shop").exists()


def test_an_erased_lesson_goes_out_and_no_word_of_it_stays_in_the_place(tmp_path: Path) -> None:
    with bank_of([ROUNDING, TWICE]) as bank:
        write_skills(bank, tmp_path)
        bank.erase(item=ROUNDING.id, reason="asked for")
        sync_skills(bank)
        text = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
        assert "ound" not in text.replace("rounds", "") and "banker" not in text


def test_a_plugin_has_the_fields_of_the_schema_and_no_hooks(tmp_path: Path) -> None:
    with bank_of([ROUNDING]) as bank:
        write_skills(bank, tmp_path, form="plugin")
        about = json.loads((tmp_path / "plugin.json").read_text())
        assert about["$schema"] == PLUGIN_SCHEMA and set(about) <= PLUGIN_FIELDS
        assert all(isinstance(about[name], str) for name in ("name", "description"))
        assert about["keywords"] == ["rbank"]
        assert set(exported(tmp_path)) == {"plugin.json", "skills/rbank-shop/SKILL.md"}
        check_listing(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("<!-- rbank-es:end -->\n", ""),
        lambda text: text.replace("<!-- rbank-es:begin -->\n", ""),
        lambda text: text + text,
        lambda text: "<!-- rbank-es:end -->\n" + text.replace("<!-- rbank-es:end -->\n", ""),
    ],
    ids=["no end", "no begin", "doubled", "out of order"],
)
def test_damaged_markers_are_refused_and_nothing_is_written(tmp_path: Path, damage: object) -> None:
    file = tmp_path / "AGENTS.md"
    with bank_of([ROUNDING]) as bank:
        write_skills(bank, tmp_path, form="agents-md")
        damaged = damage(file.read_text())  # type: ignore[operator]
        file.write_text(damaged)
        with pytest.raises(BadInput, match="nothing was written"):
            write_skills(bank, tmp_path, form="agents-md")
        [place] = sync_skills(bank).places
        assert place.problem and "rbank-es:begin" in place.problem
        assert file.read_text() == damaged


def test_a_block_and_what_is_beside_it_stay_within_what_codex_reads(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("x" * (skill_limits.AGENTS_FILE_BYTES - 4_000) + "\n")
    with bank_of(lessons(300)) as bank:
        [place] = write_skills(bank, file, form="agents-md").places
        assert file.stat().st_size <= skill_limits.AGENTS_FILE_BYTES
        assert place.lessons > 5 and place.lessons + place.left_out == 300


@pytest.mark.parametrize(("count", "tags"), [(3, 1), (60, 40), (400, 3), (1_000, 1), (1_000, 200)])
def test_any_number_of_lessons_stays_within_what_hosts_list(tmp_path: Path, count: int, tags: int) -> None:
    made = [
        Item.make(each.title, each.content * (1 + n % 9), each.src, domain="shop", tags=(f"topic {n % tags}",))
        for n, each in enumerate(lessons(count))
    ]
    with bank_of(made) as bank:
        [place] = write_skills(bank, tmp_path).places
        assert (place.lessons, place.left_out) == (count, 0)
        assert {id for id, _ in lines_with_ids(exported(tmp_path))} == {item.id for item in made}
        check_listing(tmp_path)
        # Each lesson is whole somewhere: in its skill, or in the reference beside it.
        whole = {words for _, words in lines_with_ids(exported(tmp_path))}
        assert {f"{item.title}. {item.content}" for item in made} <= whole


def test_a_killed_synchronisation_leaves_nothing_that_passes_for_a_persons_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each write in turn; the next one ends as if nobody had been killed."""
    made = lessons(120, domain="shop", size=60)
    left = 0

    def dying(folder: SkillFolder, path: str, data: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        write(folder, path, data)

    write = SkillFolder.write
    with bank_of(made) as bank:
        places = [tmp_path / str(number) for number in range(4)]
        for place in places:
            write_skills(bank, place)
        bank.reject(made[3].id, because="wrong")
        bank.reject(made[77].id, because="wrong")
        write_skills(bank, tmp_path / "fresh")
        for number, place in enumerate(places):
            left = number
            monkeypatch.setattr(SkillFolder, "write", dying)
            with pytest.raises(KeyboardInterrupt):
                sync_skills(bank, place)
            monkeypatch.setattr(SkillFolder, "write", write)
            [report] = sync_skills(bank, place).places
            assert not report.own and not report.taken_out
            assert exported(place) == exported(tmp_path / "fresh")


def test_the_command_shows_a_difference_writes_and_says_what_is_wrong_with_what_was_given(tmp_path: Path) -> None:
    bank_of([ROUNDING], tmp_path / "bank").close()
    bank = "./bank"
    shown = run("skills", bank, "--into", "out", "--dry-run", cwd=tmp_path)
    assert f"+- [{ROUNDING.id}] Round half up" in shown.out and not (tmp_path / "out").exists()
    report = run("skills", bank, "--into", "out", "--json", cwd=tmp_path).json
    assert report["written"] and report["places"][0]["files"] == [
        {"path": "rbank-shop/SKILL.md", "change": "added", "difference": None}
    ]
    run("overrule", bank, "r1", "--failure", "--reason", "tests fail", cwd=tmp_path)
    assert "1 removed" in run("skills", bank, "--sync", cwd=tmp_path).out
    assert exported(tmp_path / "out") == {}
    assert "no skills of bank" in fails("skills", bank, "--sync", "--into", "elsewhere", cwd=tmp_path)
    assert "leave out @1" in fails("skills", f"{bank}@1", "--sync", cwd=tmp_path)
    assert "--into" in fails("skills", bank, cwd=tmp_path)
    assert "inside the bank's own directory" in fails("skills", bank, "--into", "bank", cwd=tmp_path)


def test_a_place_that_is_gone_is_no_problem_for_the_others(tmp_path: Path) -> None:
    with bank_of([ROUNDING]) as bank:
        write_skills(bank, tmp_path / "a")
        write_skills(bank, tmp_path / "b")
        for path in sorted((tmp_path / "a").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (tmp_path / "a").rmdir()
        bank.reject(ROUNDING.id, because="wrong")
        sync_skills(bank)
        assert exported(tmp_path) == {} and not (tmp_path / "a").exists()


def test_two_banks_never_write_over_each_other(tmp_path: Path) -> None:
    with bank_of([ROUNDING]) as one, bank_of([TWICE]) as other:
        write_skills(one, tmp_path)
        before = exported(tmp_path)
        with pytest.raises(BadInput, match="is there already"):
            write_skills(other, tmp_path)
        assert exported(tmp_path) == before


def test_items_for_judges_are_no_lessons(tmp_path: Path) -> None:
    principle = Item.make("Judge by rows", "Not by prose.", "principle")
    with bank_of([ROUNDING, principle]) as bank:
        write_skills(bank, tmp_path)
        assert [id for id, _ in lines_with_ids(exported(tmp_path))] == [ROUNDING.id]
