"""What people write into exported files and remove there: kept, shown, offered as items, never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbank_es import Bank, Item
from rbank_es.agents.skill_export import SkillPlace, sync_skills, write_skills
from tests.agents.skill_banks import bank_of, check_skill, exported, learn, lines_with_ids
from tests.cli_runner import run

ROUNDING = Item.make("Round half up", "Not banker's rounding.", "success", domain="shop")
RECEIPTS = Item.make("Look for the receipt first", "It has the number.", "success", domain="shop")
TWICE = Item.make("Never charge twice", "Customers complain.", "failure", domain="shop")
LATER = Item.make("Weigh parcels before posting", "Tariffs go by grams.", "success", domain="shop")


@pytest.fixture
def bank() -> Bank:
    made = bank_of([ROUNDING])
    learn(made, [RECEIPTS], "r2")
    learn(made, [TWICE], "r3")
    return made


@pytest.fixture
def skill(bank: Bank, tmp_path: Path) -> Path:
    write_skills(bank, tmp_path)
    return tmp_path / "rbank-shop" / "SKILL.md"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def synced(bank: Bank, path: Path, **how: object) -> SkillPlace:
    """Synchronise twice: the second time changes nothing."""
    [place] = sync_skills(bank, path.parents[1], **how).places  # type: ignore[arg-type]
    before = exported(path.parents[1])
    [again] = sync_skills(bank, path.parents[1]).places
    assert exported(path.parents[1]) == before and {file.change for file in again.files} <= {"same", "kept"}
    return place


def line_of(item: Item) -> str:
    return f"- [{item.id}] {item.title}. {item.content}"


def test_a_reworded_lesson_stays_reworded_and_is_marked_once_the_bank_has_it_no_more(bank: Bank, skill: Path) -> None:
    edit(skill, line_of(ROUNDING), f"- [{ROUNDING.id}] Round half up, but francs to five cents.")
    place = synced(bank, skill)
    assert place.taken_out == (ROUNDING.id,) and place.own[0].item == ROUNDING.id
    assert skill.read_text().count(ROUNDING.id) == 1
    bank.reject(ROUNDING.id, because="wrong")
    synced(bank, skill)
    text = skill.read_text()
    assert f"<!-- rbank-es: [{ROUNDING.id}] is not active in the bank; the next line is a person's -->\n- [" in text
    assert line_of(ROUNDING) not in text


def test_front_matter_of_a_person_replaces_ours_and_stays_valid(bank: Bank, skill: Path) -> None:
    lines = skill.read_text().splitlines()
    lines[2] = 'description: "Money in our shop."'
    lines.insert(3, "license: MIT")
    skill.write_text("\n".join(lines) + "\n")
    learn(bank, [LATER], "r4")
    place = synced(bank, skill)
    assert skill.read_text().splitlines()[:5] == [*lines[:4], "---"]
    assert not any(own.offered for own in place.own)
    check_skill(skill)


def test_line_ends_of_another_system_and_a_byte_order_mark_are_no_edits(bank: Bank, skill: Path) -> None:
    before = skill.read_bytes()
    skill.write_bytes(b"\xef\xbb\xbf" + before.replace(b"\n", b"\r\n"))
    place = synced(bank, skill)
    assert skill.read_bytes() == before and not place.own and not place.taken_out


def test_a_file_that_is_no_text_any_more_is_left_alone_and_reported(bank: Bank, skill: Path) -> None:
    skill.write_bytes(b"\xff\xfe\x00")
    place = synced(bank, skill)
    assert [file.change for file in place.files] == ["kept"] and skill.read_bytes() == b"\xff\xfe\x00"


def test_an_empty_line_before_a_marked_line_is_neither_lost_nor_doubled(bank: Bank, skill: Path) -> None:
    edit(skill, line_of(ROUNDING), line_of(ROUNDING) + "\n- Ask Ann.\n\n- [gone] An old one.")
    synced(bank, skill)
    assert "- Ask Ann.\n\n<!-- rbank-es: [gone] is" in skill.read_text()


def test_an_adopted_rewording_takes_the_place_of_the_lesson(bank: Bank, skill: Path) -> None:
    edit(skill, line_of(ROUNDING), f"- [{ROUNDING.id}] Round half up. But francs to five cents.")
    synced(bank, skill, adopt=True)
    state = bank.state()
    [made] = [entry.item for entry in state.items.values() if "francs" in entry.item.content]
    assert state.items[made.id].state == "active" and state.items[ROUNDING.id].state == "withdrawn"
    text = skill.read_text()
    assert line_of(made) in text and ROUNDING.id not in text


def test_words_that_somebody_rejected_are_not_adopted_and_stay_a_persons(bank: Bank, skill: Path) -> None:
    bank.reject(ROUNDING.id, because="francs are rounded to five cents")
    sync_skills(bank)
    skill.write_text(skill.read_text() + "- Round half up. Not banker's rounding.\n")
    place = synced(bank, skill, adopt=True)
    [own] = place.own
    assert own.adopted_as is None and "rejected" in own.because
    assert "- Round half up. Not banker's rounding.\n" in skill.read_text()


def test_the_command_shows_a_persons_words_and_adopts_them(tmp_path: Path) -> None:
    bank_of([ROUNDING], tmp_path / "bank").close()
    run("skills", "./bank", "--into", "out", cwd=tmp_path)
    skill = tmp_path / "out" / "rbank-shop" / "SKILL.md"
    skill.write_text(skill.read_text() + "- Ask Ann about francs.\n")
    shown = run("skills", "./bank", "--sync", cwd=tmp_path).out
    assert "a person's words stay; --adopt makes an item of them: Ask Ann about francs." in " ".join(shown.split())
    run("skills", "./bank", "--sync", "--adopt", "--by", "ann", cwd=tmp_path)
    assert any(words == "Ask Ann about francs" for _, words in lines_with_ids(exported(tmp_path / "out")))
