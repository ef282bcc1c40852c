"""The app's modules joined into one script, the same text in an exported file and in a served page.

The modules are plain ES modules, which node's tests import as they are. A page from disk may import no file, so each
becomes a function whose result holds its exports. Imports and exports are recognised by strict patterns: one statement
a line, named, without aliases.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache

from rbank_es.page.escaped_html import Html, element, shorten
from rbank_es.page.page_frame import html_page, page_file
from rbank_es.page.palette import colour_rules

ENTRY = "main.js"
"""The module that starts the app; all others are reached from it."""

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./([a-z_]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ ]*/\*\*(?:.|\n)*?\*/$|^[ ]*//.*$|(?<=[;,{}]) // .*$", re.MULTILINE)
# A string, and the text of a template from its beginning or an expression's end on. No regex of the app holds a quote.
_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)")
# Not between signs, because `a - -b` would change; and not at every end of a line, because some end a statement.
_BLANKS = re.compile(
    r" ?(=>|===|!==|&&|\|\||\?\?|[=?:,{}<>*]) ?|(?<=[;,{}(\[])\n|"
    r"(?<=[\w)\]]) ([+-]) (?=[\w(\[])|\b(if|for|while) (?=\()"
)
_STYLE_BLANKS = re.compile(r"\s*([{};,>])\s*|(?<=:) ")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_LOOSE = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def asset(name: str) -> str:
    """Return the text of a file of the app."""
    return page_file(f"app/{name}")


@cache
def app_script() -> str:
    """Return the whole app as one script."""
    script = f'"use strict";\n(() => {{\n{joined_modules(module_order())}\n}})();\n'
    # One sign beyond ASCII, and the browser keeps two bytes for each character that it decodes and compiles.
    return _BEYOND_ASCII.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", script)


def joined_modules(names: Iterable[str]) -> str:
    """Return modules as functions, each after those that it imports, as constants such as `renderer_js`."""
    return "\n".join(_module(name) for name in names)


@cache
def app_style() -> str:
    """Return the style sheet of the app, its colours included."""
    rules = re.sub(r"/\*.*?\*/", "", asset("app.css"))
    return colour_rules() + _STYLE_BLANKS.sub(r"\1", rules).strip()


def module_order() -> list[str]:
    """Return the files of all modules, each after those that it imports. Raises ValueError for a circle."""
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules of the page import each other: {' > '.join((*path, name))}")
        if name not in order:
            for _, imported in _IMPORT.findall(asset(name)):
                visit(f"{imported}.js", (*path, name))
            order.append(name)

    visit(ENTRY, ())
    return order


def _module(name: str) -> str:
    source = asset(name)
    exported = ",".join(found for _, found in _EXPORT.findall(source))
    body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(r"const { \1 } = \2_js;", source))
    loose = _LOOSE.search(body)
    if loose:
        raise ValueError(f"{name} has an import or export that the page can't join: {loose[0]}")
    return f"const {name[:-3]}_js=(()=>{{{_compact(body)}return {{{exported}}};}})();"


def _compact(body: str) -> str:
    """Return a module without comments, indentation and blanks around operators: two thirds of its size."""
    lines = (line.strip() for line in _COMMENT.sub("", body).split("\n"))
    code = "\n".join(line for line in lines if line)
    return "".join(text if is_text else _BLANKS.sub(r"\1\2\3", text) for text, is_text in _pieces(code))


def _pieces(code: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of code in turn, each with whether it is the text of a string or of a template."""
    depths: list[int] = []  # of braces in each template expression that is open
    at = 0
    while at < len(code):
        is_text = code[at] in "\"'`" or (code[at] == "}" and depths[-1:] == [0])
        if not is_text:
            end = at
            while end < len(code) and code[end] not in "\"'`" and not (code[end] == "}" and depths[-1:] == [0]):
                if depths:
                    depths[-1] += (code[end] == "{") - (code[end] == "}")
                end += 1
        else:
            if code[at] == "}":
                depths.pop()
            found = (_TEMPLATE if code[at] in "`}" else _STRING).match(code, at)
            assert found is not None, code[at : at + 80]
            end = found.end()
            if found[0].endswith("${"):
                depths.append(0)
        yield code[at:end], is_text
        at = end


def app_page(name: str, body: Html, *, data: str = "", connect: str = "") -> str:
    """Return the whole HTML document of a bank's page.

    `body` stands there until the app has started. Without `data` the app fetches its answers, for which `connect` names
    the source.
    """
    parts = [
        element("div", body, id="app"),
        f'<script type="application/json" id="data">{data}</script>' if data else "",
        f"<script>{app_script()}</script>",
    ]
    return html_page(shorten(name), policy=page_policy(connect), style=app_style(), body="\n".join(parts))


def digest_of(text: str) -> str:
    """Return a script's or style's source in a Content-Security-Policy: its SHA-256."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_policy(connect: str = "") -> str:
    """Return the page's Content-Security-Policy: the app's script and style and no other, no request but `connect`."""
    return (
        f"default-src 'none'; script-src {digest_of(app_script())}; style-src {digest_of(app_style())}; img-src data:; "
        f"{f'connect-src {connect}; ' if connect else ''}base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
