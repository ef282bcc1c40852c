"""The worked example of docs/seams.md, a question in one file: every face has it, in the package and as a plugin."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runner import ROOT, SAMPLE
from tests.plugins import install, run_with

DOCUMENT = (ROOT / "docs" / "seams.md").read_text()
[MODULE] = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.M | re.S)
ADD = """

def add() -> None:
    from rbank_es.answers import QUESTIONS

    QUESTIONS.add("models", QUESTION)
"""
FACES = f"""
sys.path.append({str(ROOT)!r})
from tests.answers.asked import served
place = {str(SAMPLE)!r}
with Bank.open(place) as bank:
    answer = bank.models(least=2)
    python = json.loads(answer.json())
    status, page = served(bank, "models", {{"least": 2}})
    then = bank.at(100).models().position
ask = ["ask", place, "models", "least=2"]
result = dict(
    python=python, page=[status, page], then=then, html=answer._repr_html_(),
    json=json.loads(command(*ask, "--json")[1]), csv=command(*ask, "--csv")[1], table=command(*ask)[1],
    schema=json.loads(command("schema", "--answers", "models")[1]), listed=command("ask", place)[1],
    refused=command("ask", place, "models", "least=0")[1],
)
"""


def check(found: dict[str, Any]) -> None:
    answer = found["python"]
    assert answer["position"] > 100 == found["then"]
    assert sum(row["runs"] for row in answer["rows"]) > 10
    assert all(row["runs"] >= 2 and row["decided"] <= row["runs"] for row in answer["rows"])
    assert any(0 < row["success_rate"] < 1 for row in answer["rows"])
    assert found["json"] == answer and found["page"] == [200, answer]
    header, *rows = csv.reader(found["csv"].splitlines())
    assert header == ["model", "runs", "decided", "success_rate"] and len(rows) == len(answer["rows"])
    assert answer["rows"][0]["model"] in found["table"] and "Models" in found["html"]
    assert found["schema"]["version"] == 1
    fields = found["schema"]["$defs"]["ModelRow"]["properties"]
    assert {name for name, form in fields.items() if "description" in form} == set(header)
    assert "The runs of each model" in found["listed"] and "`least`" in found["refused"]


def test_a_plugin_of_one_file_has_its_question_on_every_face(tmp_path: Path) -> None:
    install(tmp_path, "models_by_success", MODULE + ADD)
    check(run_with(tmp_path, FACES, tmp_path))


@pytest.mark.slow
def test_one_file_in_the_package_has_its_question_on_every_face(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "rbank_es", tmp_path / "rbank_es", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rbank_es" / "answers" / "models.py").write_text(MODULE)
    found = run_with(tmp_path, FACES + "import rbank_es; result['package'] = rbank_es.__file__", tmp_path)
    assert Path(found["package"]).is_relative_to(tmp_path)
    check(found)
