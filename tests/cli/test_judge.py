"""`rbank-es judge`: measuring a judge, and judging a run of a bank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.main import main
from rbank_es.events import RunFinished, RunJudged, RunStarted, ToolCalled
from tests.cli_runner import digest_of, run

QUERY = "SELECT ?light WHERE { ?light a lt:Lighthouse }"
CASES = [
    {"id": "right", "query": "Which lighthouses?", "agent_sparql": QUERY, "expert_verdict": True},
    {
        "id": "wrong",
        "query": "Which lighthouses are lit?",
        "agent_sparql": QUERY,
        "expected_sparql": "SELECT ?l WHERE { ?l a lt:Lighthouse ; lt:status lt:Lit }",
        "expert_verdict": False,
        "expert_reason": "Some are dark.",
    },
]
SCRIPT = """
[[task]]
id = "right"
[[task.judge]]
expects = ["Which lighthouses?"]
fields = { success = true, reason = "They are." }

[[task]]
id = "wrong"
[[task.judge]]
text = "hm"
[[task.judge]]
expects = ["could not be read"]
fields = { success = false, reason = "Some are dark." }
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    (tmp_path / "judge.toml").write_text(SCRIPT)
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        bank.append(
            [RunStarted(run="r", task="Which lighthouses?"), RunFinished(run="r", outcome="submitted", sparql=QUERY)]
        )
        bank.append([RunStarted(run="stopped", task="Which?"), RunFinished(run="stopped", outcome="forced_at_limit")])
        asked = ToolCalled(run="seen", tool="sparql_query", arguments=json.dumps({"query": QUERY}))
        submitted = RunFinished(run="seen", outcome="submitted", sparql=QUERY)
        bank.append([RunStarted(run="seen", task="Which lighthouses?"), asked, submitted])
    return tmp_path


def judgments(place: Path) -> list[RunJudged]:
    with Bank.open(place / "bank") as bank:
        return [event for event in bank.events() if isinstance(event, RunJudged)]


@pytest.mark.slow
def test_a_model_is_measured_and_no_bank_is_written_to(place: Path) -> None:
    before = digest_of(place / "bank")
    arguments = ("--judge", "lm", "--lm", "script:judge.toml", "--bank", "./bank", "--json")
    told = run("judge", "calibrate", "--cases", "cases.json", *arguments, cwd=place).json
    assert (told["accuracy"], told["model"], told["scripted"]) == (1.0, "script:judge", True)
    assert before and digest_of(place / "bank") == before


@pytest.mark.slow
def test_a_dry_run_writes_no_call_of_a_model(place: Path) -> None:
    """Calls cost, and were recorded: whoever looks writes nothing."""
    (place / "any.toml").write_text('[[task]]\nid = "*"\n[[task.judge]]\nfields = { success = true, reason = "R." }')
    before = digest_of(place / "bank")
    arguments = ("--judge", "lm", "--judge-lm", "script:any.toml", "--dry-run")
    assert run("judge", "run", "./bank", "seen", *arguments, cwd=place).out.startswith("success\nR.\n")
    assert before and digest_of(place / "bank") == before


# ---------------------------------------------------------------- verdicts that stand


def standing(place: Path, run: str) -> str:
    with Bank.open(place / "bank") as bank:
        return bank.state().verdicts[run, "learning"].verdict


@pytest.mark.slow
def test_what_a_judge_said_before_another_is_recorded_again_because_the_latest_stands(place: Path) -> None:
    script = '[[task]]\nid = "*"\n[[task.judge]]\nfields = { verdict = "VERDICT", reason = "R." }'
    for name, verdict in (("one", "success"), ("two", "failure")):
        (place / f"{name}.toml").write_text(script.replace("VERDICT", verdict))
    for name in ("one", "two", "one", "one"):
        run("judge", "run", "./bank", "seen", "--judge", "lm", "--judge-lm", f"script:{name}.toml", cwd=place)
    assert [each.verdict for each in judgments(place)] == ["success", "failure", "success"]
    assert standing(place, "seen") == "success"


@pytest.mark.slow
def test_each_run_is_scored_by_its_own_right_answer_as_gold(place: Path) -> None:
    tasks = [{"id": "t", "question": "Which lighthouses?", "gold_sparql": QUERY}]
    (place / "tasks.json").write_text(json.dumps(tasks))
    arguments = ("--tasks", "tasks.json", "--ont", "lights", "--purpose", "scoring", "--judge", "gold", "--json")
    told = run("judge", "run", "./bank", "r", "seen", *arguments, cwd=place).json
    assert [(each["verdict"], each["kind"]) for each in told["runs"]] == [("success", "gold")] * 2


@pytest.mark.slow
def test_a_threshold_of_confidence_is_reported_for_a_model(place: Path) -> None:
    cases = [
        {"id": f"c{n}", "query": "Which lighthouses?", "agent_sparql": QUERY, "expert_verdict": True} for n in range(30)
    ]
    (place / "many.json").write_text(json.dumps(cases))
    turn = '[[task]]\nid = "*"\n[[task.judge]]\nfields = { verdict = "success", confidence = 0.9, reason = "R." }'
    (place / "sure.toml").write_text(turn)
    arguments = ("judge", "calibrate", "--cases", "many.json", "--judge", "lm", "--lm", "script:sure.toml")
    told = run(*arguments, "--alpha", "0.2", "--json", cwd=place).json["threshold"]
    assert (told["confidence"], told["accepted"], told["wrong"]) == (0.9, 30, 0)
    assert "confidence_min = 0.9 accepts 30 of 30 verdicts, 0 of them wrong" in run(*arguments, cwd=place).out
    assert "22 verdicts, and there are 2" in run(*arguments[:3], "cases.json", *arguments[4:], cwd=place).out.replace(
        "\n", " "
    )


@pytest.mark.parametrize(("more", "kept"), [((), 1), (("--dry-run",), 0)])
def test_an_interruption_says_how_many_verdicts_are_kept(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], kept: int
) -> None:
    from rbank_es.judging import judges

    decide, asked = judges.decide, []

    def decided(outcome: Any, **options: Any) -> Any:
        asked.append(outcome)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return decide(outcome, **options)

    monkeypatch.setattr(judges, "decide", decided)
    assert main(["judge", "run", str(place / "bank"), "--unjudged", "--judge", "checks", *more]) == 130
    told = f"rbank-es: interrupted. Kept: {kept} of 3 verdicts. With --unjudged, the same command goes on from here"
    assert capsys.readouterr().err.splitlines()[-1] == told
    assert len(judgments(place)) == kept
