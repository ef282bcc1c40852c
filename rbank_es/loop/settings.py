"""The settings of a loop in one value. Their digest is recorded with each run: equal digests, equal settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from rbank_es import limits
from rbank_es.context.layer_sections import Preset, budgets_of, check_layers
from rbank_es.errors import BadInput, BadPolicy
from rbank_es.events.run_events import DEFAULT_BOUNDS, Mode, Role, RunBounds, ToolManual
from rbank_es.executors.executor import EXECUTORS
from rbank_es.judging.judges import judging_policy, needs_of
from rbank_es.judging.verdict import NOBODY
from rbank_es.law import ConsolidationPolicy
from rbank_es.models.model_choice import LmChoice
from rbank_es.policies import SuccessFailure, chosen_policy, governing, governing_as, selection_policy
from rbank_es.tools.shared.call_budget import check_bounds

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.context.assembly import Context
    from rbank_es.events.event_envelope import Setting
    from rbank_es.loop.tasks import Task
    from rbank_es.sparql.data_source import Source

Perturbation = Literal["none", "prefix", "rephrase", "thinking"]
ExtractFrom = Literal["best", "contrastive"]

_WORDINGS: dict[Perturbation, tuple[str, ...]] = {
    "none": ("{question}",),
    "prefix": (
        "{question}",
        "Another attempt at the same question; take another way than the obvious one. {question}",
        "One more attempt at the same question; check every term before you use it. {question}",
    ),
    "rephrase": (
        "{question}",
        "Find out from the data what is asked here: {question}",
        "Somebody wants to know the following. Give what the graph says about it, and nothing else: {question}",
    ),
    "thinking": (
        "{question}",
        "{question}\nBefore each step, think about what could be wrong with the one before.",
        "{question}\nBefore the first step, think of two ways to the answer; take the one that is easier to check.",
    ),
}
"""The wordings of a question, for the rollouts in turn. The first is the task's own."""

# Deterministic, because equal settings must have equal digests whatever the order of their keys.
_ENCODER = msgspec.json.Encoder(order="deterministic")


class LoopSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of how a loop runs its tasks and learns from them. Raises `BadInput` for impossible ones.

    Args:
        lm: the agent's model. The others take its place in the roles of sub-calls, judging and extracting.
        layers, preset, budgets, mode, domain, observed, task_slice: of the context; see `build_context`.
        constraints, guide: texts for L1 (TOML) and L3 (Markdown); the bank's latest guide unless given.
        payloads: `naive` hands out whole payloads, as the control of experiments on leakage.
        tool_manual: the manual of tools in prompts: `short`, or `all` of every tool.
        memory_graph: whether the agent may query the bank's own provenance, as of the start of its run.
        leave_one_out: whether a run is given no item that was drawn from a run of its own task.
        iterations, subcalls: steps of a run, and model calls that its code may make.
        bounds: how much the tools of a run may do, and how long its steps and itself may take.
        unsafe_local: whether code runs without a sandbox.
        judge: who judges for learning if no check decides: nobody (`none`), or a name of `JUDGES`; by the bank's
            policy unless given.
        supervised: whether a right answer also judges for learning, whatever the bank's policy says.
        extract: whether items are extracted from judged runs.
        extract_from: of several rollouts, learn from the best one alone, or from comparing all; by the bank's policy
            unless given.
        consolidation: the policy that decides about candidates, by name; the bank's unless given.
        rollouts: runs of each task.
        temperature: of the agent, to make its rollouts differ; the choice's own unless given.
        perturbation: how the question is reworded for rollouts after the first, to make them differ.
    """

    lm: LmChoice
    sub_lm: LmChoice | None = None
    judge_lm: LmChoice | None = None
    extractor_lm: LmChoice | None = None
    executor: str = "rlm"
    layers: tuple[str, ...] = ("L0", "L2")
    preset: Preset = "full"
    budgets: dict[str, int] = {}
    mode: Mode = "auto"
    domain: str | None = None
    memory_graph: bool = False
    leave_one_out: bool = False
    observed: bool = False
    task_slice: bool = False
    constraints: str | None = None
    guide: str | None = None
    payloads: Literal["handles", "naive"] = "handles"
    tool_manual: ToolManual = "short"
    iterations: int = limits.RUN_ITERATIONS
    subcalls: int = limits.RUN_SUBCALLS
    bounds: RunBounds = DEFAULT_BOUNDS
    unsafe_local: bool = False
    judge: str | None = None
    supervised: bool = False
    extract: bool = True
    extract_from: ExtractFrom | None = None
    consolidation: str | None = None
    rollouts: int = 1
    temperature: float | None = None
    perturbation: Perturbation = "none"

    def __post_init__(self) -> None:
        EXECUTORS.check(self.executor)
        if not 1 <= self.rollouts <= limits.ROLLOUTS:
            raise BadInput(f"{self.rollouts} rollouts: give 1 to {limits.ROLLOUTS}")
        if not 1 <= self.iterations <= limits.RUN_ITERATIONS_MOST:
            raise BadInput(f"{self.iterations} steps of a run: give 1 to {limits.RUN_ITERATIONS_MOST:,}")
        if not 0 <= self.subcalls <= limits.RUN_SUBCALLS_MOST:
            raise BadInput(f"{self.subcalls} calls of a run's code: give 0 to {limits.RUN_SUBCALLS_MOST:,}")
        check_bounds(self.bounds)
        if self.temperature is not None and not 0 <= self.temperature <= limits.TEMPERATURE_MOST:
            raise BadInput(f"a temperature of {self.temperature}: give 0 to {limits.TEMPERATURE_MOST:g}")
        if self.memory_graph and self.leave_one_out:
            raise BadInput(
                "the memory graph shows every item, those of the task itself too: turn it off, or leave-one-out"
            )
        if self.judge is not None and "gold" in needs_of(self.judge) and not self.supervised:
            raise BadInput(
                f"the judge {self.judge} knows the right answer: give --supervised (supervised=True) to have "
                "it judge for learning, or name no judge: a right answer scores each run all the same"
            )
        if self.extract and self.judge == NOBODY:
            raise BadInput("nothing is learned from runs that nobody judged: leave judging on, or turn extracting off")
        if self.consolidation is not None:
            chosen_policy("consolidation", self.consolidation)
        check_layers(self.layers)
        budgets_of(self.preset, self.budgets)

    @property
    def choices(self) -> Mapping[Role, LmChoice]:
        """The chosen models by role."""
        given: dict[Role, LmChoice | None] = {
            "agent": self.lm,
            "sub": self.sub_lm,
            "judge": self.judge_lm,
            "extractor": self.extractor_lm,
        }
        return {role: choice for role, choice in given.items() if choice is not None}

    @property
    def scripted(self) -> bool:
        """Whether a script stands in for any of the models."""
        return any(choice.scripted for choice in self.choices.values())

    def facts(self) -> dict[str, Any]:
        """Return the settings as plain data: models by their recorded names, texts by their SHA-256."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        for name in ("lm", "sub_lm", "judge_lm", "extractor_lm"):
            facts[name] = _model(facts[name])
        for name in ("constraints", "guide"):
            facts[name] = _digest(facts[name].encode()) if facts[name] is not None else None
        return facts

    @property
    def recorded(self) -> str:
        """The settings as recorded with each run, texts whole: canonical JSON, without a key."""
        return _ENCODER.encode({**self.facts(), "constraints": self.constraints, "guide": self.guide}).decode()

    @classmethod
    def from_recorded(cls, text: str) -> LoopSettings:
        """Return the settings of a recorded run. Raises `BadInput` if this release can't read them."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadInput(f"the recorded settings can't be read: {error}") from None

    @property
    def digest(self) -> str:
        """The SHA-256 of `facts` as canonical JSON, in hex."""
        return _digest(_ENCODER.encode(self.facts()))


def question_of(question: str, perturbation: Perturbation, index: int) -> str:
    """Return the question as worded for the rollout with this index, from 0."""
    forms = _WORDINGS[perturbation]
    return forms[index % len(forms)].replace("{question}", question)


def _model(choice: LmChoice | None) -> dict[str, Any] | None:
    if choice is None:
        return None
    return {"model": choice.name, "api_base": choice.api_base, "arguments": choice.arguments}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def extraction_policy(bank: Bank | None, settings: LoopSettings | None = None) -> SuccessFailure:
    """Return the bank's extraction policy, or a new bank's; settings may choose which rollouts it extracts from.

    Raises `BadPolicy` for a policy that this release can't extract by.
    """
    policy = governing_as(SuccessFailure, bank.policy_choice("extraction") if bank is not None else None)
    given = settings.extract_from if settings is not None else None
    return policy if given is None else msgspec.structs.replace(policy, extract_from=given)


def consolidation_override(bank: Bank, settings: LoopSettings) -> ConsolidationPolicy | None:
    """Return the policy that the settings put in the place of the bank's; None if they choose none, or the bank's own.

    Raises `BadPolicy` for a policy that decides about no candidates.
    """
    recorded, name = bank.policy_choice("consolidation"), settings.consolidation
    if name is None or name == (governing("consolidation", None).name if recorded is None else recorded.name):
        return None
    policy = chosen_policy("consolidation", name, recorded)
    if not isinstance(policy, ConsolidationPolicy):
        raise BadPolicy(f"{policy.label} is no consolidation policy")
    return policy


def overrides_of(bank: Bank, settings: LoopSettings) -> dict[str, Setting]:
    """Return the policies and settings that differ from the bank's, by kind or `kind.setting`. Raises `BadPolicy`."""
    judging = judging_policy(bank)
    consolidation = consolidation_override(bank, settings)
    own = extraction_policy(bank)
    given: dict[str, tuple[Setting | None, Setting | None]] = {
        "judging": (settings.judge, judging.name),
        "judging.supervised": (settings.supervised or None, judging.supervised),
        "extraction.extract_from": (settings.extract_from, own.extract_from),
        "consolidation": (consolidation.name if consolidation is not None else None, None),
        # A single run is no selection, so it overrides none.
        "selection.k": (settings.rollouts if settings.rollouts > 1 else None, _rollouts(bank)),
    }
    return {name: chosen for name, (chosen, usual) in given.items() if chosen is not None and chosen != usual}


def _rollouts(bank: Bank) -> int:
    return selection_policy(bank.policy_choice("selection")).k


def task_context(
    task: Task, settings: LoopSettings, source: Source | None, bank: Bank | None, point: int | None = None
) -> Context:
    """Return the context that a run of a task gets at a position of a bank, or now; without a bank, in a new one."""
    from rbank_es.context.assembly import build_context

    return build_context(
        task.question,
        source=source,
        bank=bank,
        point=point,
        layers=settings.layers,
        budgets=settings.budgets,
        preset=settings.preset,
        mode=settings.mode,
        curated=settings.constraints,
        guide=settings.guide,
        domain=settings.domain,
        observed=settings.observed,
        task_slice=settings.task_slice,
        memory_graph=settings.memory_graph,
        without_task=task.id if settings.leave_one_out else None,
        level=task.level,
    )
