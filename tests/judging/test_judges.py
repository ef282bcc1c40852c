"""The registry of judges: ours fulfil the protocol, and a judge of another package is used everywhere by its name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rbank_es.bank import Bank
from rbank_es.cli import main
from rbank_es.errors import BadInput, BadPlugin, BadPolicy, JudgeFailed
from rbank_es.events import RunFinished, RunJudged, RunStarted, ToolCalled
from rbank_es.events.run_events import VerdictValue
from rbank_es.judging import JUDGES, Gold, JudgeInputs, RunOutcome, Verdict, decide
from rbank_es.judging.judges import policy_for
from rbank_es.loop.settings import LoopSettings
from rbank_es.models.model_choice import LmChoice
from rbank_es.policies import CheckJudging, LmJudging
from rbank_es.sparql.data_source import Source
from tests.judging.answers import ran, run_of, table
from tests.loop.loops import TASKS, looped, quick, scripted
from tests.plugins import install

PLUGIN = '''
"""A judge of somebody else's: an answer of more than two words is a failure."""

from rbank_es.judging import JUDGES, Verdict
from rbank_es.policies import CheckJudging


class BrevityJudge:
    needs = frozenset()
    policy = CheckJudging(grounding=False)

    def judge(self, outcome, inputs):
        words = len(outcome.answer.split())
        return Verdict(
            verdict="success" if words <= 2 else "failure", reason=f"{words} words",
            kind="check", judge="brevity", judge_version="1", purpose=inputs.purpose,
        )


def add():
    JUDGES.add("brevity", BrevityJudge())
'''
THINGS = "SELECT ?x WHERE { ?x a <http://example.org/Thing> }"
RUN = run_of(THINGS, answer="two words")
LONG = run_of(THINGS, answer="more than two words")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a judge, as `pip` would lay it out."""
    site = tmp_path / "site"
    site.mkdir()
    install(site, "brevity_judge", PLUGIN)
    monkeypatch.syspath_prepend(site)


def test_a_judge_of_another_package_is_used_on_the_command_line(
    plugin: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with quick(tmp_path / "bank") as bank:
        asked = ToolCalled(run="r", tool="sparql_query", arguments=json.dumps({"query": THINGS}))
        bank.append([RunStarted(run="r", task="?"), asked, RunFinished(run="r", outcome="submitted", sparql=THINGS)])
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps([{"id": "a", "query": "?", "agent_sparql": THINGS, "expert_verdict": True}]))
    assert not main(["judge", "run", str(tmp_path / "bank"), "r", "--judge", "brevity", "--json"])
    [told] = json.loads(capsys.readouterr().out)["runs"]
    assert (told["judge"], told["success"], told["position"]) == ("brevity-1", True, 6)
    assert not main(["judge", "calibrate", "--cases", str(cases), "--judge", "brevity", "--json"])
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


@pytest.mark.slow
def test_a_judge_of_another_package_is_used_in_the_loop(plugin: None, tmp_path: Path) -> None:
    settings = scripted(tmp_path, judge="brevity", extract=False)
    with quick(tmp_path / "bank") as bank:
        looped(bank, settings, TASKS[:1])
        verdicts = [event for event in bank.events() if isinstance(event, RunJudged) and event.purpose == "learning"]
    assert [(event.judge, event.verdict) for event in verdicts] == [("brevity", "success")]


def test_an_unknown_judge_is_refused_with_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="no judge 'oracle'; there are: checks, lm, gold"):
        decide(RUN, judge="oracle")
    with pytest.raises(BadInput, match="no judge 'oracle'; there are: checks, lm, gold.*, none$"):
        LoopSettings(lm=LmChoice(model="openai/x"), judge="oracle")
    assert (
        main(["run", str(tmp_path / "bank"), "--ont", "lights", "--task", "?", "--lm", "script:x", "--judge", "oracle"])
        == 2
    )
    assert re.search("there are: checks, lm, gold.*, none", capsys.readouterr().err)
    assert not (tmp_path / "bank").exists()


@pytest.mark.parametrize("judge", ["checks", "lm"])
def test_terms_are_looked_up_unless_the_policy_says_otherwise(judge: str, lights_source: Source) -> None:
    query = "SELECT ?x WHERE { ?x a <https://lights.example/ns#Submarine> }"
    run = run_of(query, answer="http://example.org/u-1", queries=(ran(query, table(names="x")),))
    verdict = decide(run, judge=judge, source=lights_source)
    assert verdict.verdict == "failure" and "ungrounded_query" in {finding.code for finding in verdict.findings}
    bare = decide(run, judge="checks", policy=CheckJudging(grounding=False), source=lights_source)
    assert "ungrounded_query" not in {finding.code for finding in bare.findings}


def test_gold_by_name_judges_for_learning_only_under_supervision() -> None:
    gold = Gold(sparql=THINGS)
    with pytest.raises(BadInput, match="only under a policy that is supervised"):
        decide(RUN, judge="gold", gold=gold)
    with pytest.raises(BadInput, match="knows the right answer"):
        LoopSettings(lm=LmChoice(model="openai/x"), judge="gold")
    assert decide(RUN, judge="gold", gold=gold, purpose="scoring").judge == "gold"
    assert decide(RUN, judge="gold", gold=gold, policy=CheckJudging(supervised=True)).judge == "gold"
    with pytest.raises(JudgeFailed, match="no right query or answer"):
        decide(RUN, judge="gold", purpose="scoring")


class ExactJudge:
    """A judge of ours, in place of the comparison of results."""

    needs = frozenset({"gold"})
    policy = CheckJudging()

    def judge(self, outcome: RunOutcome, inputs: JudgeInputs) -> Verdict:
        assert inputs.gold is not None
        same = outcome.sparql == inputs.gold.sparql
        verdict: VerdictValue = "success" if same else "failure"
        return Verdict(verdict=verdict, reason="to the letter", kind="gold", judge="exact", judge_version="1")


def test_a_judge_that_returns_no_verdict_is_named() -> None:
    class WordJudge(ExactJudge):
        needs = frozenset()

        def judge(self, outcome: RunOutcome, inputs: JudgeInputs) -> Verdict:
            return "success"  # type: ignore[return-value]

    JUDGES.add("word", WordJudge())
    with pytest.raises(BadPlugin, match="'word' of the package tests can't be used: it returned str, not Verdict"):
        decide(RUN, judge="word")


def test_a_judge_goes_by_the_policy_in_force_if_it_has_its_name_else_by_its_own(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank", policies=(LmJudging(cases=1).choice,)) as bank, bank.as_of() as view:
        assert policy_for(view) == policy_for(view, "lm") == ("lm", LmJudging(cases=1))
        assert policy_for(view, "checks") == ("checks", CheckJudging())
        assert policy_for(view, "lm", supervised=True) == ("lm", LmJudging(cases=1, supervised=True))


def test_another_version_of_the_lm_policy_is_refused_and_never_judged_by_defaults() -> None:
    """Its settings mean something to its own version only."""

    class OtherVersion(CheckJudging, frozen=True, kw_only=True):
        name = "lm"
        version = 2

    inputs = JudgeInputs(policy=OtherVersion(), checked=decide(RUN), purpose="learning", lms=object())  # type: ignore[arg-type]
    with pytest.raises(BadPolicy, match="OtherVersion, another version"):
        JUDGES.get("lm").judge(RUN, inputs)
