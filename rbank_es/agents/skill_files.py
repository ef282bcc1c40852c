"""The files of skills, as lines: SKILL.md folders, a block of AGENTS.md, an Agent Plugin.

Pure, and the same for the same items in whatever order they came.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

from rbank_es.agents.skill_groups import PREFIX, Skill, grouped, slug
from rbank_es.agents.skill_lines import BLANK, FRAME, SkillLesson, SkillLine, lesson_lines, sections
from rbank_es.limits import skill_limits
from rbank_es.policies.packed_text import counted
from rbank_es.policies.words import STOP_WORDS, words_of

SkillForm = Literal["skill", "agents-md", "plugin"]
SKILL_FORMS: tuple[SkillForm, ...] = get_args(SkillForm)

SKILL, REFERENCE, PLUGIN = "SKILL.md", "references/lessons.md", "plugin.json"
PLUGIN_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
BEGIN, END = "<!-- rbank-es:begin -->", "<!-- rbank-es:end -->"
FRONT_END = "front:end"
"""The key of the line that ends the front matter; the keys of all lines in it begin so, too."""

Files = dict[str, list[SkillLine]]


def files_of(
    lessons: Sequence[SkillLesson], form: SkillForm, label: str, *, target: str = "", room_bytes: int = 0
) -> Files:
    """Return the lines of each file by its path in the place.

    `label` names the bank. Of agents-md there is one file, `target`, whose lines are the block in at most `room_bytes`.
    """
    if form == "agents-md":
        return {target: list(_block(lessons, room_bytes))}
    skills = grouped(lessons, label)
    folder = "skills/" if form == "plugin" else ""
    files: Files = {PLUGIN: list(_plugin(label))} if form == "plugin" else {}
    for skill in skills:
        files |= {f"{folder}{skill.name}/{path}": lines for path, lines in _skill(skill, label).items()}
    return files


# ---------------------------------------------------------------- SKILL.md


def _skill(skill: Skill, label: str) -> Files:
    shown = lesson_lines(skill.lessons, skill_limits.SKILL_BODY_BYTES)
    cut = [each for each in skill.lessons if shown[each.item.id] != each.line]
    about = ", ".join(slug(word) for word in (skill.domain or label, skill.topic) if word)
    lines = [
        *front_matter(skill.name, _description(skill, about)),
        SkillLine(f"# Lessons: {about}", "title"),
        BLANK,
        SkillLine(FRAME, "frame"),
    ]
    if cut:
        whole = f"Lessons that end in … are whole in [{REFERENCE}]({REFERENCE})."
        lines += [BLANK, SkillLine(whole, "reference")]
    files = {SKILL: [*lines, *sections(skill.lessons, shown)]}
    if cut:
        in_full = lesson_lines(cut, skill_limits.SKILL_REFERENCE_BYTES)
        files[REFERENCE] = [SkillLine(f"# Lessons in full: {about}", "title"), *sections(cut, in_full)]
    return files


def front_matter(name: str, description: str) -> Iterator[SkillLine]:
    """Yield the lines of the front matter of a SKILL.md, and a blank one."""
    yield SkillLine("---", "front:begin")
    yield SkillLine(f"name: {name}", "front:name")
    # Quoted, because a colon or a hash in plain YAML begins something else.
    yield SkillLine(f"description: {json.dumps(description, ensure_ascii=False)}", "front:description")
    yield from (SkillLine("---", FRONT_END), BLANK)


def _description(skill: Skill, about: str) -> str:
    """Return what a skill is about in words of titles, the most frequent first.

    Single words: hosts show descriptions unasked, and a sentence there would outlive its lesson and be obeyed.
    """
    lessons = counted(len(skill.lessons), "lesson")
    begin = f"{lessons} from recorded runs about {about}. Read before work that touches: "
    room = skill_limits.SKILL_DESCRIPTION_CHARS - len(begin)
    kept: list[str] = []
    for word in _frequent(each.item.title for each in skill.lessons):
        room -= len(word) + 2
        if room >= 0:
            kept.append(word)
    return begin + (", ".join(kept) or about)


def _frequent(titles: Iterable[str]) -> list[str]:
    found = Counter[str]()
    for title in titles:
        found.update(
            word[: skill_limits.SKILL_WORD_CHARS]
            for word in set(words_of(title)) - STOP_WORDS["english-1"]
            if len(word) > 1
        )
    return sorted(found, key=lambda word: (-found[word], word))[: skill_limits.SKILL_WORDS]


# ---------------------------------------------------------------- AGENTS.md, plugin.json


def _block(lessons: Sequence[SkillLesson], room_bytes: int) -> Iterator[SkillLine]:
    """Yield the lines of the block, its markers included: the best supported lessons that fit."""
    frame = [
        SkillLine(BEGIN, "begin"),
        SkillLine("## Lessons of earlier runs", "title"),
        BLANK,
        SkillLine(FRAME, "frame"),
    ]
    room = room_bytes - skill_limits.SKILL_LESSON_BYTES - sum(len(each.text) + 1 for each in frame)
    shown: dict[str, str] = {}
    for each in lessons:
        line = lesson_lines([each], skill_limits.SKILL_LESSON_BYTES)[each.item.id]
        room -= len(line.encode()) + 1
        if room < 0:
            break
        shown[each.item.id] = line
    yield from (*frame, *sections(lessons, shown, "###"), SkillLine(END, "end"))


def _plugin(label: str) -> Iterator[SkillLine]:
    about = {
        "$schema": PLUGIN_SCHEMA,
        "name": f"{PREFIX}-{slug(label)[: skill_limits.SKILL_LABEL_CHARS].strip('-')}",
        "description": f"Lessons of earlier runs, from the bank {slug(label)}",
        "keywords": [PREFIX],
    }
    for line in json.dumps(about, indent=1).splitlines():
        yield SkillLine(line, line.strip())
