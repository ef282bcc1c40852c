"""What is installed: one top-level name that holds every module, and a command that needs no development tools."""

import lzma
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution, distributions
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_readme import lines_of, programs_of_a_loop

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {"rbank_es": "rbank_es"} | {name: f"rbank_es/{name}" for name in ("lab", "projections", "tools")}
PACKED_SAMPLE = "rbank_es/cli/shared/sample.jsonl.xz"
LINKS = {f"rbank_es/{name}": f"../{name}" for name in ("lab", "projections", "tools")}

# One worker builds the wheel for all of these.
pytestmark = pytest.mark.xdist_group("wheel")


def source_files(folder: str) -> Iterator[Path]:
    """The files of a source folder, each once: symlinks and caches are passed by."""
    for path in sorted((ROOT / folder).rglob("*")):
        name = path.relative_to(ROOT / folder)
        is_cache = any(part == "__pycache__" or part.startswith(".") for part in name.parts)
        if path.is_file() and path == path.resolve() and not is_cache:
            yield name


def run(*command: str | Path, cwd: Path | None = None, code: int = 0, **settings: str) -> str:
    # An interpreter's own settings must not leak into the environments made here.
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")} | settings
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if not code else done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built from a copy (leftovers in build/ would get into it) and without a network."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "logs" / "sample", copy / "logs" / "sample", ignore=shutil.ignore_patterns("derived"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, copy)
    [made] = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_package_list_names_every_folder_that_holds_modules() -> None:
    inits = ((FOLDERS[folder], path) for folder in FOLDERS for path in source_files(folder) if path.suffix == ".py")
    found = {".".join(Path(base, *path.parent.parts).parts) for base, path in inits}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found, "adjust [tool.setuptools] packages"


def test_every_package_has_an_init() -> None:
    bare = [
        str(Path(folder, path.parent))
        for folder in FOLDERS
        for path in source_files(folder)
        if path.suffix == ".py" and not (ROOT / folder / path).with_name("__init__.py").exists()
    ]
    assert bare == []


@pytest.mark.parametrize(("link", "goal"), LINKS.items())
def test_static_tools_find_the_mapped_folders_through_symlinks(link: str, goal: str) -> None:
    path = ROOT / link
    # A clone with core.symlinks=false holds a small text file instead; it still builds, installs and runs.
    assert (os.readlink(path) if path.is_symlink() else path.read_text().strip()) == goal  # noqa: PTH115 (as text)


@pytest.mark.slow
def test_the_only_top_level_name_is_the_package(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    version = re.search(r'__version__ = "(.+)"', (ROOT / "rbank_es/__init__.py").read_text())
    assert version
    assert tops == {"rbank_es", f"rbank_es-{version[1]}.dist-info"}


@pytest.mark.slow
def test_every_file_of_the_packages_is_in_the_wheel(names: set[str]) -> None:
    wanted = {str(Path(FOLDERS[folder], path)) for folder in FOLDERS for path in source_files(folder)}
    assert "rbank_es/py.typed" in wanted
    assert {name for name in names if ".dist-info/" not in name} == {*wanted, PACKED_SAMPLE}, (
        "see [tool.setuptools.package-data]"
    )


@pytest.mark.slow
def test_the_shipped_data_are_in_the_wheel(names: set[str]) -> None:
    """The ontology with all that was written about it, and the endpoint profiles."""
    told = (
        "lights.ttl",
        "lights_guide.md",
        "lights_constraints.toml",
        "lights_seed.json",
        "lights_tasks.json",
        "lights_suite.json",
    )
    wanted = {f"rbank_es/data/{name}" for name in (*told, "endpoints/uniprot.toml", "endpoints/wikidata.toml")}
    assert wanted <= names, "see [tool.setuptools.package-data]"


@pytest.mark.slow
def test_the_sample_bank_is_in_the_wheel_compressed(wheel: Path) -> None:
    """Its log, byte for byte, in at most 300 KB."""
    packed = zipfile.ZipFile(wheel).read(PACKED_SAMPLE)
    [segment] = (ROOT / "logs" / "sample").glob("*.jsonl")
    assert lzma.decompress(packed) == segment.read_bytes() and len(packed) <= 300_000


@pytest.mark.slow
def test_the_licence_is_in_the_wheel(names: set[str], wheel: Path) -> None:
    [licence] = [name for name in names if name.endswith("LICENSE")]
    assert zipfile.ZipFile(wheel).read(licence) == (ROOT / "LICENSE").read_bytes()


def wheel_requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []


def closure(requirements: list[str], extra: str = "") -> dict[str, Distribution]:
    """The installed distributions that the requirements bring, directly and indirectly, with an extra of ours."""
    ours = [Requirement(text) for text in requirements]
    extras = {"", extra}
    extras |= {name for each in ours if each.name == "rbank-es" and applies(each, extra) for name in each.extras}
    queue = [(each, extras) for each in ours if each.name != "rbank-es"]
    found: dict[str, Distribution] = {}
    seen = set[tuple[str, ...]]()
    while queue:
        wanted, of = queue.pop()
        # With its extras, because what is asked for plainly may be asked for with an extra, too.
        asked = (wanted.name, *sorted(wanted.extras))
        if asked in seen or not applies(wanted, *of):
            continue
        seen.add(asked)
        found[wanted.name] = distribution(wanted.name)
        assert found[wanted.name].version in wanted.specifier, f"{wanted} is not what is installed here"
        queue += [(Requirement(text), {"", *wanted.extras}) for text in found[wanted.name].requires or []]
    return found


def applies(requirement: Requirement, *extras: str) -> bool:
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in extras)


def link_into(site: Path, dist: Distribution) -> None:
    """Make one installed distribution visible in another environment, and only that one."""
    for top in {file.parts[0] for file in dist.files or []} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(dist.locate_file(top))))


class Installed(NamedTuple):
    """A fresh environment with the wheel and what its metadata asks for, perhaps with an extra; without a network."""

    home: Path
    size_bytes: int

    def run(self, *arguments: str, cwd: Path, code: int = 0) -> str:
        """Run the command; return what it prints on both streams."""
        command = (self.home / "bin/rbank-es", *arguments)
        settings = {"RBANK_CACHE": str(self.home / "cache"), "RBANK_HOME": str(ROOT / "logs")}
        return run(*command, cwd=cwd, code=code, **settings)


def installed(wheel: Path, home: Path, extra: str = "") -> Installed:
    """Install the wheel by links to what is installed here."""
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin/python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    found = closure(wheel_requirements(wheel), extra)
    for dist in found.values():
        link_into(site, dist)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    [own] = distributions(name="rbank-es", path=[str(site)])
    brought = [own, *(dist for name, dist in found.items() if name != "pip")]
    files = [Path(str(dist.locate_file(file))) for dist in brought for file in dist.files or []]
    return Installed(home, sum(file.stat().st_size for file in files if file.is_file()))


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(wheel, tmp_path_factory.mktemp("core") / "venv")


CORE_MB = 30
"""The most that the core may take, compiled, beside pip, which sqlite-utils asks for."""


@pytest.mark.slow
def test_the_core_is_small_and_is_installed_under_one_name(core: Installed, tmp_path: Path) -> None:
    assert core.size_bytes < CORE_MB * 10**6
    origin = "import rbank_es.projections, rbank_es.tools; print(rbank_es.__file__, rbank_es.tools.__file__)"
    python = core.home / "bin/python"
    places = run(python, "-c", origin, cwd=tmp_path).split()
    assert all(Path(file).is_relative_to(core.home.resolve()) for file in places)
    for top in ("lab", "projections", "tools", "pytest", "rdflib", "pyoxigraph", "dspy", "regex"):
        run(python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({top!r}) is not None)", cwd=tmp_path)


RUN, ITEM = "lights-08-7d2405bc-1", "14f054b822ec"
WITH_CORE = [
    "--help", "init ./a", "runs sample", "items sample", f"show sample {RUN}", "search sample tower", "health sample",
    "log sample --tail 3", "verify sample --retrievals --decisions", "replay sample", "project sample --into p.sqlite",
    "diff sample@100 sample", f"impact sample {ITEM}", "review sample --verdicts 2", "policy sample", "head sample",
    "dashboard sample -o d.html", "demo --sample ./kept", "context sample --task x", "experiment list", "schema",
    "export sample --format items", "export sample --format prov", "learn sample --due --dry-run", "completion bash",
    "fork sample ./f", f"overrule sample {RUN} --failure --by a --reason b --dry-run", "correct sample --dry-run",
]  # fmt: skip
WITH_ONTOLOGY = [
    "ontology lights", "tools --ont lights", "context sample --task x --ont lights", "drift sample --ont lights",
    "suite check lights", "guide ./g --ont lights --lm openai/x",
]  # fmt: skip
ASK = 'sparql_query {"query": "SELECT (COUNT(?l) AS ?n) WHERE { ?l lt:status lt:Lit }"}'


@pytest.mark.slow
def test_with_the_core_alone_every_command_runs_or_names_the_missing_extra(core: Installed, tmp_path: Path) -> None:
    for line in WITH_CORE:
        assert "needs an optional part" not in core.run(*line.split(), cwd=tmp_path), line
    for line in WITH_ONTOLOGY:
        assert "pip install 'rbank-es[ontology]'" in core.run(*line.split(), cwd=tmp_path, code=2), line


LEARNS = """
import sys
from rbank_es import Bank
from rbank_es.events import RunFinished, RunStarted, StepTaken
from rbank_es.judging import judge_by_lm, outcome_of
from rbank_es.loop.late_extraction import all_lessons_to_draw, draw_late
from rbank_es.models.run_models import lms_for

JUDGED = "[[ ## verdict ## ]]\\nsuccess\\n\\n[[ ## reason ## ]]\\nIt answers."
DRAWN = '[[ ## memory_items ## ]]\\n[{"title": "Count in the query", "content": "It is one row."}]'

def complete(prompt):
    return JUDGED if "suspicions" in prompt else DRAWN

with Bank.create("./b") as bank:
    for run in ("r1", "r2"):
        bank.append([
            RunStarted(run=run, task="How many lamps are lit?"),
            StepTaken(run=run, index=1, reasoning="Count.", code="count()", output="3"),
            RunFinished(run=run, outcome="submitted", answer="3"),
        ])
    with lms_for(bank, "r1", complete=complete) as lms:
        bank.append(judge_by_lm(outcome_of(bank, "r1"), lms).event("r1"))
        [lesson] = all_lessons_to_draw(bank)
        print(*draw_late(bank, lesson, lms).titles)
assert not {"dspy", "httpx", "rdflib"} & sys.modules.keys()
"""
TURNS = """
[[task]]
id = "r2"
[[task.judge]]
fields = { verdict = "failure", reason = "It guessed." }
[[task.extractor]]
fields = { memory_items = [{ title = "Look before counting", content = "Which lamps are there?" }] }
"""


@pytest.mark.slow
def test_with_the_core_alone_runs_are_judged_and_learned_from(core: Installed, tmp_path: Path) -> None:
    """With a function and with a script; of another provider, the message says what needs nothing more."""
    (tmp_path / "learns.py").write_text(LEARNS)
    (tmp_path / "turns.toml").write_text(TURNS)
    assert "Count in the query" in run(core.home / "bin/python", "learns.py", cwd=tmp_path)
    judged = core.run(*["judge", "run", "./b", "r2", "--judge", "lm", "--judge-lm", "script:turns.toml"], cwd=tmp_path)
    assert "It guessed." in judged
    assert "Look before counting" in core.run(*["learn", "./b", "r2", "--lm", "script:turns.toml"], cwd=tmp_path)
    elsewhere = "judge run ./b r2 --judge lm --judge-lm anthropic/x"
    assert "openai/NAME, --api-base URL" in core.run(*elsewhere.split(), cwd=tmp_path, code=2)


@pytest.mark.slow
def test_with_the_core_alone_a_loop_of_ones_own_learns_as_the_readme_shows(core: Installed, tmp_path: Path) -> None:
    for program, printed in programs_of_a_loop(tmp_path).items():
        said = run(core.home / "bin/python", program, cwd=tmp_path, RBANK_CACHE=str(core.home / "cache"))
        assert lines_of(said) == printed


@pytest.mark.slow
def test_with_the_extra_for_ontologies_they_can_be_read_and_asked(wheel: Path, tmp_path: Path) -> None:
    made = installed(wheel, tmp_path / "venv", "ontology")
    tried = made.run("tools", "--call", ASK, cwd=tmp_path)
    assert "over lights (600 triples)" in tried and '"rows": 1' in tried
    assert "rbank-es[agent]" in made.run("guide", "./g", "--ont", "lights", "--lm", "openai/x", cwd=tmp_path, code=2)


@pytest.mark.slow
def test_with_the_extra_for_agents_a_model_can_be_named(wheel: Path, tmp_path: Path) -> None:
    """It brings the one for ontologies; without a key, that is what is missing."""
    made = installed(wheel, tmp_path / "venv", "agent")
    line = "run ./b --ont lights --task x --lm openai/x --executor react"
    assert "OPENAI_API_KEY" in made.run(*line.split(), cwd=tmp_path, code=2)


BEGIN = """
from rbank_es import Bank
with Bank.create("./b") as bank:
"""
ALONE = {
    "frames": """
    print(len(bank.runs().to_pandas()), len(bank.runs().to_polars()))
""",
    "lab": """
    from rbank_es.lab.statistics import t_quantile
    print(t_quantile(0.5, 3))
""",
    "langchain": """
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from rbank_es.agents.langchain_middleware import BankMiddleware
    model = GenericFakeChatModel(messages=iter([AIMessage("hall")]))
    agent = create_agent(model, middleware=[BankMiddleware(bank, judge=lambda task, answer: answer == "hall")])
    agent.invoke({"messages": "Which lamp is lit?"})
    print([(row.task, row.verdict) for row in bank.runs().rows])
""",
    "mcp": """
    from rbank_es.agents.mcp_server import make_server, served_tools
    with served_tools(bank, read_only=True) as tools:
        print(make_server(bank, tools).name)
""",
    "openai-agents": """
    from agents import generation_span, set_trace_processors, trace
    from rbank_es.agents.agents_sdk import BankProcessor
    set_trace_processors([BankProcessor(bank)])
    said = {"role": "user", "content": "Which lamp is lit?"}
    with trace("lamps"), generation_span(input=[said], output=[{"role": "assistant", "content": "hall"}], model="m"):
        pass
    print([(row.task, row.lm_calls) for row in bank.runs().rows])
""",
    "otlp": """
    from rbank_es.agents.traces.otlp_body import body_of_protobuf
    print(body_of_protobuf(b"", "traces"))
""",
    "postgres": """
    from rbank_es.errors import LogUnavailable
    try:
        Bank.open("postgresql://127.0.0.1:1/none")
    except LogUnavailable as error:
        print("can't reach" in str(error))
""",
}
"""What each other extra is for, tried with it alone. No server and no key is needed."""

PRINTED = {
    "frames": "0 0",
    "lab": "0.0",
    "langchain": "[('Which lamp is lit?', 'success')]",
    "mcp": "rbank-es b",
    "openai-agents": "[('Which lamp is lit?', 1)]",
    "otlp": "SentBody(spans=[], refused=0, reason='')",
    "postgres": "True",
}


@pytest.mark.slow
@pytest.mark.parametrize("extra", ALONE)
def test_each_other_extra_alone_brings_what_it_is_for(extra: str, wheel: Path, tmp_path: Path) -> None:
    """And the core without it names it, as another test asks of each command."""
    made = installed(wheel, tmp_path / "venv", extra)
    program = tmp_path / "program.py"
    program.write_text(BEGIN + ALONE[extra])
    said = run(made.home / "bin/python", program, cwd=tmp_path, RBANK_CACHE=str(tmp_path / "cache"))
    assert said.strip() == PRINTED[extra]


def test_every_extra_for_users_is_tried_alone() -> None:
    assert (
        ALONE.keys() | {"ontology", "agent", "all", "bench", "dev"}
        == PROJECT["project"]["optional-dependencies"].keys()
    )


# ---------------------------------------------------------------- the lock file


def locked() -> dict[str, tuple[str, int]]:
    """The version of each package in the lock file, and how many digests it may have."""
    text = (ROOT / "requirements-dev.lock").read_text()
    found = re.findall(r"^([\w.-]+)==(\S+)[^\n]*((?:\n +--hash=sha256:[0-9a-f]{64}[ \\]*)*)", text, re.MULTILINE)
    return {canonicalize_name(name): (version, hashes.count("--hash")) for name, version, hashes in found}


def test_the_lock_file_has_every_dependency_within_its_bounds_and_a_digest_of_every_file() -> None:
    project, versions = PROJECT["project"], locked()
    extras = (project["optional-dependencies"][name] for name in ("agent", "dev"))
    wanted = [Requirement(text) for text in chain(project["dependencies"], *extras)]
    for requirement in wanted:
        if requirement.name != "rbank-es":
            version, _ = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement}, and {version} is locked: run make lock"
    assert all(digests for _, digests in versions.values())


def test_the_lock_file_names_no_place_to_fetch_from() -> None:
    """Whoever installs from it chooses the registry."""
    assert "://" not in (ROOT / "requirements-dev.lock").read_text()
