"""Packages of other people, as tests install them: one module and an entry point, in a folder on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PRELUDE = """
import contextlib, io, json, sys
from rbank_es import Bank
from rbank_es.cli import main

def command(*words):
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:
            code = stop.code
    out.seek(0)
    return [code or 0, out.read() + err.getvalue()]
"""


def install(folder: Path, module: str, source: str) -> None:
    """Install a package of one module, whose function `add` is the plugin."""
    (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[rbank_es.plugins]\n{module} = {module}:add\n")


def run_with(folder: Path | None, program: str, cwd: Path) -> Any:
    """Run Python code in a process that has the packages of a folder (None: none), and return its `result`.

    The code has `Bank`, and `command(*words)`, which returns the exit code and the output of a command line.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"{PRELUDE}\n{program}\nprint(json.dumps(result))"],
        env=os.environ | {"PYTHONPATH": f"{folder or ''}", "COLUMNS": "200"},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
