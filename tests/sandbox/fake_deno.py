"""A stand-in for Deno that starts at once: it speaks as dspy's runner does, and says what a step's code tells it to.

It is a script, run by an interpreter as Deno would be. A step's code runs in it with `say` (write a line), `call` (call
a tool as our function inside does), `outcome` (what is told of the step; a text is sent as it is) and `os`.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

from rbank_es.sandbox.deno import Deno

calls = 0


def fake(place: Path) -> Deno:
    """A runtime whose Deno is this script."""
    executable = place / "deno"
    executable.write_text(f"#!/bin/sh\nexec {sys.executable} -P {Path(__file__).resolve()}\n")
    executable.chmod(0o755)
    runner = place / "runner.js"
    runner.write_text('import pyodide from "npm:pyodide@1.2.3/pyodide.js";')
    package = place / "cache/npm/registry/pyodide/1.2.3/package.json"
    package.parent.mkdir(parents=True, exist_ok=True)
    package.touch()
    return Deno(executable, runner, place / "cache")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def call(name: str, arguments: dict[str, Any]) -> Any:
    global calls
    calls += 1
    params = {"name": name, "kwargs": {"packed": json.dumps(arguments)}}
    say(json.dumps({"jsonrpc": "2.0", "id": f"tc_0_{calls}", "method": "tool_call", "params": params}))
    return json.loads(json.loads(sys.stdin.readline())["result"]["value"])["value"]


def answered(code: str) -> str:
    """What the real one would answer."""
    if "answer(" not in code:
        return "registered"
    asked = json.loads(ast.literal_eval(code[code.index("answer(") + len("answer(") : -1]))
    before = calls
    names: dict[str, Any] = {
        "say": say,
        "call": call,
        "json": json,
        "os": os,
        "sys": sys,
        "outcome": {"kind": "output"},
    }
    exec(asked["code"], names)
    outcome = names["outcome"]
    return outcome if isinstance(outcome, str) else json.dumps({"calls": calls - before} | outcome)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        code = request["params"]["code"]
        output = "ready" if code.endswith("'ready'") else answered(code)
        say(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"output": output}}))


if __name__ == "__main__":
    main()
