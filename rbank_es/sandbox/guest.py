"""The guest: the module inside the sandbox that runs one step's code and returns the outcome as JSON.

The text of this file is sent into the sandbox and becomes a module there, so it imports nothing of this project.
The agent's code runs in a separate namespace, because dspy's runner resets its own before each
step. Whatever that code raises, prints, submits or evaluates to becomes plain data of bounded size: the runner never
sees an exception that it can't encode, and output before an error is kept.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import inspect
import io
import json
import math
import os
import signal
import sys
import traceback
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

LIMITS: dict[str, int] = {}
"""Limits by name, set by the host, because nothing here can import `rbank_es.limits`."""


class Submitted(BaseException):
    """A call of SUBMIT. Not an `Exception`, because `except Exception` in a step must not catch it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__()
        self.fields = fields


class PrintedTooMuch(Exception):
    """A step that prints more than its limit."""


class Printed(io.TextIOBase):
    """Standard output of one step: keeps head and tail, counts all characters, and raises beyond a limit."""

    def __init__(self, kept_chars: int, most_chars: int) -> None:
        self.chars = 0
        self._half = kept_chars // 2
        self._most = most_chars
        self._head: list[str] = []
        self._tail: list[str] = []
        self._head_chars = self._tail_chars = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Keep what fits. Raises `PrintedTooMuch`."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self.chars > self._most:
            raise PrintedTooMuch(f"more than {self._most:,} characters were printed in one step; print less")
        self.chars += len(text)
        room = self._half - self._head_chars
        if room > 0:
            self._head.append(text[:room])
            self._head_chars += len(self._head[-1])
        self._keep_end(text[max(0, room) :])
        return len(text)

    def _keep_end(self, text: str) -> None:
        if not text:
            return
        self._tail.append(text[-self._half :])
        self._tail_chars += len(self._tail[-1])
        if self._tail_chars > 8 * self._half:
            self._tail = ["".join(self._tail)[-self._half :]]
            self._tail_chars = self._half

    def kept(self) -> str:
        """Return head and tail, with the number of characters left out between them."""
        tail = "".join(self._tail)[-self._half :]
        left_out = self.chars - self._head_chars - len(tail)
        return "".join(self._head) + (gap(left_out) if left_out else "") + tail


def open_signal_sockets() -> None:
    """Make Deno open its signal sockets now: in the confined session it can't, and would exit."""
    import js  # type: ignore[import-not-found]

    js.eval("{ const f = () => {}; Deno.addSignalListener('SIGWINCH', f); Deno.removeSignalListener('SIGWINCH', f) }")


def end_step(*_: object) -> NoReturn:
    """End the step, as the replacement of functions that end a process."""
    raise SystemExit


def refuse_process(command: object) -> NoReturn:
    """Raise OSError, as `subprocess` does in Pyodide."""
    raise OSError(f"there are no processes here; {display_text(command)} was not run")


def gap(chars: int) -> str:
    """Return the line that replaces omitted text."""
    return f"\n... {chars:,} characters left out ...\n"


def truncate(text: str, most_chars: int) -> str:
    """Return the text, or its head and tail with a gap between them."""
    if len(text) <= most_chars:
        return text
    half = most_chars // 2
    return text[:half] + gap(len(text) - 2 * half) + text[-half:]


def encodable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 can't encode."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def display_text(value: Any) -> str:
    """Return the repr of any value, even of one whose `__repr__` raises."""
    try:
        return str(plain(value)) if type(value) is int else repr(value)
    except BaseException as error:
        return f"<{type(value).__name__}: its text can't be made ({type(error).__name__})>"


def plain(value: Any, depth: int = 0, room: Iterator[int] | None = None) -> Any:
    """Return the value as plain JSON data. Unknown types become text; sets are sorted, because their order is random.

    Raises ValueError for a value that holds more than LIMITS['values'] others; `room` counts them down.
    """
    room = iter(range(LIMITS["values"])) if room is None else room
    if next(room, None) is None:
        raise ValueError(f"a value holds more than {LIMITS['values']:,} others, or itself; pass on less")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int):
        bits = value.bit_length()
        return int(value) if bits <= LIMITS["integer_bits"] else f"<integer of {bits:,} bits>"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth >= LIMITS["depth"]:
        return f"<{type(value).__name__}, nested too deep>"
    return plain_container(value, depth + 1, room)


def plain_container(value: Any, depth: int, room: Iterator[int]) -> Any:
    """Return a container, or a value of an unknown type, as plain JSON data."""
    named = getattr(value, "_asdict", None)
    if isinstance(value, tuple) and named is not None:
        value = named()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {_key_text(key): plain(each, depth, room) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=display_text)
    if isinstance(value, list | tuple):
        return [plain(each, depth, room) for each in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if type(value).__name__ in ("JsNull", "JsUndefined"):
        return None
    return encodable(display_text(value))


def _key_text(key: Any) -> str:
    return encodable(key) if isinstance(key, str) else encodable(display_text(key))


def size_chars(value: Any) -> int:
    """Return about how many characters a value has as text, counting up to LIMITS['counted'] elements."""
    chars, queue, seen, most = 0, [value], 0, LIMITS["counted"]
    while queue and seen < most:
        each = queue.pop()
        seen += 1
        if isinstance(each, str | bytes | bytearray):
            chars += len(each)
        elif isinstance(each, dict):
            queue += _first(each.keys(), most)
            queue += _first(each.values(), most)
        elif isinstance(each, list | tuple | set | frozenset):
            queue += _first(each, most)
        elif isinstance(each, int | float | None):
            chars += len(display_text(plain(each)))
        else:
            chars += len(type(each).__name__)
    return chars


def measured(name: Any, value: Any) -> tuple[str, int]:
    """Return type and size of a variable; an empty type for functions, modules, private names, and on errors."""
    try:
        if name.startswith("_") or isinstance(value, types.ModuleType) or callable(value):
            return "", 0
        return str(type(value).__name__), size_chars(value)
    except BaseException:
        return "", 0


def _first(values: Iterable[Any], most: int) -> Iterator[Any]:
    return (each for each, _ in zip(values, range(most), strict=False))


class Default:
    """A default value of a host function, known here by its source text only."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def signature_of(parameters: list[dict[str, str]]) -> inspect.Signature:
    """Return the signature of a host function from its parameters' names, kinds and defaults."""
    made = []
    for each in parameters:
        default = Default(each["default"]) if "default" in each else inspect.Parameter.empty
        kind = inspect._ParameterKind[each["kind"]]
        made.append(inspect.Parameter(each["name"], kind, default=default))
    return inspect.Signature(made)


def function_of(
    name: str, doc: str, parameters: list[dict[str, str]], action: Callable[[dict[str, Any]], Any]
) -> Callable[..., Any]:
    """Return a function that binds its arguments to the parameters, and passes them on by name."""
    signature = signature_of(parameters)

    def call(*given: Any, **named: Any) -> Any:
        try:
            arguments = signature.bind(*given, **named).arguments
        except TypeError as error:
            raise TypeError(f"{name}(): {error}; call it as {name}{signature}") from None
        return action(arguments)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def submit(fields: dict[str, Any]) -> NoReturn:
    """End the step with a submission."""
    raise Submitted(fields)


class Workspace:
    """The agent's namespace, the functions that it may call, and the steps that it took."""

    def __init__(self, bridge: Callable[[str, str], Any]) -> None:
        self.calls = 0
        self._bridge = bridge
        self._sources: dict[str, list[str]] = {}
        self._given: dict[str, Any] = {}
        self._reserve: bytearray | None = None
        # Named __main__, because `if __name__ == "__main__"` must run, and dataclasses and pickle look it up.
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        # Replaced, because these would kill Python and leave dspy's runner waiting.
        os._exit = os.abort = os.kill = signal.raise_signal = end_step  # type: ignore[assignment]
        os.system = refuse_process
        self._names = module.__dict__

    # ---------------------------------------------------------------- what may be called

    def register(self, functions: str) -> str:
        """Define the host's functions and SUBMIT from JSON: `tools` (name, parameters, doc), `outputs` (or null)."""
        asked = json.loads(functions)
        for name, function in self._given.items():
            if self._names.get(name) is function:
                del self._names[name]
        self._given = {each["name"]: self._function(each) for each in asked["tools"]}
        # An answer alone is a result: what stands beside it is optional.
        first, *others = [{"name": name, "kind": "POSITIONAL_OR_KEYWORD"} for name in asked["outputs"] or ["output"]]
        fields = [first, *({**each, "default": "None"} for each in others)]
        self._given["SUBMIT"] = function_of("SUBMIT", "Hand in the result and end.", fields, submit)
        self._names.update(self._given)
        return "registered"

    def _function(self, tool: dict[str, Any]) -> Callable[..., Any]:
        name = tool["name"]
        return function_of(name, tool["doc"], tool["parameters"], lambda arguments: self._call(name, arguments))

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call the host. Arguments and results travel as text, because JavaScript would change numbers and nulls."""
        from pyodide.ffi import run_sync  # type: ignore[import-not-found]

        packed = json.dumps(plain(arguments))
        if len(packed) > LIMITS["argument_chars"]:
            most = f"{LIMITS['argument_chars']:,}"
            raise ValueError(f"{name}(): the arguments have {len(packed):,} characters as JSON, {most} are taken")
        self.calls += 1
        reply = run_sync(self._bridge(name, json.dumps({"kwargs": {"packed": packed}})))
        if not isinstance(reply, str):
            raise RuntimeError(f"{name}(): {getattr(reply, 'message', 'the host did not answer')}")
        answer = json.loads(reply)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    # ---------------------------------------------------------------- a step

    async def answer(self, request: str) -> str:
        """Run a step, given as JSON: `step` (its number), `code`, `variables` (name to literal). Return its outcome."""
        asked = json.loads(request)
        self.calls = 0
        self._reserve = self._reserve or bytearray(LIMITS["reserve_bytes"])
        printed = Printed(LIMITS["output_chars"], LIMITS["printed_chars"])
        before = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = printed
        try:
            outcome = await self._outcome(f"<step {asked['step']}>", asked["code"], asked["variables"])
        finally:
            sys.stdout, sys.stderr = before
            self._cancel_tasks()
        told = {"stdout": encodable(printed.kept()), "stdout_chars": printed.chars, "calls": self.calls}
        return json.dumps(outcome | told | self._variables())

    async def _outcome(self, place: str, code: str, variables: dict[str, str]) -> dict[str, Any]:
        self._sources[place] = code.splitlines()
        try:
            parts = compiled(code, place)
        except SyntaxError as error:
            return {"kind": "syntax", "message": encodable(self._syntax(error, place))}
        except (MemoryError, RecursionError):
            return {"kind": "syntax", "message": "SyntaxError: the code is nested too deep to be parsed"}
        except BaseException as error:
            return self._failed(error)
        try:
            for name, literal in variables.items():
                self._names[name] = eval(literal, {"float": float})
            return self._output(await run(parts, self._names))
        except Submitted as submitted:
            return self._final(submitted.fields)
        except BaseException as error:
            return self._failed(error)

    def _output(self, value: Any) -> dict[str, Any]:
        if value is None:
            return {"kind": "output"}
        text = value if isinstance(value, str) else display_text(value)
        return {"kind": "output", "value": encodable(truncate(text, LIMITS["output_chars"])), "value_chars": len(text)}

    def _final(self, fields: dict[str, Any]) -> dict[str, Any]:
        try:
            final, most = json.dumps(plain(fields)), LIMITS["submit_chars"]
        except BaseException as error:
            return self._failed(error)
        if len(final) > most:
            message = f"SUBMIT(): {len(final):,} characters as JSON, {most:,} are taken; submit less"
            return {"kind": "error", "message": message}
        return {"kind": "final", "final": final}

    # ---------------------------------------------------------------- errors

    def _failed(self, error: BaseException) -> dict[str, Any]:
        if isinstance(error, MemoryError):
            self._reserve = None
            message = "MemoryError: the memory of the sandbox is used up; delete what you don't need, hold less at once"
        elif isinstance(error, SystemExit):
            message = "SystemExit: nothing ends this way; call SUBMIT to hand in a result"
        else:
            message = f"{type(error).__name__}: {error_text(error)}".removesuffix(": ")
        places = "".join(f"\n  {place}" for place in dict.fromkeys(self._places(error)))
        error.__traceback__ = None
        return {"kind": "error", "message": encodable(truncate(message, LIMITS["error_chars"]) + places)}

    def _places(self, error: BaseException) -> list[str]:
        """Return the places in the agent's own code, the innermost last."""
        frames = (frame for frame in traceback.walk_tb(error.__traceback__) if self._is_step(frame))
        return [self._place(frame.f_code, line) for frame, line in deque(frames, LIMITS["places"])]

    def _is_step(self, frame: tuple[types.FrameType, int]) -> bool:
        return frame[0].f_code.co_filename in self._sources

    def _place(self, code: types.CodeType, line: int) -> str:
        within = "" if code.co_name == "<module>" else f", in {code.co_name}"
        return f"{code.co_filename.strip('<>')}, line {line}{within}{self._line(code.co_filename, line)}"

    def _syntax(self, error: SyntaxError, place: str) -> str:
        line = error.lineno or 0
        return f"{type(error).__name__}: {error.msg}\n  {place.strip('<>')}, line {line}{self._line(place, line)}"

    def _line(self, place: str, line: int) -> str:
        lines = self._sources[place]
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return f": {truncate(text, LIMITS['line_chars'])}" if text else ""

    # ---------------------------------------------------------------- afterwards

    def _cancel_tasks(self) -> None:
        # No task may outlive its step, because the host listens during steps only.
        current = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not current:
                task.cancel()

    def _variables(self) -> dict[str, Any]:
        """Return the number of the agent's variables, their types, and their total characters."""
        types_n: dict[str, int] = {}
        chars = 0
        for name, value in [*self._names.items()]:
            kind, size = measured(name, value)
            if kind:
                types_n[kind] = types_n.get(kind, 0) + 1
                chars += size
        return {"variables_n": sum(types_n.values()), "variables_chars": chars, "variable_types": types_n}


def error_text(error: BaseException) -> str:
    """Return the message of an exception, even of one whose `__str__` raises."""
    try:
        return str(error)
    except BaseException:
        return display_text(error)


def compiled(code: str, place: str) -> list[types.CodeType]:
    """Compile a step: all but its last expression, then that expression, because its value is wanted."""
    tree = ast.parse(code, place)
    *rest, last = tree.body or [ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)]
    await_anywhere = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    if not isinstance(last, ast.Expr):
        return [compile(tree, place, "exec", await_anywhere, dont_inherit=True)]
    body = ast.Module(rest, tree.type_ignores)
    return [
        compile(body, place, "exec", await_anywhere, dont_inherit=True),
        compile(ast.Expression(last.value), place, "eval", await_anywhere, dont_inherit=True),
    ]


async def run(parts: list[types.CodeType], names: dict[str, Any]) -> Any:
    """Run the parts in order, and return the value of the last."""
    value = None
    for part in parts:
        value = eval(part, names)
        if part.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value
