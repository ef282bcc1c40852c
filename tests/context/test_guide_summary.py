"""L3, the guide: its summary, whole sentences, no model asked; and which guide of a bank counts."""

from __future__ import annotations

import pytest

from rbank_es.bank import Bank
from rbank_es.context.guide_summary import guide_summary, latest_guide
from tests.context.banks import materialise

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


def test_the_guide_that_was_materialised_last_counts_up_to_the_point(bank: Bank) -> None:
    assert latest_guide(bank, "lights") is None
    materialise(bank, "# Old\nOld text.")
    before = bank.position
    materialise(bank, "# New\n" + "New text. " * 400)  # long enough to stand apart in the log
    materialise(bank, "# Other\nOf another.", ontology="prov")
    materialise(bank, "# Report\nNo guide.", kind="report")
    found, old = latest_guide(bank, "lights"), latest_guide(bank, "lights", before)
    assert found is not None and found.text.startswith("# New\nNew text. New text.")
    assert old is not None and old.text == "# Old\nOld text."
    guides = [event.id for event in bank.events(types={"artifact_materialised"})]
    assert [old.id, found.id] == guides[:2]
    assert latest_guide(bank, "brick") is None
