"""`rbank-es experiment`: lists, shows, plans and runs experiments."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rbank_es.bank import Bank
from rbank_es.data import LIGHTS
from rbank_es.events import ContextBuilt, RunStarted
from rbank_es.lab.task_suite import Suite, load_suite, suite_json
from tests.cli_runner import digest_of, fails, run
from tests.lab.folders import pair, suite_of, written
from tests.lab.test_ratings import RATED
from tests.loop.loops import TASKS, source
from tests.loop.test_closed_loop import REACT, of_type
from tests.real.test_real_engines import oxigraph
from tests.sandbox.sandboxes import require_dspy

require_dspy()

# No executor here runs code, so no sandbox has to start.
MINE = """\
name = "mine"
title = "Mine"
question = "Is it?"
suite = "tasks.json"
baseline = "without"
contrasts = [["with", "without"]]
[shared]
executor = "react"
judge = "lm"
[[condition]]
name = "without"
layers = ["L0"]
[[condition]]
name = "with"
layers = ["L0", "L2"]
extract = true
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(MINE)
    (tmp_path / "turns.toml").write_text(REACT)
    (tmp_path / "tasks.json").write_bytes(suite_json(Suite.of("heights", TASKS[1:])))
    return tmp_path


def test_the_shipped_experiments_are_listed_and_shown(place: Path) -> None:
    listed = run("experiment", "list", cwd=place).out
    assert [line.split()[0] for line in listed.splitlines()[1:4]] == ["E1", "E2", "E3"]
    assert run("experiment", "list", "--json", cwd=place).json[8]["name"] == "E9"
    shown = run("experiment", "show", "E9c", cwd=place).out
    assert "retrieval.k_success=0, retrieval.k_failure=2" in " ".join(shown.split())
    assert "32: 4 conditions x 8 orders x 1 repetition" in " ".join(shown.split())
    (place / "again.toml").write_text(run("experiment", "show", "E9", "--toml", cwd=place).out)
    again, once = (run("experiment", "show", name, "--json", cwd=place).json for name in ("./again.toml", "E9"))
    assert again == once and once["baseline"] == "no-memory"


@pytest.mark.slow
def test_a_dry_run_names_no_model_calls_none_and_writes_nothing(place: Path) -> None:
    before = digest_of(place)
    plan = run(
        "experiment", "run", "mine.toml", "--ont", "lights", "--dry-run", "--orders", 3, "--json", cwd=place
    ).json
    assert (plan["trials"], plan["runs"], plan["usd_most"]) == (6, 6, None)
    told = run(
        "experiment",
        "run",
        "mine.toml",
        "--ont",
        "lights",
        "--dry-run",
        "--prices",
        "1,2",
        "--lm",
        "openai/x",
        cwd=place,
    ).out
    assert (
        "2 trials over 1 task, 2 runs" in told and "dollars" in told and "nothing was written" in " ".join(told.split())
    )
    assert digest_of(place) == before


@pytest.mark.slow
def test_an_experiment_is_run_into_a_folder_and_the_same_command_changes_nothing(place: Path) -> None:
    command = ("experiment", "run", "mine.toml", "--ont", "lights", "--lm", "script:turns.toml", "--repeat", 2)
    told = run(*command, "--jobs", 2, cwd=place).out
    assert "4 trials in experiments/mine" in told and "scripted" in told
    before = digest_of(place / "experiments")
    again = run(*command, "--json", cwd=place).json
    assert [each["right"] for each in again["trials"]] == [1] * 4 and again["scripted"]
    assert digest_of(place / "experiments") == before
    assert "holds another experiment" in fails(*command, "--orders", 2, cwd=place)
    environment = json.loads((place / "experiments" / "mine" / "environment.json").read_text())
    assert environment["source"]["id"] == "lights"


@pytest.mark.slow
def test_shards_share_a_folder_and_status_shows_who_is_at_what(place: Path) -> None:
    command = ("experiment", "run", "mine.toml", "--ont", "lights", "--lm", "script:turns.toml", "--into", "shared")
    done = run(*command, "--shard", "2/2", "--json", cwd=place).json
    assert [each["condition"] for each in (trial["trial"] for trial in done["trials"])] == ["with", "without"]
    assert "no trial was left for this shard" in run(*command, "--shard", "1/2", cwd=place).err
    (place / "shared" / "banks" / "with" / "o0-r0").rename(place / "away")
    facts = run("experiment", "status", "shared", "--json", cwd=place).json
    assert [each["state"] for each in facts] == ["finished", "stale"] and facts[1]["generation"] == 1
    shown = run("experiment", "status", "shared", cwd=place).out
    assert "2 trials: 1 finished, 1 stale" in shown and facts[1]["owner"].split()[1] in shown
    script = run(*command, "--shard=2/2", "--slurm", cwd=place).out
    assert "#SBATCH --array=1-2" in script and '--shard="$SLURM_ARRAY_TASK_ID/2"' in script
    assert "--slurm" not in script and "--into shared" in script


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "E99"], "no experiment is called 'E99'"),
        (["run", "missing.toml"], "missing.toml"),
        (["run", "mine.toml"], "names neither an ontology nor an endpoint: name one source with --ont or --endpoint"),
        (["run", "mine.toml", "--ont", "lights"], "no model is named"),
        (["run", "E9", "--prices", "1,2"], "add --dry-run"),
        (["run", "E9", "--dry-run", "--prices", "1"], "write two numbers"),
        (["run", "E9", "--dry-run", "--prices", "nan,1"], "0 or more"),
        (["run", "E9", "--dry-run", "--orders", "9000", "--repeat", "9000"], "trials; an experiment has at most"),
        (["run", "E9", "--lm", "openai/x", "--shard", "1/2"], "shard"),
        (["run", "E9", "--lm", "openai/x", "--slurm"], "shard"),
        (["run", "E9", "--lm", "openai/x", "--shard", "3/2", "--into", "x"], "shard"),
        (["show", "E9", "--toml", "--json"], "two forms of the same"),
    ],
)
def test_what_can_not_be_run_is_refused(place: Path, arguments: list[str], said: str) -> None:
    assert said in " ".join(fails("experiment", *arguments, cwd=place).split())


# ---------------------------------------------------------------- report, check and compare


@pytest.mark.slow
def test_a_report_is_written_checked_and_compared_and_a_change_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "pair", pair(2), suite_of(2))
    assert "make one first: rbank-es experiment report" in told(fails("experiment", "check", "pair", cwd=tmp_path))
    made = run("experiment", "report", "pair", cwd=tmp_path).out
    assert (
        made.startswith("SCRIPTED: in 8 of 8 runs") and "equal in each of 2 orders" in told(made) and "2 of 2" in made
    )
    assert run("experiment", "check", "pair", "--json", cwd=tmp_path).json["ok"]
    assert len(run("experiment", "check", "pair", cwd=tmp_path).out.splitlines()[1].split()[1]) == 64
    compared = run("experiment", "compare", "pair", "pair", "--json", cwd=tmp_path).json
    assert {each["difference"]["mean"] for each in compared["metrics"]} == {0}
    page = folder / "report.html"
    page.write_text(page.read_text().replace("<h1>pair", "<h1>great"))
    done = run("experiment", "check", "pair", cwd=tmp_path, code=1)
    seen = done.out
    assert "the runs are of the code 0.1.0 (cccccccccccc), and this is other code" in " ".join(done.err.split())
    assert "does not hold" in seen and "report.html, line" in seen and "great" in seen


def told(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


@pytest.mark.slow
def test_answers_are_rated_by_a_rubric_and_the_report_shows_it(tmp_path: Path) -> None:
    require_dspy()
    written(tmp_path / "pair")
    (tmp_path / "rating.toml").write_text(RATED)
    command = ("experiment", "rate", "pair", "--lm", "script:rating.toml", "--rubric", "answer")
    assert "rated 24 texts by script:rating; 0 had a rating" in run(*command, cwd=tmp_path).out
    again = run(*command, "--json", cwd=tmp_path).json
    assert (again["before"], again["now"], again["scripted"]) == (24, 0, True)
    run("experiment", "report", "pair", cwd=tmp_path)
    assert "Rating by a model, of a rubric" in (tmp_path / "pair" / "report.html").read_text()
    assert run("experiment", "check", "pair", "--json", cwd=tmp_path).json["ok"]


TWO = {
    "ontologies": {"pets": ["pets.ttl"]},
    "tasks": [
        {"id": "lights", "ontology": "lights", "question": "How many lighthouses are there?",
         "gold_sparql": "SELECT (COUNT(?l) AS ?n) { ?l a lt:Lighthouse }"},
        {"id": "pets", "ontology": "pets", "question": "How many dogs are there?",
         "gold_sparql": "SELECT (COUNT(?d) AS ?n) { ?d a <http://pets.example/Dog> }"},
    ],
}  # fmt: skip
PETS = """
@prefix p: <http://pets.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
p:Dog a rdfs:Class ; rdfs:label "Dog" . p:rex a p:Dog . p:max a p:Dog .
"""
TWO_TURNS = "".join(
    f"""
[[task]]
id = "{task["id"]}"
[[task.agent]]
fields.next_thought = "That is it."
fields.next_tool_name = "SUBMIT"
fields.next_tool_args = {{ answer = "some", sparql = "{task["gold_sparql"]}" }}
"""
    for task in TWO["tasks"]
)
EACH = """
name = "each"
title = "Two ontologies"
suite = "two.json"
orders = 2
[shared]
executor = "react"
judge = "checks"
[[condition]]
name = "card"
layers = ["L0"]
"""


@pytest.mark.slow
def test_each_task_of_a_suite_about_several_ontologies_asks_its_own(tmp_path: Path) -> None:
    for name, text in {
        "two.json": json.dumps(TWO),
        "pets.ttl": PETS,
        "turns.toml": TWO_TURNS,
        "each.toml": EACH,
    }.items():
        (tmp_path / name).write_text(text)
    command = ("experiment", "run", "each.toml", "--lm", "script:turns.toml")
    assert run(*command, "--dry-run", "--json", cwd=tmp_path).json["runs"] == 4
    done = run(*command, "--json", cwd=tmp_path).json
    assert [(each["right"], each["wrong"]) for each in done["trials"]] == [(2, 0)] * 2
    assert [(each["outcome"], each["runs"]) for each in done["endings"]] == [("submitted", 4)]
    with Bank.open(tmp_path / "experiments" / "each" / "banks" / "card" / "o0-r0") as bank:
        asked = {each.task_id: each.ontology for each in of_type(bank, RunStarted)}
        given = {each.run.split("-")[0]: bank.text(each.texts[1]) or "" for each in of_type(bank, ContextBuilt)}
    assert asked == {"lights": "lights", "pets": "pets"}
    assert "Dog" in given["pets"] and "Lighthouse" in given["lights"]
    before = digest_of(tmp_path / "experiments")
    run(*command, cwd=tmp_path)
    assert digest_of(tmp_path / "experiments") == before
    folder = "experiments/each"
    run("experiment", "report", folder, cwd=tmp_path)
    assert run("experiment", "check", folder, "--json", cwd=tmp_path).json["ok"]
    assert "asked several sources" in fails("experiment", "report", folder, "--ont", "pets.ttl", cwd=tmp_path)


@pytest.mark.slow
def test_a_suite_about_an_endpoint_is_run_over_http_and_its_report_holds_when_the_server_is_gone(place: Path) -> None:
    """No option names the endpoint: the tasks do. No run is given a lesson that was drawn from its own task."""
    lights = load_suite(LIGHTS)
    chosen = [task for task in lights.tasks if task.id in lights.families["superclasses"][:3]]
    (place / "mine.toml").write_text(MINE + "[shared.policies.retrieval]\ncoverage = 0.0\nshare_of_best = 0.0\n")
    with oxigraph(place / "server", source().ontology.quads) as url:  # type: ignore[union-attr]
        asked = [msgspec.structs.replace(task, ontology=None, endpoint=url) for task in chosen]
        (place / "tasks.json").write_bytes(suite_json(Suite.of("asked", asked)))
        assert run("suite", "check", "tasks.json", "--online", cwd=place).out.startswith(
            "asked: 3 tasks in 1 family, no"
        )
        run("suite", "script", "tasks.json", "--into", "gold.toml", cwd=place)
        command = ("experiment", "run", "mine.toml", "--lm", "script:gold.toml", "--orders", 2)
        done = run(*command, "--json", cwd=place).json
        assert [(each["right"], each["wrong"]) for each in done["trials"]] == [(3, 0)] * 4
    run("experiment", "report", "experiments/mine", cwd=place)
    assert run("experiment", "check", "experiments/mine", "--json", cwd=place).json["ok"]
    rows = [*map(json.loads, (place / "experiments/mine/results/runs.jsonl").read_text().splitlines())]
    given = [row for row in rows if row["condition"] == "with" and row["position"] > 1]
    assert all(row["given"] for row in given) and not any(row["contamination"] for row in rows)
    with Bank.open(place / "experiments/mine/banks/with/o0-r0") as bank:
        assert {started.endpoint for started in of_type(bank, RunStarted)} == {url}


def test_a_guide_over_several_ontologies_and_one_without_files_are_refused(tmp_path: Path) -> None:
    for name, text in {"two.json": json.dumps(TWO), "pets.ttl": PETS, "each.toml": EACH}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "guided.toml").write_text(EACH.replace('["L0"]', '["L3"]'))
    command = ("experiment", "run", "--dry-run")
    assert "is about one ontology" in fails(*command, "guided.toml", cwd=tmp_path)
    (tmp_path / "two.json").write_text(json.dumps({"tasks": TWO["tasks"]}))
    assert "is about pets: name its files" in fails(*command, "each.toml", cwd=tmp_path)
