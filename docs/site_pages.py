"""Pages of the site that are no files under docs/: the documents at the top, and the reference of Python.

MkDocs calls the functions whose names begin with `on_` (`hooks` in mkdocs.yml).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import rbank_es
from rbank_es.bank.agent_run import AgentRun

DOCUMENTS = Path(__file__).resolve().parent
ROOT = DOCUMENTS.parent
TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""The documents at the top, and their names in the site."""
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents at the top and the reference."""
    for name, page in TOP.items():
        files.append(
            File.generated(config, page, content=relinked((ROOT / name).read_text(encoding="utf-8"), ROOT, "."))
        )
    files.append(File.generated(config, "reference.md", content=reference()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that lead out of docs/ to where that document is in the site."""
    source = page.file.abs_src_path
    return markdown if source is None else relinked(markdown, Path(source).parent, str(Path(page.file.src_uri).parent))


def relinked(text: str, folder: Path, page_folder: str) -> str:
    """Return a document's text with the site's links, for a page in `page_folder`; what the site lacks is no link."""

    def link(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        name = TOP.get(str(target.relative_to(ROOT))) if target.parent == ROOT else None
        if name is None and target.is_relative_to(DOCUMENTS):
            name = str(target.relative_to(DOCUMENTS))
        return found[1] if name is None else f"[{found[1]}]({os.path.relpath(name, page_folder)}{found[3] or ''})"

    return LINK.sub(link, text)


def reference() -> str:
    """Return the page of every public name and of what the bank's methods return, as the docstrings have it."""
    values = [getattr(rbank_es, name) for name in rbank_es.__all__ if name != "__version__"]
    events = [value for value in values if isinstance(value, type) and issubclass(value, rbank_es.Event)]
    errors = [value for value in values if isinstance(value, type) and issubclass(value, rbank_es.RBankError)]
    others = [value for value in values if value not in (*events, *errors, rbank_es.Bank)]
    parts = {"The bank": [rbank_es.Bank, AgentRun], "Values and functions": others, "Events": events, "Errors": errors}
    return "# Python\n" + "".join(f"\n## {title}\n{_described(part)}" for title, part in parts.items())


def _described(values: Iterable[Callable[..., object]]) -> str:
    ordered = sorted(values, key=lambda value: value.__qualname__.lower())
    return "".join(f"\n::: {value.__module__}.{value.__qualname__}\n" for value in ordered)
