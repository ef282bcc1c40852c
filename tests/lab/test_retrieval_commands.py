"""`retrieval calibrate`, `retrieval compare` and `search --explain`: figures that are right, and bad files refused."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rbank_es import Bank
from rbank_es.data import lights
from rbank_es.exchange import import_paths
from rbank_es.policies import Bm25V2
from rbank_es.policies.retrieval_quality import read_cases
from tests.cli_runner import run
from tests.effort import one_in

CASES = str(lights().cases)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bank of the shipped lessons, under bm25-2."""
    folder = tmp_path_factory.mktemp("cases")
    with Bank.create(folder / "bank", policies=[Bm25V2().choice], unsafe_no_sync=True) as bank:
        import_paths(bank, [Path(str(lights().lessons))])
    return folder


@pytest.mark.slow
def test_the_shares_of_a_comparison_are_those_of_searching_case_by_case(place: Path) -> None:
    """Counted again by plain loops."""
    pytest.importorskip("scipy")
    told = run("retrieval", "compare", "./bank", "--cases", CASES, "--policy", "bm25-1", "--policy",
               "bm25-2,coverage=0.3,share_of_best=0.4", "--json", cwd=place).json["comparison"]  # fmt: skip
    policy, cases = Bm25V2(coverage=0.3, share_of_best=0.4), read_cases(Path(CASES).read_bytes())
    given = right = covered = disturbed = first = 0
    with Bank.open(place / "bank") as bank, bank.live() as view:
        for case in cases:
            found = [
                hit.id
                for polarity in ("success", "failure")
                for hit in view.retrieve(
                    case.query, 1, polarity=polarity, domain=case.domain, unasked=True, policy=policy
                ).items
            ]
            helping = set(found) & set(case.relevant)
            given, right, covered = given + len(found), right + len(helping), covered + bool(helping)
            disturbed += bool(found) and not case.relevant
            best = view.search(case.query, 1, domain=case.domain, policy=Bm25V2(coverage=0))
            first += bool(case.relevant and best and best[0].id in case.relevant)
    related = sum(bool(case.relevant) for case in cases)
    counts = {"given": given, "right": right, "related": related, "covered": covered}
    counts |= {"unrelated": len(cases) - related, "disturbed": disturbed}
    assert told["second"]["counts"] == counts and told["cases"] == len(cases)
    measure = told["measures"][0]
    assert measure["measure"] == "first" and measure["second"] == pytest.approx(first / related)
    assert measure["difference"]["low"] < measure["difference"]["mean"] < measure["difference"]["high"]


@pytest.mark.slow
def test_a_calibration_names_the_command_that_sets_what_it_measured(place: Path, tmp_path: Path) -> None:
    found = run("retrieval", "calibrate", "./bank", "--cases", CASES, "--precision", "0.8", "--json", cwd=place).json
    trials, best = found["calibration"]["trials"], found["calibration"]["best"]
    reaching = [each for each in trials if each["chosen"]["precision"] and each["chosen"]["precision"][0] >= 0.8]
    assert found["calibration"]["reached"] and best in reaching
    assert best["chosen"]["counts"]["covered"] == max(each["chosen"]["counts"]["covered"] for each in reaching)
    command = found["set"].split()
    assert command[:3] == ["rbank-es", "policy", "bank"]
    assert f"retrieval.coverage={best['coverage']:g}" in command
    shown = run("retrieval", "calibrate", "./bank", "--cases", CASES, cwd=place)
    assert "best floor" in shown.out and " ".join(command[:2]) in shown.out


BAD = {
    "no json": ("what?\n", "line 1 is no case"),
    "an unknown item": ('{"query": "a", "relevant": ["nobody"]}\n', "no active item is called nobody"),
    "a hostile id": ('{"query": "a", "relevant": ["\\u001b[2J"]}\n', "no active item is called"),
    "one class": ('{"query": "a", "relevant": []}\n', "need both classes"),
}
"""Those that a reader refuses by themselves are in test_retrieval_quality.py."""


@pytest.mark.parametrize("name", one_in(2, BAD))
def test_a_bad_file_of_cases_is_refused_with_what_to_do(place: Path, tmp_path: Path, name: str) -> None:
    text, why = BAD[name]
    (tmp_path / "cases.jsonl").write_text(text)
    told = run("retrieval", "calibrate", "./bank", "--cases", tmp_path / "cases.jsonl", cwd=place, code=2)
    assert why in told.err and "Traceback" not in told.err and "\x1b" not in told.err


@pytest.mark.slow
def test_a_calibration_says_that_it_fits_no_cosine(place: Path, tmp_path: Path) -> None:
    kinds = {(each.half, bool(each.relevant)): each for each in read_cases(Path(CASES).read_bytes())}
    (tmp_path / "cases.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, kinds.values())))
    asked = ("retrieval", "calibrate", "./bank", "--cases", tmp_path / "cases.jsonl", "--json")
    assert "cosine" not in run(*asked, cwd=place).err
    with Bank.open(place / "bank") as bank, bank.copy(into=tmp_path / "bank") as copied:
        copied.set_policies({"retrieval": {"name": "hybrid", "version": 1, "model": "m", "cosine": 0.8}})
    assert "pass by cosine (0.8 or more), which isn't fitted" in run(*asked, cwd=tmp_path).err


@pytest.mark.slow
def test_a_bank_whose_policy_has_no_coverage_is_told_which_to_take(tmp_path: Path) -> None:
    run("init", "./old", cwd=tmp_path)
    with Bank.open(tmp_path / "old") as bank:
        bank.set_policies({"retrieval": {"name": "bm25", "version": 1}})
    (tmp_path / "cases.jsonl").write_text('{"query": "a", "relevant": []}\n')
    told = run("retrieval", "calibrate", "./old", "--cases", "cases.jsonl", cwd=tmp_path, code=2)
    assert "--set retrieval=bm25-3" in told.err


# ---------------------------------------------------------------- search


@pytest.mark.slow
def test_a_search_explains_which_words_count(place: Path) -> None:
    query = "How tall is the tower of a lighthouse?"
    shown = run("search", "./bank", query, "--explain", "--domain", "lights", "-k", "1", cwd=place)
    found = run("search", "./bank", query, "--domain", "lights", "-k", "1", "--json", cwd=place).json
    [hit] = found["hits"]
    assert f"rank 1  {hit['id']}" in shown.out and "its domain is the query's" in shown.out
    assert "tower" in shown.out and f"covers {hit['coverage']:.0%}".replace("%", " %") in shown.out
    assert {"tall", "tower"} <= {each["word"] for each in hit["matched"]}
    assert sum(each["share"] for each in hit["matched"]) == pytest.approx(hit["coverage"])
    assert found["floor"] == {"coverage": 0.45}


def test_a_search_that_gives_nothing_says_why_and_shows_all_if_asked(place: Path) -> None:
    query = "Which Sicilian wine goes with grilled tuna in summer?"
    plain = run("search", "./bank", query, cwd=place)
    assert "nothing found" in plain.out
    assert "of the query" in plain.err and "is the least; --all shows what is withheld" in plain.err
    every = run("search", "./bank", query, "--all", cwd=place)
    told = run("search", "./bank", query, "--json", cwd=place).json
    assert told["hits"] == [] and told["withheld"]
    assert every.out.count("withheld") >= len(told["withheld"])
    assert all(each["id"] in every.out for each in told["withheld"])
    assert "withheld: coverage below the floor" in run("search", "./bank", query, "--all", "--explain", cwd=place).out


@pytest.mark.slow
def test_an_old_policy_has_nothing_to_explain_but_its_scores(tmp_path: Path) -> None:
    with Bank.create(tmp_path / "bank", unsafe_no_sync=True) as bank:
        bank.set_policies({"retrieval": {"name": "bm25", "version": 1}})
        import_paths(bank, [Path(str(lights().lessons))])
    shown = run("search", "./bank", "tower height", "--explain", cwd=tmp_path)
    assert "rank 1" in shown.out and "bm25-3 does" in shown.out
    assert json.loads(run("search", "./bank", "tower height", "--json", cwd=tmp_path).out)["floor"] is None
