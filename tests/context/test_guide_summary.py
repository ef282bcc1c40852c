"""L3, the guide: its summary, whole sentences, no model asked; and which guide of a bank counts."""

from __future__ import annotations

import pytest

from rbank_es.context.guide_summary import guide_summary

GUIDE = """---
author: nobody
---
# A guide to lights

Lights stand on coasts. They have keepers. <!-- not for readers -->

## Classes
| class | things |
|---|---|
| `Light` | 15 |

- `Light` is never used. Its subclasses are.
1. Watches lead to lights.

```sparql
# A comment in a query
SELECT * WHERE { ?s ?p ?o }
```

Pitfalls
--------
> Never go by [the report](https://example.org/x). Go by the **beginning**.
"""


@pytest.mark.parametrize("title", ["Summary", "## 1. Overview", "TL;DR", "In short:", "At a glance"])
def test_a_summary_wins(title: str) -> None:
    heading = title if title.startswith("#") else f"## {title}"
    guide = GUIDE + f"\n{heading}\nGo by the watch. Count by subclass.\n"
    packed = guide_summary(guide, 80)
    assert packed.text.splitlines()[1] == "- Go by the watch. Count by subclass."
    assert packed.truncated


def test_a_large_guide_is_read_in_time() -> None:
    """Nothing in the reading of it is quadratic."""
    hostile = (
        "e.g. " * 20_000,
        "# " + " " * 200_000 + "x",
        "[](" * 50_000,
        "<!--" * 50_000,
        "!" * 200_000,
        "- " * 50_000,
    )
    for text in hostile:
        assert len(guide_summary(text, 300).text) <= 300
