"""Writes the real output of commands on the sample bank into the README: `python docs/make_session.py`.

Run it after logs/make_sample.py. Ids of runs are updated first, because they hold a digest of the settings; in
docs/questions.md only they are. Tests compare both documents with what is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rbank_es.bank import Bank
from rbank_es.events import RunStarted

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT, QUESTIONS, SAMPLE = ROOT / "README.md", ROOT / "docs" / "questions.md", ROOT / "logs" / "sample"
COLUMNS = 160
BLOCK = re.compile(r"(?<=^```console\n)(?:\$ rbank-es \w+ sample[@ ].*\n(?:.*\n)*?)(?=^```$)", re.MULTILINE)
RUN = re.compile(r"\b([a-z]+-\w+)-[0-9a-f]{8}-(\d+)\b")


def printed(command: str, folder: Path) -> str:
    """Return the output of a command in a folder, without trailing blanks."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
    environment.pop("RBANK_HOME", None)
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines()) + "\n"


def transcript(block: str, folder: Path) -> str:
    """Return the commands of a block, each with its output."""
    commands = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    return "".join(f"$ {command}\n{printed(command, folder)}" for command in commands)


def renamed(text: str) -> str:
    """Return the text with the present ids of the sample's runs."""
    with Bank.open(SAMPLE) as bank:
        runs = [event.run for event in bank.events(types={"run_started"}) if isinstance(event, RunStarted)]
    now = {tuple(found.groups()): run for run in runs if (found := RUN.fullmatch(run))}
    return RUN.sub(lambda found: now.get(tuple(found.groups()), found[0]), text)


def document() -> str:
    """Return the README with every block of the sample made again."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(SAMPLE, Path(place, "logs", "sample"), ignore=shutil.ignore_patterns("derived", "*lock"))
        text = DOCUMENT.read_text(encoding="utf-8")
        return BLOCK.sub(lambda found: transcript(renamed(found[0]), Path(place)), text)


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
    QUESTIONS.write_text(renamed(QUESTIONS.read_text(encoding="utf-8")), encoding="utf-8")
