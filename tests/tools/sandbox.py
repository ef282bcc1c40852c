"""The sandbox that agents run in (Deno and Pyodide, by dspy), for tests; works offline once its cache is warm."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

IMPORT_MAP = '{"imports": {"https://deno.land/std@0.186.0/io/mod.ts": "./std_io.js"}}'
READ_LINES = """
export async function* readLines(reader) {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of reader.readable) {
    pending += decoder.decode(chunk, { stream: true });
    let at;
    while ((at = pending.indexOf("\\n")) >= 0) {
      yield pending.slice(0, at);
      pending = pending.slice(at + 1);
    }
  }
  if (pending) yield pending;
}
"""
"""The one function that dspy's runner takes from a module on the network."""


def missing() -> str:
    """Why the sandbox can't run here; empty if it can."""
    if find_spec("dspy") is None:
        return "dspy is not installed (pip install 'rbank-es[agent]')"
    return "" if shutil.which("deno") or find_spec("deno") else "deno is not installed (pip install 'rbank-es[agent]')"


@contextmanager
def sandbox(place: Path, tools: dict[str, Callable[..., Any]]) -> Iterator[Callable[[str], str]]:
    """A function that runs Python code in the sandbox and returns what it printed."""
    reason = missing()
    if reason:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    import dspy

    (place / "import_map.json").write_text(IMPORT_MAP)
    (place / "std_io.js").write_text(READ_LINES)
    interpreter = dspy.PythonInterpreter(tools=tools)
    at = interpreter.deno_command.index("run") + 1
    interpreter.deno_command[at:at] = [f"--import-map={place / 'import_map.json'}"]
    try:
        yield lambda code: str(interpreter.execute(code))
    finally:
        interpreter.shutdown()
