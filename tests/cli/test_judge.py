"""`rbank-es judge`: measuring a judge, and judging a run of a bank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbank_es.bank import Bank
from rbank_es.cli.shared.main import main
from rbank_es.events import JudgmentOverruled, RunFinished, RunJudged, RunStarted, ToolCalled
from tests.cli_runner import digest_of, fails, run
from tests.effort import one_in

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
def test_the_checks_are_measured_without_anything_else(place: Path) -> None:
    told = run("judge", "calibrate", "--cases", "cases.json", "--json", cwd=place).json
    assert (told["judge"], told["cases"], told["accuracy"], told["undecided"]) == ("checks", 0, None, 2)
    assert told["disagreements"] == [] and told["verdicts"] == {"right": "undecided", "wrong": "undecided"}


def test_the_right_query_is_run_on_the_ontology(place: Path) -> None:
    told = run(
        "judge", "calibrate", "--cases", "cases.json", "--judge", "gold", "--ont", "lights", "--json", cwd=place
    ).json
    assert told["verdicts"] == {"wrong": "failure"}
    assert told["unjudged"] == [{"id": "right", "why": "the case has no expected_sparql"}]


def test_what_a_source_lacks_is_a_failure_only_where_it_was_declared_whole(place: Path) -> None:
    """Also by what the bank was told before; a schema with an example doesn't know everybody's dogs."""
    head = "@prefix e: <http://e.example/> . @prefix owl: <http://www.w3.org/2002/07/owl#> ."
    (place / "dogs.ttl").write_text(f"{head} e:Dog a owl:Class . e:rex a e:Dog .")
    case = {"id": "dog", "query": "What is Fido?", "agent_sparql": "SELECT ?c { e:fido a ?c }", "expert_verdict": True}
    (place / "dogs.json").write_text(json.dumps([case]))
    arguments = ("judge", "calibrate", "--cases", "dogs.json", "--ont", "dogs.ttl", "--json")
    for options, decided in (((), 0), (("--not-whole",), 0), (("--whole",), 1)):
        assert run(*arguments, *options, cwd=place).json["cases"] == decided
    assert "--ont" in fails("judge", "calibrate", "--cases", "dogs.json", "--whole", cwd=place)


@pytest.mark.slow
def test_a_model_is_measured_and_no_bank_is_written_to(place: Path) -> None:
    before = digest_of(place / "bank")
    arguments = ("--judge", "lm", "--lm", "script:judge.toml", "--bank", "./bank", "--json")
    told = run("judge", "calibrate", "--cases", "cases.json", *arguments, cwd=place).json
    assert (told["accuracy"], told["model"], told["scripted"]) == (1.0, "script:judge", True)
    assert before and digest_of(place / "bank") == before


def test_a_case_that_the_model_fails_on_is_left_out_and_the_others_go_on(place: Path) -> None:
    """One time-out ended the whole calibration; a lost connection costs a try, and three of them the verdict."""
    slow, kept = '[[task.judge]]\nerror = "timeout"\n', SCRIPT.partition('[[task]]\nid = "wrong"\n')[0]
    (place / "slow.toml").write_text(f'{kept}[[task]]\nid = "wrong"\n{slow * 3}')
    arguments = ("--judge", "lm", "--lm", "script:slow.toml", "--json")
    told = run("judge", "calibrate", "--cases", "cases.json", *arguments, cwd=place).json
    assert (told["cases"], told["verdicts"]) == (1, {"right": "success"})
    assert told["unjudged"] == [{"id": "wrong", "why": "the script says so"}]
    (place / "lost.toml").write_text(SCRIPT.replace('text = "hm"', 'error = "wrong_key"'))
    assert "key" in fails("judge", "calibrate", "--cases", "cases.json", *arguments[:3], "script:lost.toml", cwd=place)


def test_ids_of_cases_are_any_texts(place: Path) -> None:
    """One moved the cursor of the terminal; one was too long for the id of a run."""
    odd = [CASES[1] | {"id": "\x1b[31mred\x07"}, CASES[1] | {"id": "x" * 300}]
    (place / "odd.json").write_text(json.dumps(odd))
    (place / "any.toml").write_text('[[task]]\nid = "*"\n[[task.judge]]\nfields = { success = true, reason = "R." }')
    out = run("judge", "calibrate", "--cases", "odd.json", "--judge", "lm", "--lm", "script:any.toml", cwd=place).out
    assert "disagreements (2)" in out and "\\x1b[31mred" in out and "\x1b" not in out


def test_a_run_is_scored_by_the_right_query(place: Path) -> None:
    out = run("judge", "run", "./bank", "r", "--ont", "lights", "--gold", QUERY, "--purpose", "scoring", cwd=place).out
    assert out.startswith("success\n") and "9 rows" in out
    [event] = judgments(place)
    assert (event.verdict, event.purpose, event.judge) == ("success", "scoring", "gold")


@pytest.mark.slow
def test_a_dry_run_writes_no_verdict(place: Path) -> None:
    out = run("judge", "run", "./bank", "stopped", "--dry-run", cwd=place).out
    assert out.startswith("failure\n") and "did not converge" in out
    assert judgments(place) == []


@pytest.mark.slow
def test_a_dry_run_writes_no_call_of_a_model(place: Path) -> None:
    """Calls cost, and were recorded: whoever looks writes nothing."""
    (place / "any.toml").write_text('[[task]]\nid = "*"\n[[task.judge]]\nfields = { success = true, reason = "R." }')
    before = digest_of(place / "bank")
    arguments = ("--judge", "lm", "--judge-lm", "script:any.toml", "--dry-run")
    assert run("judge", "run", "./bank", "seen", *arguments, cwd=place).out.startswith("success\nR.\n")
    assert before and digest_of(place / "bank") == before


def test_what_can_not_be_judged_is_refused(place: Path) -> None:
    assert "nobody" in fails("judge", "run", "./bank", "nobody", cwd=place)
    assert "--judge-lm" in fails("judge", "run", "./bank", "seen", "--judge", "lm", cwd=place)
    model = ("--judge", "checks", "--judge-lm", "script:judge.toml")
    assert "calls no model" in fails("judge", "run", "./bank", "r", *model, cwd=place)
    assert "no query" in fails("judge", "run", "./bank", "r", "--gold", " ", cwd=place)
    assert "--purpose scoring" in fails("judge", "run", "./bank", "r", "--gold", QUERY, cwd=place)
    assert judgments(place) == []
    assert "can't be read" in fails("judge", "calibrate", "--cases", "none.json", cwd=place)
    assert "needs --lm" in fails("judge", "calibrate", "--cases", "cases.json", "--judge", "lm", cwd=place)
    mixed = ("--ont", "lights", "--void", "void.ttl")
    assert "describes an endpoint" in fails("judge", "calibrate", "--cases", "cases.json", *mixed, cwd=place)


def test_a_point_in_time_is_no_place_to_write_to(place: Path) -> None:
    assert "whole bank" in fails("judge", "run", "./bank@1", "r", cwd=place)


# ---------------------------------------------------------------- verdicts that stand


def overruled(place: Path, run: str, verdict: str = "failure") -> None:
    """Record an expert's verdict."""
    with Bank.open(place / "bank") as bank:
        facts = {"judge": "ann", "judge_version": "1", "kind": "human", "by": "ann", "why": "I looked."}
        bank.append(JudgmentOverruled(run=run, purpose="learning", verdict=verdict, **facts))  # type: ignore[arg-type]


def standing(place: Path, run: str) -> str:
    with Bank.open(place / "bank") as bank:
        return bank.state().verdicts[run, "learning"].verdict


def test_a_weaker_judgment_is_recorded_changes_nothing_and_says_so(place: Path) -> None:
    """A model undid an expert's verdict without a word."""
    (place / "any.toml").write_text(
        '[[task]]\nid = "*"\n[[task.judge]]\nfields = { verdict = "success", reason = "R." }'
    )
    overruled(place, "seen")
    arguments = ("--judge", "lm", "--judge-lm", "script:any.toml")
    out = run("judge", "run", "./bank", "seen", *arguments, cwd=place).out
    assert out.startswith("success\n") and "failure by ann-1, a person stands" in " ".join(out.split())
    assert "changes nothing" in " ".join(out.split())
    assert len(judgments(place)) == 1 and standing(place, "seen") == "failure"
    dry = run("judge", "run", "./bank", "seen", *arguments, "--dry-run", "--json", cwd=place).json["runs"][0]
    assert (dry["stands"], dry["before"]["verdict"], dry["verdict"]) == (False, "failure", "success")


def test_a_stronger_judgment_stands_and_the_one_before_is_shown(place: Path) -> None:
    (place / "any.toml").write_text(
        '[[task]]\nid = "*"\n[[task.judge]]\nfields = { verdict = "success", reason = "R." }'
    )
    run("judge", "run", "./bank", "seen", "--judge", "checks", cwd=place)
    arguments = ("--judge", "lm", "--judge-lm", "script:any.toml")
    out = run("judge", "run", "./bank", "seen", *arguments, cwd=place).out
    assert "undecided by checks-1 stood before" in " ".join(out.split()) and standing(place, "seen") == "success"


@pytest.mark.slow
def test_the_same_judgment_again_records_nothing_and_another_one_does(place: Path) -> None:
    """The same judge that says the same, in a loop of a shell, made the log longer each time."""
    line = ("judge", "run", "./bank", "stopped", "--judge", "checks")
    run(*line, cwd=place)
    assert "nothing was recorded" in " ".join(run(*line, cwd=place).out.split())
    [made] = run(*line, "--json", cwd=place).json["runs"]
    assert (made["repeated"], made["stands"], made["position"]) == (True, True, judgments(place)[0].seq)
    assert len(judgments(place)) == 1
    overruled(place, "stopped", "success")
    assert run(*line, "--json", cwd=place).json["runs"][0]["stands"] is False and len(judgments(place)) == 1
    run(*line[:-1], "gold", "--gold", QUERY, "--purpose", "scoring", cwd=place)
    assert len(judgments(place)) == 2


@pytest.mark.slow
def test_what_a_judge_said_before_another_is_recorded_again_because_the_latest_stands(place: Path) -> None:
    script = '[[task]]\nid = "*"\n[[task.judge]]\nfields = { verdict = "VERDICT", reason = "R." }'
    for name, verdict in (("one", "success"), ("two", "failure")):
        (place / f"{name}.toml").write_text(script.replace("VERDICT", verdict))
    for name in ("one", "two", "one", "one"):
        run("judge", "run", "./bank", "seen", "--judge", "lm", "--judge-lm", f"script:{name}.toml", cwd=place)
    assert [each.verdict for each in judgments(place)] == ["success", "failure", "success"]
    assert standing(place, "seen") == "success"


def test_a_run_is_judged_by_its_whole_id(place: Path) -> None:
    said = fails("judge", "run", "./bank", "stop", "--judge", "checks", cwd=place)
    assert "write the whole id" in said and "stopped" in said and judgments(place) == []


def test_many_runs_are_judged_by_one_command(place: Path) -> None:
    told = run("judge", "run", "./bank", "--all", "--judge", "checks", "--json", cwd=place).json
    assert {each["run"]: each["verdict"] for each in told["runs"]} == {
        "r": "undecided", "stopped": "failure", "seen": "undecided",
    }  # fmt: skip
    again = run("judge", "run", "./bank", "--unjudged", "--judge", "checks", cwd=place).out
    assert "stopped" not in again and "2 runs, 2 undecided" in again
    overruled(place, "r", "undecided")
    only = run("judge", "run", "./bank", "--unjudged", "--judge", "checks", "--dry-run", "--json", cwd=place).json
    assert [each["run"] for each in only["runs"]] == ["seen"]
    since = run("judge", "run", "./bank", "--since", "5", "--judge", "checks", "--dry-run", "--json", cwd=place).json
    assert [each["run"] for each in since["runs"]] == ["seen"]


def test_runs_without_a_verdict_are_named_the_others_judged_and_the_exit_is_1(place: Path) -> None:
    (place / "half.toml").write_text(
        '[[task]]\nid = "seen"\n[[task.judge]]\nfields = { verdict = "success", reason = "R." }\n'
        '[[task]]\nid = "r"\n' + '[[task.judge]]\nerror = "timeout"\n' * 3
    )
    arguments = ("--judge", "lm", "--judge-lm", "script:half.toml", "--json")
    done = run("judge", "run", "./bank", "r", "seen", *arguments, cwd=place, code=1)
    assert [each["run"] for each in done.json["runs"]] == ["seen"] and list(done.json["unjudged"]) == ["r"]
    assert "r has no verdict" in done.err


@pytest.mark.slow
def test_each_run_is_scored_by_its_own_right_answer_as_gold(place: Path) -> None:
    tasks = [{"id": "t", "question": "Which lighthouses?", "gold_sparql": QUERY}]
    (place / "tasks.json").write_text(json.dumps(tasks))
    arguments = ("--tasks", "tasks.json", "--ont", "lights", "--purpose", "scoring", "--judge", "gold", "--json")
    told = run("judge", "run", "./bank", "r", "seen", *arguments, cwd=place).json
    assert [(each["verdict"], each["kind"]) for each in told["runs"]] == [("success", "gold")] * 2


@pytest.mark.parametrize(
    ("given", "said"),
    one_in(
        3,
        [
            ((), "no run is named"),
            (("r", "--all"), "not both"),
            (("--all", "--unjudged"), "exclude each other"),
            (("sean",), "did you mean"),
            (("ghost",), "no run 'ghost'"),
            (("r", "--judge", "chekcs"), "there are: checks, lm, gold"),
            (("--since", "yesterday-ish"), "yesterday-ish"),
            (("r", "--judge", "gold", "--purpose", "scoring"), "give --gold SPARQL or --tasks FILE"),
            (("r", "--judge", "gold"), "compares with the right answer"),
            (("r", "--tasks", "x", "--gold", "SELECT"), "leave one out"),
        ],
    ),
)
def test_runs_and_judges_that_are_misspelt_or_mixed_are_refused(place: Path, given: tuple[str, ...], said: str) -> None:
    """A run that only a misspelt verdict names is no run either."""
    with Bank.open(place / "bank") as bank:
        facts = {"judge": "x", "judge_version": "1", "kind": "check"}
        bank.append(RunJudged(run="ghost", purpose="learning", verdict="success", **facts))  # type: ignore[arg-type]
    assert said in fails("judge", "run", "./bank", *given, cwd=place)


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
    assert (told["confidence"], told["accepted"], told["wrong"], told["resamples"]) == (0.9, 30, 0, 1_000)
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
