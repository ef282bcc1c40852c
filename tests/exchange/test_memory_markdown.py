"""Memory items in text: what models write is read or returned as stray, and code is never taken for headings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.events.items import Item
from rbank_es.exchange.memory_markdown import parse_memories, write_memories

LAYOUTS = {
    "headings": "# Memory Item {n}\n## Title {t}\n## Description {d}\n## Content\n{c}\n",
    "headings on one line": "## Title {t} ## Description {d} ## Content {c}\n",
    "deeper headings": "### Memory Item {n}:\n#### Title\n{t}\n#### Description\n{d}\n#### Content\n{c}\n",
    "bold labels": "**Memory Item {n}**\n**Title:** {t}\n**Description:** {d}\n**Content:** {c}\n",
    "bold labels, colon outside": "**Title**: {t}\n**Description**: {d}\n**Content**: {c}\n",
    "bold labels on one line": "**Title:** {t} **Description:** {d} **Content:** {c}\n",
    "bold labels above": "**Title**\n{t}\n\n**Description**\n{d}\n\n**Content**\n{c}\n",
    "bold points": "- **Title**: {t}\n- **Description**: {d}\n- **Content**: {c}\n",
    "bold points below": "# Memory Item {n}\n  - **Title:** {t}\n  - **Description:** {d}\n  - **Content:** {c}\n",
    "bare labels": "Title: {t}\nDescription: {d}\nContent: {c}\n",
    "numbered bare labels": "{n}. Title: {t}\n   Description: {d}\n   Content: {c}\n",
    "a fence round each": "```markdown\n# Memory Item {n}\n## Title {t}\n## Description {d}\n## Content\n{c}\n```\n",
}
CODE = {
    "python": "```python\n# Title case the name first\nname = name.title()\n# Content may be empty\n```",
    "no language": "```\n## Title of the chart\n# Description\n```",
    "tildes": "~~~sh\n# Content of the folder\nls\n~~~",
    "longer fence": "````md\n```\n## Title x\n```\n## Content y\n````",
    "indented": "    # Title of the window\n    # Content of it",
}


LINES = st.sampled_from(
    ["Then sort.", "", "## Title of y", "# Memory Item 2", "\\## Content z", "\\\\# Title", "**Title:** b", "Title: c",
     *CODE.values(), "| a |", "#hash", "# Memory Item 1\n## Title t\n## Content c"]
)  # fmt: skip


@given(st.lists(st.lists(LINES, max_size=4).map("\n".join), min_size=1, max_size=3))
def test_what_is_written_is_read_again(contents: list[str]) -> None:
    """Whatever of labels and code is in a content, in as many items as were written."""
    items = [Item.make(f"T{n}", content, "success", desc="d") for n, content in enumerate(contents)]
    found, stray = parse_memories("\n\n".join(write_memories(items)))
    assert [each.content for each in found] == [content.strip() for content in contents]
    assert stray == []


@pytest.mark.parametrize("text", ["3 steps", "**Always** sort", "*", "`#` first", "1", "__init__ first"])
def test_a_value_behind_its_label_keeps_its_first_letters(text: str) -> None:
    [found], _ = parse_memories(f"# Memory Item 1\n## Title {text}\n## Content {text}")
    assert (found.title, found.content) == (text, text)
