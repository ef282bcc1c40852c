"""The site of the documents: it builds without a warning, and its page of errors has every error with its exit code.

The picture of the rooms is that of their table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import rbank_es
from rbank_es.errors import RBankError

ROOT = Path(__file__).resolve().parent.parent
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ELSEWHERE = ("rbank_es.agents.host_settings", "rbank_es.log.writer_errors", "rbank_es.page.http_request")
"""Modules with errors that only they raise; a base without a cause of its own has no section."""
BASES = {"BadInput", "LogError", "ProjectionError"}


def _errors(parent: type[RBankError] = RBankError) -> dict[str, type[RBankError]]:
    found: dict[str, type[RBankError]] = {}
    for each in parent.__subclasses__():
        if each.__module__.startswith("rbank_es.") and not each.__name__.startswith("_"):
            found |= {each.__name__: each} | _errors(each)
    return found


def test_every_error_that_users_meet_has_its_cause_and_cure_with_the_exit_code_that_it_has() -> None:
    for module in ELSEWHERE:
        import_module(module)
    defined = re.findall(r"^class (\w+)\((?:\w+)\):", (ROOT / "rbank_es" / "errors.py").read_text(), re.MULTILINE)
    elsewhere = {name for name, each in _errors().items() if each.__module__ in ELSEWHERE}
    known = {name: each for name, each in _errors().items() if name in {*defined, *elsewhere} - BASES}
    told: dict[str, int] = {}
    for part in re.split(r"^## ", ERRORS, flags=re.MULTILINE)[1:]:
        common = re.match(r".*: exit code (\d)", part)
        for section in re.split(r"^### ", part, flags=re.MULTILINE)[1:]:
            assert "*Cause*: " in section and "*Cure*:" in section, section
            code = re.search(r"^Exit code (\d)", section, re.MULTILINE) or common
            assert code, section
            told[section.split()[0]] = int(code[1])
    assert told == {name: each.exit_code for name, each in known.items()}


def test_the_picture_of_the_rooms_is_made_of_the_table_of_the_architecture() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "import make_map; print(make_map.picture(open('architecture.md').read()), end='')"],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == (ROOT / "docs" / "house.svg").read_text(encoding="utf-8"), "run: python docs/make_map.py"


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_has_the_reference_of_every_public_name(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": ""},
        timeout=110,
    )
    assert built.returncode == 0 and not built.stdout + built.stderr, built.stdout + built.stderr
    reference = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    for value in (getattr(rbank_es, name) for name in rbank_es.__all__ if name != "__version__"):
        assert f'id="{value.__module__}.{value.__qualname__}"' in reference
