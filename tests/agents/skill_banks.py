"""Banks with lessons, and the rules of the files that hosts read: for tests of skills."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rbank_es import Bank, Item
from rbank_es.events import MemoriesExtracted, PolicyChoice, Reliance, RunJudged, RunStarted
from rbank_es.law import AppendV2
from rbank_es.law.decisions import append_decided
from rbank_es.limits import skill_limits
from rbank_es.policies import default_policies

LINE = re.compile(r"- \[(?P<id>[^\]]+)\] (?P<words>.*)")
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
PLUGIN_FIELDS = {"$schema", "name", "version", "description", "author", "homepage", "repository", "license", "keywords"}


def bank_of(items: Iterable[Item], place: str | Path = "memory:", run: str = "r1") -> Bank:
    """A bank that learned these items from a run that was judged a success by a model."""
    others = tuple(each for each in default_policies() if each.kind != "consolidation")
    bank = Bank.create(place, policies=(*others, PolicyChoice(kind="consolidation", name=AppendV2.name, version=2)))
    learn(bank, items, run)
    return bank


def learn(bank: Bank, items: Iterable[Item], run: str) -> None:
    """Let a bank learn items from a run of their own."""
    judged = RunJudged(run=run, purpose="learning", verdict="success", judge="j", judge_version="1", kind="lm")
    bank.append([RunStarted(run=run), judged])
    known = tuple(items)
    for start in range(0, len(known), 100):
        some = known[start : start + 100]
        made = MemoriesExtracted(
            kind="success",
            runs=(run,),
            relied=(Reliance(run=run, verdict="success"),),
            heads=tuple(item.head for item in some),
            candidates=tuple(item.text for item in some),
        )
        append_decided(bank.log, bank.latest, [made])


def lessons(count: int, *, domain: str | None = None, tags: tuple[str, ...] = (), size: int = 12) -> list[Item]:
    """Items with words of their own."""
    words = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "islet", "jetty")
    return [
        Item.make(
            f"{words[n % 10]} {words[n // 10 % 10]} lesson {n}",
            " ".join(f"{words[(n + k) % 10]}{n * k}" for k in range(size)),
            ("success", "failure")[n % 5 == 0],
            domain=domain,
            tags=tags,
        )
        for n in range(count)
    ]


def exported(place: Path) -> dict[str, str]:
    """The files of a place by their paths, without manifests."""
    found = (path for path in sorted(place.rglob("*")) if path.is_file() and not path.name.startswith(".rbank-es-"))
    return {str(path.relative_to(place)): path.read_bytes().decode(errors="replace") for path in found}


def lines_with_ids(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The id and the words of each lesson in files."""
    for text in files.values():
        for line in text.splitlines():
            if found := LINE.fullmatch(line):
                yield found["id"], found["words"]


def check_skill(path: Path) -> None:
    """Hold a SKILL.md to the rules of hosts."""
    text = path.read_text(encoding="utf-8")
    front, body = text.removeprefix("---\n").split("\n---\n", 1)
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert set(fields) <= FIELDS
    assert fields["name"] == path.parent.name
    assert re.fullmatch(r"rbank(-[a-z0-9]+)+", fields["name"]) and len(fields["name"]) <= 64
    # A JSON text of one line is a double-quoted scalar of YAML.
    assert 1 <= len(json.loads(fields["description"])) <= 1_024
    assert len(body.splitlines()) < 500 and len(body.encode()) < 3 * 5_000
    links = re.findall(r"\]\(([^)]+)\)", "\n".join(line for line in body.splitlines() if not LINE.match(line)))
    assert all((path.parent / link).is_file() and link.count("/") == 1 for link in links)


def check_listing(place: Path) -> None:
    """Hold all skills of a place together to what hosts list."""
    paths = sorted(place.rglob("SKILL.md"))
    assert len(paths) <= skill_limits.SKILLS_MOST
    fronts = [path.read_text().split("\n---\n")[0] for path in paths]
    assert sum(map(len, fronts)) <= 8_000
    for path in paths:
        check_skill(path)
