"""Replies of a judging model in every plain form, and none that says two things."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbank_es.judging.verdict_reply import NO_REASON, LmReply, confidence_of, read_reply

JSON = '{"success": true, "reason": "ok"}'


@pytest.mark.parametrize(
    ("reply", "verdict", "reason", "confidence"),
    [
        (JSON, "success", "ok", None),
        (f"```json\n{JSON}\n```", "success", "ok", None),
        (f"Here is my verdict:\n```\n{JSON}\n```\nThanks.", "success", "ok", None),
        ('{"Verdict": "Failure", "explanation": "no", "confidence": "85%"}', "failure", "no", 0.85),
        ('{"verdict": "undecided", "confidence": 0.3}', "undecided", NO_REASON, 0.3),
        ("**True**", "success", NO_REASON, None),
        ("True.", "success", NO_REASON, None),
        ("false", "failure", NO_REASON, None),
        ("`undecided`", "undecided", NO_REASON, None),
        ("**failure**\n\nThe type is missing.", "failure", "The type is missing", None),
        ("**Verdict:** success\n**Confidence:** 80 %\n**Reason:** It\nis.", "success", "It\nis.", 0.8),
        ("Success: yes\nReason: fine", "success", "fine", None),
        ("- verdict = no\n- certainty = 9/10", "failure", NO_REASON, 0.9),
        ("[[ ## verdict ## ]]\nsuccess\n[[ ## confidence ## ]]\n1\n[[ ## reason ## ]]\nR.", "success", "R.", 1.0),
        ("[[ ## success ## ]]\n**False**\n[[ ## reason ## ]]\nR.", "failure", "R.", None),
        ('Verdict: failure\nReason: it wrote {"success": true}', "failure", 'it wrote {"success": true}', None),
    ],
)  # fmt: skip
def test_a_verdict_is_read_in_any_plain_form(reply: str, verdict: str, reason: str, confidence: float | None) -> None:
    assert read_reply(reply) == LmReply(verdict, reason, confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "reply",
    ["", "I think so.", "maybe", '{"verdict": 1}', '{"success": null}', "verdict: true or false",
     "# Success\nnot really", '{"success": true, "verdict": "failure"}',
     "Verdict: success\nVerdict: failure", "[[ ## success ## ]]\nmaybe"],
)  # fmt: skip
def test_what_is_no_verdict_or_two_is_refused_in_words_for_the_model(reply: str) -> None:
    assert isinstance(read_reply(reply), str)


@pytest.mark.parametrize(
    ("given", "share"),
    [(0, 0.0), (1, 1.0), (0.7, 0.7), (85, 0.85), (100, 1.0), ("0.9", 0.9), (".5", 0.5), ("70%", 0.7), ("70 %", 0.7),
     ("8/10", 0.8), ("0.8 (fairly sure)", 0.8), ("1%", 0.01), (101, None), (-1, None), ("-0.5", None), ("150%", None),
     ("high", None), ("", None), (True, None), (None, None), (float("nan"), None), (float("inf"), None), ("1e-3", None),
     ([0.5], None), (10**400, None)],
)  # fmt: skip
def test_a_confidence_is_a_share_or_nothing(given: object, share: float | None) -> None:
    assert confidence_of(given) == (None if share is None else pytest.approx(share))


@given(st.sampled_from(["success", "failure", "undecided"]), st.floats(0, 1), st.text(min_size=1))
def test_what_is_written_as_json_is_read_back(verdict: str, confidence: float, reason: str) -> None:
    found = read_reply(json.dumps({"verdict": verdict, "confidence": confidence, "reason": reason}))
    assert isinstance(found, LmReply) and found.verdict == verdict and found.confidence == confidence
    assert found.reason == (reason.strip() or NO_REASON)
