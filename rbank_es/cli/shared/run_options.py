"""Options that would do nothing beside the others of a command line: they are refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from rbank_es.cli.context import parse_budget
from rbank_es.errors import BadInput
from rbank_es.models.choice import SCRIPT

Given = Mapping[str, Any]
"""The options of a command by the names of their parameters, given or not."""

MODELS = ("lm", "sub_lm", "judge_lm", "extractor_lm")

CANNED = frozenset({"bank", "canned", "extract", "lm", "judge_lm", "extractor_lm", "api_base", "lm_args", "verbose"})
"""What `--test` heeds."""


class Idle(NamedTuple):
    """Options that do nothing where `where` holds, and why; `{}` stands for their names."""

    names: tuple[str, ...]
    where: Callable[[Given], bool]
    why: str


OF_THE_AGENT = (
    Idle(("sub_lm", "unsafe_local"), lambda given: not _runs_code(given), "this executor runs no code: leave out {}"),
    Idle(
        ("api_base",),
        lambda given: given["lm"] is not None and not any(_is_of_a_server(given.get(name)) for name in MODELS),
        "a script is asked at no address: leave out {}",
    ),
)
"""Of every command that sets an agent to work."""

OF_A_LOOP = (
    *OF_THE_AGENT,
    Idle(("constraints",), lambda given: not given["l1"], "constraints reach an agent by L1: add --l1 to {}"),
    Idle(("guide_file",), lambda given: not given["l3"], "a guide reaches an agent by L3: add --l3 to {}"),
    Idle(("extractor_lm",), lambda given: not _learns(given), "nothing is extracted: add --extract to {}"),
    Idle(
        ("judge_lm",),
        lambda given: not _asks_model(given["judge"]),
        "no model is asked to judge: leave out --judge or {}",
    ),
    Idle(("supervised",), lambda given: given["judge"] == "none", "nobody judges: leave out --judge none or {}"),
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
"""Of `run`."""


def _asks_model(judge: str) -> bool:
    from rbank_es.judging.judges import needs_of

    return "model" in needs_of(judge)


def refuse_idle(context: click.Context, given: Given, rules: tuple[Idle, ...]) -> None:
    """Raise `BadInput` for the first of the options given that would do nothing."""
    flags = flags_given(context)
    for rule in rules:
        idle = [flags[name] for name in rule.names if name in flags]
        if idle and rule.where(given):
            raise BadInput(rule.why.format(" and ".join(idle)))


def refuse_beside_test(context: click.Context) -> None:
    """Raise `BadInput` for options that `--test` has no use for."""
    idle = [flag for name, flag in flags_given(context).items() if name not in CANNED]
    if idle:
        raise BadInput(
            f"--test tries judging and extracting on made-up runs of its own, and heeds no {', '.join(idle)}: "
            f"leave {'it' if len(idle) == 1 else 'them'} out, or leave out --test"
        )


def refuse_idle_budgets(given: Given, layers: tuple[str, ...]) -> None:
    """Raise `BadInput` for the budget of a layer that is off, or for a second one of a layer."""
    named = [parse_budget(text)[0] for text in given["budgets"]]
    shown = {"base", *layers} - ({"L2"} if given["mode"] == "tools" else set())
    for layer in named:
        if layer in ("L0", "L1", "L2", "L3") and layer not in shown:
            advice = "leave out --no-l2 and --mode tools" if layer == "L2" else f"add --{layer.lower()}"
            raise BadInput(f"--budget {layer} has nothing to bound, for the layer is off: {advice}, or leave it out")
        if named.count(layer) > 1:
            raise BadInput(f"--budget {layer} is there {named.count(layer)} times; give it once")


def flags_given(context: click.Context) -> dict[str, str]:
    """The options that stand on the command line, as they are written, by the names of their parameters."""
    return dict(_flags(context))


def _flags(context: click.Context) -> Iterator[tuple[str, str]]:
    for option in context.command.params:
        name = str(option.name)
        on_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if on_line and isinstance(option, click.Option) and name not in ("as_json", "help"):
            off = option.secondary_opts and not context.params[name]
            yield name, (option.secondary_opts if off else option.opts)[0]


def _runs_code(given: Given) -> bool:
    from rbank_es.executors.executor import executor_class

    return executor_class(given["executor"]).runs_code


def _learns(given: Given) -> bool:
    return bool(given["extract"] or given["matts"])


def _is_of_a_server(model: str | None) -> bool:
    return model is not None and not model.startswith(SCRIPT)
