"""Events of a run: its context, its steps and calls, its end, and its judgments.

Learning judgments feed the bank; scoring judgments only measure. They never mix.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from rbank_es import limits
from rbank_es.events.event_envelope import Count, Event, JsonText, Names, Salt, Seconds, Settings, Text
from rbank_es.events.items import Name
from rbank_es.events.server_traits import ServerTraits

Run = Annotated[Name, Meta(min_length=1, description="Id of the run.")]
Extra = Annotated[Text | None, Meta(description="JSON of imported values that have no field here.")]
Previews = Annotated[Names, Meta(description="Fields of this event that hold only the beginning of their text.")]
Usd = Annotated[float, Meta(ge=0, le=limits.EVENT_USD, description="US dollars.")]
Suite = Annotated[Name | None, Meta(description="SHA-256 of the tasks that it was chosen from, hex.")]
Mode = Literal["auto", "tools", "both"]
ToolManual = Literal["short", "all"]
"""The manual in prompts: a line for each common tool and `tools(name)` for the rest, or all of every tool."""
Role = Literal["agent", "sub", "judge", "extractor"]
Outcome = Literal["submitted", "forced_at_limit", "failed"]


class RunBounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bounds of one run. Past a bound of a step its tools refuse; past one of the run, the run ends."""

    # Written whole, without `omit_defaults`: a record must not change its meaning when a default changes.
    step_calls: Annotated[Count, Meta(description="Calls of tools in one step.")] = limits.STEP_CALLS
    run_calls: Annotated[Count, Meta(description="Calls of tools in the run.")] = limits.RUN_CALLS
    step_payload_bytes: Annotated[Count, Meta(description="Bytes of payloads that one step keeps.")] = (
        limits.STEP_PAYLOAD_BYTES
    )
    run_payload_bytes: Annotated[Count, Meta(description="Bytes of payloads that the run keeps.")] = (
        limits.RUN_PAYLOAD_BYTES
    )
    step_log_bytes: Annotated[Count, Meta(description="Bytes that one step writes to the log.")] = limits.STEP_LOG_BYTES
    run_log_bytes: Annotated[Count, Meta(description="Bytes that the run writes to the log.")] = limits.RUN_LOG_BYTES
    step_code_s: Annotated[float, Meta(ge=0, description="Seconds of one step's code, its tools not counted.")] = (
        limits.STEP_TIME_S
    )
    step_wall_s: Annotated[float, Meta(ge=0, description="Seconds of one step's code with its tools.")] = (
        limits.STEP_WALL_S
    )
    run_wall_s: Annotated[float, Meta(ge=0, description="Seconds of the run, checked before each step.")] = (
        limits.RUN_WALL_S
    )
    # Left out where there is none, so that a record without them is read and written as it was.
    run_tokens: (
        Annotated[Count, Meta(description="Tokens of the agent and of its sub-calls, prompts and replies.")] | UnsetType
    ) = UNSET
    run_usd: Annotated[Usd, Meta(description="US dollars of the agent and of its sub-calls.")] | UnsetType = UNSET


DEFAULT_BOUNDS = RunBounds()


class Trial(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of a run in an experiment: one trial is one bank."""

    experiment: Annotated[Name, Meta(description="Name of the experiment.")]
    condition: Annotated[Name, Meta(description="Name of the condition: one setting of every switch.")]
    order: Annotated[Count, Meta(description="Number of the shuffled order of tasks, from 0.")] = 0
    repetition: Annotated[Count, Meta(description="Number of the repetition, from 0.")] = 0


Reason = Literal["first", "stays", "mastered", "used_up", "left_over"]


class TaskChoice(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Why a task was the next one, in an order that depends on what came of those before it."""

    order: Annotated[Name, Meta(description="The order: curriculum.")]
    level: Annotated[Count | None, Meta(description="The level at which the loop was.")] = None
    why: Annotated[
        Reason,
        Meta(
            description="The loop began at its level, stays at it, or came to it because the one before was mastered "
            "or used up, or because its tasks were left over."
        ),
    ]
    won: Annotated[
        Count,
        Meta(
            description="Of the last tasks decided about: those that succeeded. At the level before, "
            "where the loop has just left it."
        ),
    ] = 0
    decided: Annotated[Count, Meta(description="How many those are.")] = 0
    rise_won: Annotated[Count, Meta(description="A level is mastered when so many succeed")]
    rise_last: Annotated[Count, Meta(description="of so many last ones.")]


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """An agent was set to a task."""

    run: Run
    task_id: Annotated[Name | None, Meta(description="Id of the task.")] = None
    level: Annotated[Count | None, Meta(description="Difficulty of the task, 1 to 5.")] = None
    family: Annotated[Name | None, Meta(description="Tasks of one family are solved in one way.")] = None
    suite: Suite = None
    trial: Annotated[Trial | None, Meta(description="Its place in an experiment.")] = None
    chosen: Annotated[TaskChoice | None, Meta(description="Why its task was the next one, if that was decided.")] = None
    ontology: Annotated[Name | None, Meta(description="Id of the ontology.")] = None
    endpoint: Annotated[Name | None, Meta(description="SPARQL endpoint, if remote.")] = None
    executor: Annotated[Name | None, Meta(description="rlm, react, scratchpad or tools.")] = None
    model: Annotated[Name | None, Meta(description="Model of the agent.")] = None
    layers: Annotated[Names, Meta(description="Context layers switched on: L0 to L3.")] = ()
    budgets: Annotated[dict[Name, Count], Meta(description="Characters allowed, by layer.")] = {}
    mode: Annotated[Mode | None, Meta(description="How memory reaches the agent.")] = None
    iterations_max: Annotated[Count | None, Meta(description="Iterations allowed.")] = None
    bounds: Annotated[RunBounds | None, Meta(description="What its tools may do, and how long it may take.")] = None
    rollout_group: Annotated[Name | None, Meta(description="Id shared by the rollouts of one task.")] = None
    rollout_index: Annotated[Count | None, Meta(description="Index in the group, from 0.")] = None
    release: Annotated[Name | None, Meta(description="Release of the code that ran.")] = None
    commit: Annotated[Name | None, Meta(description="Commit of the code that ran.")] = None
    config_digest: Annotated[Name | None, Meta(description="SHA-256 of the configuration, hex.")] = None
    servers: Annotated[
        tuple[ServerTraits, ...],
        Meta(max_length=4, description="What was known of its models' servers when it began, one for each model."),
    ] = ()
    scripted: Annotated[bool, Meta(description="True where a script stood in for the model.")] = False
    simulated: Annotated[bool, Meta(description="True where chance stood in for the agent.")] = False
    overrides: Annotated[
        Settings,
        Meta(description="Settings of policies that its caller chose against the bank's, such as judging.supervised."),
    ] = {}
    salt: Salt = ""
    task: Annotated[Text, Meta(description="The question, as given.")] = ""
    # A text, because names and addresses in it may have to be erased.
    settings: Annotated[Text | None, Meta(description="JSON of every choice with which it ran, models by name.")] = None
    extra: Extra = None


class LayerUse(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The share of one layer in the context."""

    layer: Annotated[Name, Meta(description="base, L0, L1, L2 or L3.")]
    chars: Annotated[Count, Meta(description="Characters, titles and markup included.")]
    budget: Annotated[Count | None, Meta(description="Characters allowed.")] = None
    truncated: Annotated[bool, Meta(description="Whether something was truncated.")] = False


class ContextBuilt(Event, frozen=True, kw_only=True, tag="context_built"):
    """The prompt's context, as the agent got it."""

    run: Run
    chars: Annotated[Count, Meta(description="Characters of the whole context.")]
    layers: Annotated[tuple[LayerUse, ...], Meta(description="One per layer, in order.")] = ()
    items: Annotated[Names, Meta(description="Ids of the items injected.")] = ()
    artifacts: Annotated[
        Names, Meta(description="Ids of the events of the bank's artifacts that layers were made of: its guide.")
    ] = ()
    salt: Salt = ""
    texts: Annotated[tuple[Text, ...], Meta(description="Text of each layer, in the order of `layers`.")] = ()
    extra: Extra = None


Nearness = Literal["own", "none", "other"]
"""How the domains of an item relate to that of a question: it is one of them, else none is named, else others."""

Shortfall = Literal["score", "share_of_best", "coverage"]
"""The figure of an item that is below the floor; of several, the first in this order."""

_Coverage = Annotated[
    float | None, Meta(description="Share of the query's idf that the item's words cover, 0 to 1, if the policy tells.")
]
_Near = Annotated[Nearness | None, Meta(description="How its domains relate to the question's, where that counts.")]


class Hit(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One item found."""

    id: Annotated[Name, Meta(description="Item id.")]
    rank: Annotated[Count, Meta(description="Rank, from 1.")]
    score: Annotated[
        float, Meta(description="The policy's score: from 0 up, higher is better. Of bm25-1: below 0, lower is better.")
    ]
    coverage: _Coverage = None
    near: _Near = None


class WithheldHit(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One item that ranked before the last hit and is below the floor, which kept it back."""

    id: Annotated[Name, Meta(description="Item id.")]
    why: Annotated[Shortfall, Meta(description="The figure that is below the floor.")]
    score: Annotated[float, Meta(description="The policy's score.")]
    coverage: _Coverage = None
    near: _Near = None


class Floor(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The figures that an item must reach to be given; None for a figure that doesn't count."""

    score: Annotated[float | None, Meta(description="The least score, without the sign.")] = None
    best: Annotated[
        float | None, Meta(description="Score of the best match of either polarity, where items are given unasked.")
    ] = None
    share_of_best: Annotated[float | None, Meta(description="The least share of that score.")] = None
    coverage: Annotated[float | None, Meta(description="The least coverage.")] = None


class MemoriesRetrieved(Event, frozen=True, kw_only=True, tag="memories_retrieved"):
    """The bank was searched, for a context or by a tool."""

    run: Annotated[Name | None, Meta(description="Id of the run, if in one.")] = None
    mode: Annotated[Literal["auto", "tool"], Meta(description="Who asked: the loop or the agent.")] = "auto"
    k: Annotated[Count, Meta(description="Hits asked for.")]
    polarity: Annotated[Literal["success", "failure"] | None, Meta(description="Filter.")] = None
    role: Annotated[Name | None, Meta(description="Filter.")] = None
    ontology: Annotated[
        Name | None,
        Meta(
            description="Domain of the question: the run's ontology, unless another was named. The policy prefers it."
        ),
    ] = None
    without_task: Annotated[
        Name | None, Meta(description="Id of a task: items that rest on a run of it were left out.")
    ] = None
    level: Annotated[
        Count | None, Meta(description="Level of the question's task. The policy says whether it leaves items out.")
    ] = None
    unasked: Annotated[
        bool, Meta(description="Nobody asked for this polarity: strategies and guardrails were looked for in turn.")
    ] = False
    policy: Annotated[Name, Meta(description="Retrieval policy, as name and version: bm25-1.")]
    call: Annotated[Name | None, Meta(description="Id of the tool call, if by a tool.")] = None
    as_of: Annotated[
        Count | None, Meta(description="Position that was searched, if this was recorded later than right behind it.")
    ] = None
    hits: Annotated[tuple[Hit, ...], Meta(description="The hits, best first.")] = ()
    withheld: Annotated[
        tuple[WithheldHit, ...], Meta(description="Items that the floor kept back, best first; at most 10.")
    ] = ()
    floor: Annotated[Floor | None, Meta(description="The floor in force, if there was one.")] = None
    fallback: Annotated[
        Name | None, Meta(description="Why the policy ranked by words alone, as a code, if it did.")
    ] = None
    salt: Salt = ""
    query: Annotated[Text, Meta(description="The query as given.")] = ""
    extra: Extra = None


class MemoriesRead(Event, frozen=True, kw_only=True, tag="memories_read"):
    """Items were read by a tool."""

    run: Run
    ids: Annotated[Names, Meta(description="Item ids.")]
    how: Annotated[Literal["get", "quote"], Meta(description="In full, or an excerpt.")]
    chars: Annotated[Count, Meta(description="Characters returned.")]
    call: Annotated[Name | None, Meta(description="Id of the tool call.")] = None
    salt: Salt = ""
    extra: Extra = None


def given_items(event: Event) -> Names:
    """Return the ids of the items that an event gave to its run in full: injected, or read. A quotation gives none."""
    match event:
        case ContextBuilt():
            return event.items
        case MemoriesRead(how="get"):
            return event.ids
    return ()


class ToolCalled(Event, frozen=True, kw_only=True, tag="tool_called"):
    """A tool answered, or failed."""

    run: Run
    tool: Annotated[Name, Meta(description="Name of the tool.")]
    call: Annotated[Name | None, Meta(description="Id of the call within the run.")] = None
    step: Annotated[Count | None, Meta(description="Index of the step it was made in, from 1.")] = None
    chars: Annotated[Count | None, Meta(description="Characters returned to the agent.")] = None
    truncated: Annotated[bool | None, Meta(description="Whether the answer was truncated.")] = None
    duration_s: Seconds | None = None
    error_code: Annotated[Name | None, Meta(description="Code of the error, if it failed.")] = None
    dtype: Annotated[Name | None, Meta(description="Kind of the result: results, graph, text, mem.")] = None
    alias: Annotated[Name | None, Meta(description="Short name of the handle within the run.")] = None
    previews: Previews = ()
    salt: Salt = ""
    arguments: Annotated[Text | None, Meta(description="JSON of the arguments.")] = None
    result: Annotated[Text | None, Meta(description="The payload that the handle names.")] = None
    error: Annotated[Text | None, Meta(description="The error's message.")] = None
    extra: Extra = None


class StepTaken(Event, frozen=True, kw_only=True, tag="step_taken"):
    """One iteration of the agent."""

    run: Run
    index: Annotated[Count, Meta(description="Index of the step, from 1.")]
    stdout_chars: Annotated[
        Count | None, Meta(description="Characters that it printed, its last value included, before truncation.")
    ] = None
    prompt_chars: Annotated[Count | None, Meta(description="Characters of the prompt of this step.")] = None
    variables_n: Annotated[Count | None, Meta(description="The agent's variables after it, inputs included.")] = None
    variables_chars: Annotated[Count | None, Meta(description="Characters that they hold, about.")] = None
    variable_types: Annotated[dict[Name, Count], Meta(description="Number of variables, by type.")] = {}
    error_code: Annotated[Name | None, Meta(description="Code of the error, if it failed.")] = None
    previews: Previews = ()
    salt: Salt = ""
    reasoning: Annotated[Text | None, Meta(description="The model's words before its code.")] = None
    code: Annotated[Text | None, Meta(description="The code it wrote.")] = None
    output: Annotated[Text | None, Meta(description="The code's output, as the model was shown it.")] = None
    extra: Extra = None


class LmCalled(Event, frozen=True, kw_only=True, tag="lm_called"):
    """A language model answered, or failed."""

    run: Annotated[Name | None, Meta(description="Id of the run, if in one.")] = None
    role: Annotated[Role, Meta(description="The model's role.")]
    model: Annotated[Name, Meta(description="Name of the model.")]
    step: Annotated[Count | None, Meta(description="Index of the step, from 1.")] = None
    attempt: Annotated[Count | None, Meta(description="Number of the try, from 1.")] = None
    parameters: Annotated[Settings, Meta(description="Sampling parameters.")] = {}
    gave_way: Annotated[
        Names,
        Meta(
            description="What of the prompt gave way to the model's context, in order: history, manual, L3, L1, L2, L0."
        ),
    ] = ()
    tokens_in: Annotated[Count | None, Meta(description="Tokens of the request.")] = None
    tokens_out: Annotated[Count | None, Meta(description="Tokens of the response.")] = None
    tokens_cached: Annotated[Count | None, Meta(description="Of the request's tokens, those read from a cache.")] = None
    cost_usd: Usd | None = None
    duration_s: Seconds | None = None
    error_code: Annotated[Name | None, Meta(description="Code of the error, if it failed.")] = None
    previews: Previews = ()
    salt: Salt = ""
    # A text, because it is a digest of words: after an erasure it must not confirm a guess.
    request_key: Annotated[Text, Meta(description="Digest of the request, under which a rerun finds it.")] = ""
    request: Annotated[Text | None, Meta(description="JSON of the full request, without keys.")] = None
    response: Annotated[Text | None, Meta(description="JSON of the full response.")] = None
    error: Annotated[Text | None, Meta(description="The error's message.")] = None
    extra: Extra = None


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished"):
    """A run ended. Its totals are set where no `lm_called` has them, as in imports."""

    run: Run
    outcome: Annotated[Outcome, Meta(description="Submitted, forced at a limit, or failed.")]
    bound: Annotated[Name | None, Meta(description="What forced it: iterations, or one of its bounds.")] = None
    iterations: Annotated[Count | None, Meta(description="Iterations used.")] = None
    answer_chars: Annotated[Count | None, Meta(description="Characters of the answer.")] = None
    lm_calls: Annotated[Count | None, Meta(description="Calls of models.")] = None
    tokens_in: Annotated[Count | None, Meta(description="Tokens of all requests.")] = None
    tokens_out: Annotated[Count | None, Meta(description="Tokens of all responses.")] = None
    cost_usd: Usd | None = None
    duration_s: Seconds | None = None
    error_code: Annotated[Name | None, Meta(description="Code of the error, if it failed.")] = None
    recall_sent: Annotated[
        bool | None,
        Meta(
            description="Whether every lesson recalled before a recorded call stood in a request of the agent. "
            "Null: none was, or it isn't known."
        ),
    ] = None
    recall_unsent: Annotated[Names, Meta(description="Ids of the recalled items that stood in no request.")] = ()
    previews: Previews = ()
    salt: Salt = ""
    answer: Annotated[Text | None, Meta(description="The answer.")] = None
    sparql: Annotated[Text | None, Meta(description="The SPARQL query submitted with it.")] = None
    evidence: Annotated[Text | None, Meta(description="JSON of the answer's evidence.")] = None
    error: Annotated[Text | None, Meta(description="The error's message.")] = None
    extra: Extra = None


class NoteLogged(Event, frozen=True, kw_only=True, tag="note_logged"):
    """A note: any JSON object, from the agent's `event_log` or from a person."""

    run: Annotated[Name | None, Meta(description="Id of the run, if in one.")] = None
    by: Annotated[Name | None, Meta(description="Who wrote it.")] = None
    salt: Salt = ""
    note: Annotated[JsonText, Meta(description="JSON of the note.")] = "{}"
    extra: Extra = None


Purpose = Literal["learning", "scoring"]
JudgeKind = Literal["check", "lm", "gold", "outcome", "human"]
"""Who judged. `outcome` is what happened, not what a model says: tests, rewards, exit codes, reverts."""

VerdictValue = Literal["success", "failure", "undecided"]


def source_of(ontology: str | None, endpoint: str | None, executor: str | None, mode: str | None) -> str | None:
    """Return the ontology or endpoint that a run asks, by these fields of its start; None for a run that asks none.

    An agent of another make, whose executor names no mode, has only the domain of its task under `ontology`.
    """
    return endpoint or (ontology if executor is None or mode is not None else None)


def has_source(*signs: str | None) -> bool:
    """Return whether a run is about a source: what it asks, or a query of it, is known and not blank.

    This alone decides which words the agent, its judge, its extractor and people are given.
    """
    return any((sign or "").strip() for sign in signs)


def judge_label(judge: str, version: str) -> str:
    """Return a judge with its version, such as `checks-1`; a model's is that of its prompt, apart from its name."""
    return f"{judge} (prompt {version})" if judge.startswith("lm:") else f"{judge}-{version}"


def verdict_value(given: object) -> VerdictValue | None:
    """Return the verdict that True, False or one of the three words gives; None for anything else."""
    if isinstance(given, bool):
        return "success" if given else "failure"
    known: tuple[VerdictValue, ...] = get_args(VerdictValue)
    return next((value for value in known if isinstance(given, str) and value == given), None)


Confidence = Annotated[float, Meta(ge=0, le=1, description="From 0 to 1, as the judge gave it.")]


class RunJudged(Event, frozen=True, kw_only=True, tag="run_judged"):
    """A run was judged. Of all judgments of a purpose, the latest of the highest authority stands."""

    run: Run
    purpose: Annotated[Purpose, Meta(description="Learning feeds the bank; scoring only measures.")]
    verdict: Annotated[VerdictValue, Meta(description="Success, failure, or undecided.")]
    judge: Annotated[Name, Meta(description="Id of the judge.")]
    judge_version: Annotated[Name, Meta(description="Version of the judge.")]
    kind: Annotated[
        JudgeKind, Meta(description="A check, a language model, the right answer, the outcome, or a person.")
    ]
    sure: Annotated[bool, Meta(description="Whether a check is sure of it; other judges leave it out.")] = False
    supervised: Annotated[
        bool, Meta(description="Whether its caller chose that the right answer teaches, whatever the policy says.")
    ] = False
    confidence: Confidence | None = None
    evidence: Annotated[Names, Meta(description="Codes of findings, kinds of differences from the right answer.")] = ()
    calls: Annotated[Names, Meta(description="Ids of the calls of a model that gave it.")] = ()
    precedents: Annotated[Names, Meta(description="Ids of the principles and past cases that it was shown.")] = ()
    suite: Suite = None
    salt: Salt = ""
    reason: Annotated[Text, Meta(description="Why.")] = ""
    extra: Extra = None


class JudgmentOverruled(Event, frozen=True, kw_only=True, tag="judgment_overruled"):
    """Somebody judged a run again. It counts like any judgment, by the authority of its `kind`."""

    run: Run
    purpose: Annotated[Purpose, Meta(description="Learning feeds the bank; scoring only measures.")]
    verdict: Annotated[VerdictValue, Meta(description="Success, failure, or undecided.")]
    judge: Annotated[Name, Meta(description="Id of the judge.")]
    judge_version: Annotated[Name, Meta(description="Version of the judge.")]
    kind: Annotated[
        JudgeKind, Meta(description="A check, a language model, the right answer, the outcome, or a person.")
    ]
    sure: Annotated[bool, Meta(description="Whether a check is sure of it; other judges leave it out.")] = False
    by: Annotated[Name, Meta(description="Who overruled.")]
    judgment: Annotated[Name | None, Meta(description="Id of the event that is overruled.")] = None
    confidence: Confidence | None = None
    salt: Salt = ""
    reason: Annotated[Text, Meta(description="Why the run succeeded or failed.")] = ""
    why: Annotated[Text, Meta(description="Why the earlier judgment was wrong.")] = ""
    extra: Extra = None
