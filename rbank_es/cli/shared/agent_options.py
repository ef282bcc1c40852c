"""Options of the commands that run an agent (models, sources, vectors, budgets), and the checks on them.

An option that has no effect beside the others of a command line is refused, with the alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from rbank_es import limits
from rbank_es.cli.shared.arguments import RegisteredName, parse_budget
from rbank_es.cli.shared.command_registry import decorated
from rbank_es.cli.shared.ontology_options import ontology_options, open_named, whole_option
from rbank_es.cli.shared.output import warn
from rbank_es.errors import BadInput
from rbank_es.events.readable_text import count
from rbank_es.judging.verdict import NOBODY
from rbank_es.models.model_choice import SCRIPT

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.executors.executor import Executor
    from rbank_es.models.embedder import SearchVectors
    from rbank_es.models.model_choice import LmChoice
    from rbank_es.sparql.data_source import Source
    from rbank_es.system.registry import Registry


Given = Mapping[str, Any]
"""The values of a command's options by parameter, given or default."""


def _executors() -> Registry[type[Executor]]:
    from rbank_es.executors.executor import EXECUTORS

    return EXECUTORS


source_options = decorated(
    ontology_options(),
    click.option("--endpoint", metavar="URL|NAME", help="A SPARQL endpoint instead: its URL, or a profile's name."),
    click.option("--void", metavar="FILE", help="A VoID description of the endpoint: its schema, with no query."),
    click.option(
        "--id", "id", metavar="ID", help="The source's name in the bank; default: of the first file or the endpoint."
    ),
    whole_option,
)

agent_model_options = decorated(
    click.option("--lm", metavar="MODEL", help="The agent's model: openai/NAME, another provider's, or script:FILE."),
    click.option("--sub-lm", metavar="MODEL", help="The model that the agent's code may ask; default: --lm."),
)

learning_model_options = decorated(
    click.option("--judge-lm", metavar="MODEL", help="The model that judges; default: --lm."),
    click.option("--extractor-lm", metavar="MODEL", help="The model that extracts items from runs; default: --lm."),
)

server_options = decorated(
    click.option("--api-base", metavar="URL", help="Address of your own model server, for all models named."),
    click.option(
        "--lm-arg",
        "lm_args",
        metavar="K=V",
        multiple=True,
        help="A parameter, for all models named; judge.K=V is for one role, or the guide.",
    ),
)

bound_option = click.option(
    "--bound", "bounds", metavar="NAME=N", multiple=True,
    help="A bound of each step or run, such as step_calls=50 or run_tokens=90000; see docs/executors.md.",
)  # fmt: skip

memory_graph_option = click.option(
    "--memory-graph", is_flag=True,
    help="Offer the agent the bank's own provenance as a graph: memory_schema, memory_query.",
)  # fmt: skip

executor_options = decorated(
    click.option(
        "--executor", type=RegisteredName(_executors), default="rlm", show_default=True,
        help="How the agent works: in code, or by calls of tools; see docs/executors.md.",
    ),
    click.option(
        "--iterations", metavar="N", type=click.IntRange(1),
        help=f"Steps that a run may take; default: {limits.RUN_ITERATIONS}.",
    ),
    bound_option,
    click.option(
        "--tools", "tool_manual", type=click.Choice(["short", "all"]), default="short", show_default=True,
        help="The manual of tools in prompts: a line for each common tool, or all of every tool.",
    ),
    click.option("--unsafe-local", is_flag=True, help="Run the agent's code WITHOUT a sandbox."),
)  # fmt: skip


context_options = decorated(
    click.option("--preset", type=click.Choice(["full", "lean"]), default="full", show_default=True, help="Budgets."),
    click.option("--budget", "budgets", metavar="L1=400", multiple=True, help="Characters of one layer, or of 'base'."),
    click.option(
        "--mode", type=click.Choice(["auto", "tools", "both"]), default="auto", show_default=True,
        help="How memory reaches the agent: in the context, by its tools (no L2), or both.",
    ),
    click.option(
        "--domain", metavar="ID", help="The task's domain, whose items may be preferred; default: the source's name."
    ),
    memory_graph_option,
    click.option("--guide", "guide_file", metavar="FILE", help="A guide in Markdown; default: the latest in the bank."),
    click.option("--constraints", metavar="FILE", help="Curated constraints in TOML; default: those beside PATH."),
)  # fmt: skip


def parse_models(
    given: dict[str, str | None], api_base: str | None, arguments: Sequence[str]
) -> dict[str, LmChoice | None]:
    """Return the models by the names of their options, all with the same address and arguments. Raises `BadInput`."""
    from rbank_es.models.model_choice import LmChoice

    return {
        name: LmChoice.parse(model, api_base=api_base, arguments=arguments) if model is not None else None
        for name, model in given.items()
    }


def named_source(given: Given, stack: ExitStack) -> Source:
    """Open the source that the options of `source_options` name, as `open_named` does."""
    return open_named(given["paths"], stack, **{name: given[name] for name in ("endpoint", "void", "id", "whole")})


def known_source(bank: Bank | None, source: Source) -> Source:
    """Return a source as a bank knows it (`as_registered`); warn where another ontology has its name there."""
    from rbank_es.bank.ontology_registrations import as_registered

    known = as_registered(bank, source) if bank is not None else source
    if known.id != source.id:
        warn(
            f"the bank knows another ontology as {source.id}, so this one is {known.id}: --id {source.id} makes it "
            "the next version of that one"
        )
    return known


def read_constraints(given: str | None, paths: Sequence[str]) -> str | None:
    """Return the curated constraints: from the file named, else from the one beside the ontology, else None.

    Raises `BadContextFile` for a file that can't be used.
    """
    from rbank_es.context.companion_files import companions_of
    from rbank_es.context.constraints import parse_curated
    from rbank_es.context.layer_sections import read_text

    place = Path(given) if given is not None else companions_of(paths).constraints
    if place is None:
        return None
    text = read_text(place)
    # Only to refuse a bad file before any run: settings keep the text, from which their digest is made.
    parse_curated(text, str(place))
    return text


def read_guide(given: str | None, paths: Sequence[str], source: Source, bank: Bank | None) -> str | None:
    """Return the guide named; else, for the shipped ontology, its own where the bank has none; else None."""
    from rbank_es.context.companion_files import companions_of
    from rbank_es.context.guide_summary import latest_guide
    from rbank_es.context.layer_sections import read_text

    if given is not None:
        return read_text(Path(given))
    own = companions_of(paths).guide
    return read_text(own) if own is not None and (bank is None or latest_guide(bank, source.id) is None) else None


MODELS = ("lm", "sub_lm", "judge_lm", "extractor_lm")

TEST_OPTIONS = frozenset(
    {"bank", "self_test", "extract", "lm", "judge_lm", "extractor_lm", "api_base", "lm_args", "verbose"}
)
"""Parameters that `--test` uses."""


class Idle(NamedTuple):
    """Options without an effect where `where` holds, with the reason; `{}` in it becomes their names."""

    names: tuple[str, ...]
    where: Callable[[Given], bool]
    why: str


OF_THE_AGENT = (
    Idle(("sub_lm", "unsafe_local"), lambda given: not _runs_code(given), "this executor runs no code: leave out {}"),
    Idle(
        ("api_base",),
        lambda given: given["lm"] is not None and not any(_is_of_a_server(given.get(name)) for name in MODELS),
        "a script has no address: leave out {}",
    ),
)
"""Rules of every command that sets an agent to work."""

OF_A_LOOP = (
    *OF_THE_AGENT,
    Idle(("constraints",), lambda given: not given["l1"], "constraints reach an agent in L1: add --l1 to {}"),
    Idle(("guide_file",), lambda given: not given["l3"], "a guide reaches an agent in L3: add --l3 to {}"),
    Idle(("extractor_lm", "no_dedup"), lambda given: not _learns(given), "nothing is extracted: add --extract to {}"),
    Idle(("judge_lm",), lambda given: not _asks_model(given), "no model is asked to judge: leave out --judge or {}"),
    Idle(("supervised",), lambda given: given["judge"] == NOBODY, "nobody judges: leave out --judge none or {}"),
    Idle(
        ("supervised",),
        lambda given: given["question"] is not None,
        "a --task has no right answer to judge by: leave out {}, or give one in a file with --tasks",
    ),
    Idle(
        ("perturb",),
        lambda given: given["perturb"] != "none" and (not given["matts"] or given["matts_k"] == 1),
        "{} puts the question otherwise to each of several rollouts: add --matts, with more than one",
    ),
    Idle(
        ("l2",),
        lambda given: given["mode"] == ("tools" if given["l2"] else "both"),
        "{} contradicts --mode: items are put in the context with auto and both, and not with tools",
    ),
)
"""Rules of `run`."""


def _runs_code(given: Given) -> bool:
    from rbank_es.executors.executor import executor_class

    return executor_class(given["executor"]).runs_code


def _asks_model(given: Given) -> bool:
    from rbank_es.judging.judges import needs_of

    # By the bank's policy, a model may be asked.
    return given["judge"] is None or "model" in needs_of(given["judge"])


def refuse_idle(context: click.Context, given: Given, rules: tuple[Idle, ...]) -> None:
    """Raise `BadInput` for the first option given that has no effect."""
    flags = flags_given(context)
    for rule in rules:
        idle = [flags[name] for name in rule.names if name in flags]
        if idle and rule.where(given):
            raise BadInput(rule.why.format(" and ".join(idle)))


def refuse_beside_test(context: click.Context) -> None:
    """Raise `BadInput` for options that `--test` doesn't use."""
    idle = [flag for name, flag in flags_given(context).items() if name not in TEST_OPTIONS]
    if idle:
        raise BadInput(
            f"--test judges and extracts on made-up runs of its own, without {', '.join(idle)}: "
            f"leave {'it' if len(idle) == 1 else 'them'} out, or leave out --test"
        )


def refuse_idle_budgets(given: Given, layers: tuple[str, ...]) -> None:
    """Raise `BadInput` for the budget of a layer that is off, or for a second budget of a layer."""
    named = [parse_budget(text)[0] for text in given["budgets"]]
    shown = {"base", *layers} - ({"L2"} if given["mode"] == "tools" else set())
    for layer in named:
        if layer in ("L0", "L1", "L2", "L3") and layer not in shown:
            advice = "leave out --no-l2 and --mode tools" if layer == "L2" else f"add --{layer.lower()}"
            raise BadInput(f"--budget {layer} has no effect because the layer is off: {advice}, or leave it out")
        if named.count(layer) > 1:
            raise BadInput(f"--budget {layer} is given {named.count(layer)} times; give it once")


def warn_of_experiment(budgets: Mapping[str, int]) -> None:
    """Warn of a layer L2 that is larger than what runs are compared by."""
    chars, usual = budgets.get("L2", 0), limits.CONTEXT_L2_CHARS
    if chars > usual:
        warn(f"L2 has {chars:,} characters instead of {usual}: that is an experiment; its runs record the budget")


def flags_given(context: click.Context) -> dict[str, str]:
    """Return the options on the command line, as they are written, by parameter."""
    flags = {}
    for option in context.command.params:
        name = str(option.name)
        on_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if on_line and isinstance(option, click.Option) and name not in ("as_json", "help"):
            off = option.secondary_opts and not context.params[name]
            flags[name] = (option.secondary_opts if off else option.opts)[0]
    return flags


def _learns(given: Given) -> bool:
    return bool(given["extract"] or given["matts"])


def _is_of_a_server(model: str | None) -> bool:
    return model is not None and not model.startswith(SCRIPT)


embeddings_option = click.option(
    "--embeddings-url", metavar="URL",
    help="The endpoint that gives vectors of questions and items, where the bank's retrieval policy is hybrid-1.",
)  # fmt: skip


@contextmanager
def search_vectors(bank: Bank, url: str | None) -> Iterator[SearchVectors | None]:
    """Yield the source of vectors for searches, None without a URL; at the end, warn of vectors it did not give.

    Raises `BadInput` for a URL that can't be.
    """
    choice = bank.policy_choice("retrieval")
    if url is None:
        if choice is not None and choice.name == "hybrid":
            warn("the bank's retrieval policy is hybrid-1: without --embeddings-url, words alone rank new questions")
        yield None
        return
    from rbank_es.models.embedder import SearchVectors

    with SearchVectors(url) as vectors:
        try:
            yield vectors
        finally:
            if vectors.failures:
                failed = count(len(vectors.failures), "request")
                warn(f"{failed} for vectors failed, so words alone ranked; the first: {vectors.failures[0]}")
