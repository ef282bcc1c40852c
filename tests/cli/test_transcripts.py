"""Commands print, refuse and change what their transcripts say: one file a command in `transcripts/`."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.cli.transcript import FOLDER, Scene, played, scenes
from tests.effort import one_in

SCENES = [
    pytest.param(
        scene,
        id=f"{path.stem}: {scene.title.removeprefix('## ')}",
        marks=pytest.mark.slow if scene.title.endswith("(slow)") else (),
    )
    for path in sorted(FOLDER.glob("*.txt"))
    for scene in scenes(path.read_text(encoding="utf-8"))
    if scene.title
]


@pytest.mark.every_case
@pytest.mark.parametrize("scene", one_in(2, SCENES))
def test_a_scene_comes_out_as_it_was_recorded(scene: Scene, tmp_path: Path) -> None:
    """Where it should not: `python -m tests.cli.transcript` records it again, and the difference is reviewed."""
    now = played(scene, tmp_path).splitlines()
    difference = list(unified_diff([scene.title, *scene.lines], now, "recorded", "now", lineterm=""))
    assert not difference, "\n".join(difference)
