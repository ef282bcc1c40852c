"""Single-point changes of a Python file: each flips one decision, as a slip of the hand would."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}


class Change(NamedTuple):
    """A change of one file: characters `start` to `end` of its text become `text`, inside of `function`."""

    path: str
    line: int
    function: str
    start: int
    end: int
    old: str
    text: str

    def apply(self, source: str) -> str:
        """Return the file's text with the change made."""
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.text))
        return f"{self.path}:{self.line} {self.function}: {old!r} -> {new!r}"


def changes_of(root: Path, path: str) -> list[Change]:
    """Return every change of a file that lies inside of a function. A few no longer compile.

    Left out: texts, annotations, decorators, default values of dataclass-like bodies, and what is raised, because a
    changed message is no changed decision.
    """
    source = (root / path).read_text(encoding="utf-8")
    found = _Reader(path, source)
    found.visit(ast.parse(source))
    return found.changes


def compiles(root: Path, change: Change) -> bool:
    """Return whether the file with the change made is Python."""
    try:
        compile(change.apply((root / change.path).read_text(encoding="utf-8")), change.path, "exec")
    except SyntaxError:
        return False
    return True


class _Reader(ast.NodeVisitor):
    """Collects the changes of one file."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._lines = [f"{line}\n" for line in source.split("\n")]
        self._starts = [0, *accumulate(len(line) for line in self._lines)]
        self._names: list[str] = []
        self.changes: list[Change] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:  # noqa: N802
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        self._names.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.visit(statement)
        self._names.pop()

    def visit_Raise(self, node: ast.Raise) -> None:  # noqa: N802
        """Leave out what an error says."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:  # noqa: N802
        """Leave out texts."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:  # noqa: N802
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:  # noqa: N802
        self._replace(node.test, f"(not ({self._text(node.test)}))")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:  # noqa: N802
        self._replace(node.test, f"(not ({self._text(node.test)}))")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:  # noqa: N802
        if len(node.ops) == 1:
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._replace(node, f"({left} {_COMPARISONS[type(node.ops[0])]} {right})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:  # noqa: N802
        word = " or " if isinstance(node.op, ast.And) else " and "
        self._replace(node, f"({word.join(f'({self._text(value)})' for value in node.values)})")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:  # noqa: N802
        if (operator := _OPERATORS.get(type(node.op))) and not any(_is_text(side) for side in (node.left, node.right)):
            self._replace(node, f"(({self._text(node.left)}) {operator} ({self._text(node.right)}))")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:  # noqa: N802
        if isinstance(node.op, ast.Not):
            self._replace(node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:  # noqa: N802
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1))

    def visit_Expr(self, node: ast.Expr) -> None:  # noqa: N802
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:  # noqa: N802
        if len(node.items) == 1 and node.items[0].optional_vars is None:
            context = self._text(node.items[0].context_expr)
            self._replace(node.items[0].context_expr, "__import__('contextlib').nullcontext()", old=f"with {context}")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:  # noqa: N802
        self._replace(node, "break")

    def visit_Break(self, node: ast.Break) -> None:  # noqa: N802
        self._replace(node, "continue")

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._extent(node)
        return self._source[start:end]

    def _replace(self, node: ast.expr | ast.stmt, text: str, old: str = "") -> None:
        if self._names:
            name = ".".join(self._names)
            self.changes.append(
                Change(self._path, node.lineno, name, *self._extent(node), old or self._text(node), text)
            )

    def _extent(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno or 0, node.end_col_offset or 0)

    def _at(self, line: int, column: int) -> int:
        """Return the place in the text. `ast` counts a column in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def modules(root: Path, rooms: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield each file of each room, as the room's name and the path."""
    for room, places in rooms.items():
        for place in places:
            paths = [root / place] if place.endswith(".py") else sorted((root / place).rglob("*.py"))
            for path in paths:
                yield room, str(path.relative_to(root))
