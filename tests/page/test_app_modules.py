"""The app's pure parts, tested by node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from rbank_es.page.packed_data import ValuePool
from tests.page.node import MODULES, node

MIXED = [{"a": 1, "b": True}, {"a": 1.0, "b": 1}, {"b": [{"a": 1, "b": True}, None]}, [[1, "a"]], [], {}]
HEAD = [*MIXED, "x" * 200, "one\ntwo\n" * 30]
TAIL = [*HEAD, {"__proto__": {"o": 1}, "l": [1], "t": "two\n" * 60}, [{"n": n, "same": "s"} for n in range(9)]]


@pytest.mark.slow
def test_the_pure_parts_of_the_app(tmp_path: Path) -> None:
    """Addresses, time, lists, words, texts, and values as the exporter packs them: the cases are in `app.test.mjs`."""
    one = ValuePool()
    forms = [one.put(value) for value in HEAD]
    two = ValuePool(one)
    forms += [two.put(value) for value in TAIL]
    packed = {"head": one.packed(), "tail": two.packed(), "forms": forms, "values": [*HEAD, *TAIL]}
    (tmp_path / "packed.json").write_text(json.dumps(packed))
    command = [node(), "--test", "--test-reporter=tap", str(Path(__file__).parent / "app.test.mjs")]
    given = {"MODULES": str(MODULES), "PACKED": str(tmp_path / "packed.json")}
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | given)
    assert done.returncode == 0, done.stdout.decode()
    assert b"# fail 0" in done.stdout
