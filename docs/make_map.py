"""Write docs/house.svg: the rooms on their floors, from the table of docs/architecture.md: `python docs/make_map.py`.

A test compares the picture, so it follows the table, and the table follows the floors.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections import defaultdict
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \| (.+) \|$", re.MULTILINE)
PICTURE = DOCS / "house.svg"

WIDTH, HEIGHT, GAP, LEFT = 1120, 86, 10, 60
"""The picture's width, a floor's height, the space between boxes, and the room for a floor's number, in pixels."""
FIRST_FLOOR_WITH_MODELS = 6
CHARACTER = 6.1
"""The mean width of a character of the small text, in pixels."""


def picture(tour: str) -> str:
    """Return the picture of the table in the text of docs/architecture.md."""
    floors: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for floor, room, about in ROW.findall(tour):
        floors[int(floor)].append((room.removeprefix("rbank_es/").rstrip("/"), _plain(about)))
    top = max(floors)
    height = (top + 1) * (HEIGHT + GAP) + 2 * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        "<title>The rooms of rbank-es: each imports only from the floors below its own</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for floor, rooms in sorted(floors.items(), reverse=True):
        y = GAP + (top - floor) * (HEIGHT + GAP) + (GAP if floor < FIRST_FLOOR_WITH_MODELS else 0)
        parts += [_text(12, y + 52, str(floor), 22, "#888"), *_floor(rooms, y, models=floor >= FIRST_FLOOR_WITH_MODELS)]
    line = GAP + (top - FIRST_FLOOR_WITH_MODELS + 1) * (HEIGHT + GAP)
    parts.append(f'<path d="M0 {line} H{WIDTH}" stroke="#b45309" stroke-dasharray="6 4"/>')
    parts.append(_text(WIDTH - 232, line + 4, "no room below this line calls a model", 11, "#b45309", halo=True))
    return "\n".join([*parts, "</svg>", ""])


def _floor(rooms: list[tuple[str, str]], y: int, *, models: bool) -> list[str]:
    width = (WIDTH - LEFT - GAP) / len(rooms) - GAP
    fill = "#eef2ff" if models else "#ecfdf5"
    parts = []
    for number, (room, about) in enumerate(rooms):
        x = round(LEFT + number * (width + GAP))
        parts.append(
            f'<rect x="{x}" y="{y}" width="{round(width)}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="#94a3b8"/>'
        )
        parts.append(_text(x + 12, y + 24, room, 15, "#111", bold=True))
        wrapped = textwrap.wrap(about, int((width - 20) / CHARACTER), max_lines=3, placeholder=" …")
        parts += [_text(x + 12, y + 44 + 16 * line, words, 12, "#333") for line, words in enumerate(wrapped)]
    return parts


def _text(x: int, y: int, words: str, size: int, colour: str, *, bold: bool = False, halo: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    outline = ' stroke="#fff" stroke-width="6" paint-order="stroke"' if halo else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{weight}{outline}>{html.escape(words)}</text>'


def _plain(about: str) -> str:
    """Return a cell's words without links and marks."""
    shorter = re.sub(r"\s*\((?:\[[^\]]*\]\([^)]*\)(?:, )?)+\)", "", about)  # links in parentheses say where to read on
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", shorter).replace("`", "")


if __name__ == "__main__":
    PICTURE.write_text(picture((DOCS / "architecture.md").read_text(encoding="utf-8")), encoding="utf-8")
