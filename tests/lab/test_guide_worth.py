"""What a guide cost, and after how many tasks it has paid for itself."""

from __future__ import annotations

import pytest

from rbank_es.bank import Bank
from rbank_es.events import ArtifactMaterialised, RunJudged, RunStarted
from rbank_es.lab.guide_worth import guide_worths
from tests.loop.loops import source

TEXT = "Lights are lt:Light; ask lt:focalHeight, never lt:heightOfAnything. See https://lights.example/ns#Lighthouse."


def written(bank: Bank, **facts: object) -> None:
    known: dict[str, object] = {"artifact": "g", "kind": "guide", "run": "w", "chars": len(TEXT), "text": TEXT, **facts}
    bank.append([RunStarted(run="w"), ArtifactMaterialised(**known)])  # type: ignore[arg-type]


def test_the_share_of_its_terms_that_exist_and_the_verdict_on_it() -> None:
    with Bank.create("memory:") as bank:
        written(bank)
        bank.append(RunJudged(run="w", purpose="learning", verdict="failure", judge="lm", judge_version="1", kind="lm"))
        [guide] = guide_worths(bank, source())
        assert guide.grounded_share == pytest.approx(3 / 4) and guide.verdict == "failure" and guide.tokens is None
        [unasked] = guide_worths(bank)
        assert unasked.grounded_share is None


def test_other_artifacts_are_no_guides() -> None:
    with Bank.create("memory:") as bank:
        written(bank, kind="index")
        assert list(guide_worths(bank)) == []
