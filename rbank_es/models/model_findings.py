"""The findings about a model, as `doctor --lm` makes them, and the advice that follows from them: a pure function."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from msgspec import Struct

from rbank_es import limits
from rbank_es.events.server_traits import ServerTraits
from rbank_es.limits import reply_limits

FORMS = {
    "step": "a step with one call of a tool, as react asks for it",
    "guide": "a step with code, as guides, scratchpad and rlm ask for it",
    "forced": "an answer that is asked for when the steps are used up",
    "judge": "a judgment of a run",
    "extractor": "items drawn from a run",
}
"""The forms of replies, by the name under which `ServerTraits.forms` has them."""

_TOOLS = "a call of a tool by the chat protocol, unless the server says whether it has them"

_PROMPT_TOKENS = {
    "bound": 260,
    "other_bound": 260,
    "stop": 60,
    "json_schema": 65,
    "step": 880,
    "guide": 850,
    "judge": 580,
    "extractor": 870,
    "forced": 500,
    "tools": 250,
}
"""Tokens of the prompt of each try: as counted with two models' tokens, of the one that needs more."""

_CACHING = ("llama.cpp", "vLLM")
"""Servers that keep the beginning of a prompt: of each later step they read only what is new."""

_SLOW_TOKENS_S = 100
"""Tokens a second below which reading a prompt is what a person waits for: 2,000 tokens take 20 s."""

_LEAST_TOKENS_S = 0.01
"""Tokens a second below which a clock was wrong."""

_LEAN_BELOW = 12_288
"""Tokens of a context below which the lean budgets leave room for two more steps."""


def forms_of(traits: ServerTraits) -> dict[str, str]:
    """Return the forms to be tried of a model whose server has these traits, with what each asks for."""
    return {**FORMS, **({"tools": _TOOLS} if traits.tools is None else {})}


def most_tokens(name: str) -> tuple[int, int]:
    """Return how many tokens of prompt and of reply a try takes at most."""
    if name == "judge":
        reply = reply_limits.TRIED_JUDGE_TOKENS
    else:
        reply = reply_limits.TRIED_FORM_TOKENS if name in (*FORMS, "tools") else reply_limits.TRIED_REPLY_TOKENS
    return _PROMPT_TOKENS[name], reply


def expected_s(name: str, traits: ServerTraits) -> float | None:
    """Return the seconds that a try is expected to take at the speed that was measured; None if none was."""
    prompt, reply = most_tokens(name)
    return _call_s(traits, prompt, reply // reply_limits.TRIED_EXPECTED_SHARE)


class Tried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of the doctor's. `kept` says whether what it tried holds; None: it can't be told from this call."""

    name: str
    kept: bool | None
    detail: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    duration_s: float = 0.0


class ModelFindings(Struct, frozen=True, kw_only=True):
    """What was found of a model within so many seconds. `failure` says why no call of it succeeds, if none does.

    `left_out` names the tries that would not have fit into the time. Prices are US dollars for a million tokens, None
    where nobody knows them.
    """

    traits: ServerTraits
    address: str | None
    key: str
    seconds: float
    tried: tuple[Tried, ...] = ()
    left_out: tuple[str, ...] = ()
    failure: str = ""
    price_in: float | None = None
    price_out: float | None = None


class TaskSize(Struct, frozen=True, kw_only=True):
    """The size of a task in tokens: the first prompt by executor, what a step adds, a reply, a verdict with its lesson.

    `steps` are those of the task. `after` counts the prompts of judge and extractor together.
    """

    steps: int
    first: dict[str, int]
    step: int
    reply: int
    after: int


class Advice(Struct, frozen=True, kw_only=True):
    """What follows: the executor and the options that fit, the cost of a task, why, and the one command to run next.

    `executor` is None where none fits. `seconds` and `usd` are of a task of `steps` steps, None where unknown.
    """

    executor: str | None
    options: tuple[str, ...]
    steps: int
    seconds: float | None
    usd: float | None
    sentences: tuple[str, ...]
    command: str


def advice(found: ModelFindings, size: TaskSize, executors: Collection[str]) -> Advice:
    """Return what follows from findings, for a task of this size and these executors. Pure."""
    traits = found.traits
    doctor = _command(found, "rbank-es doctor")
    if found.failure:
        return Advice(
            executor=None,
            options=(),
            steps=size.steps,
            seconds=None,
            usd=None,
            sentences=(found.failure,),
            command=doctor,
        )
    executor, why = _executor(traits, executors)
    options = _options(traits, size, executor)
    told = [why, *_context_words(traits, size, executor), *_role_words(traits), *_left_out_words(found)]
    seconds, usd = _seconds(traits, size, executor), _usd(found, size, executor)
    told += [_cost_words(traits, size, seconds, usd)] if executor else []
    return Advice(
        executor=executor,
        options=options,
        steps=size.steps,
        seconds=seconds,
        usd=usd,
        sentences=tuple(told),
        command=_next(found, executor, options) if executor else doctor,
    )


# ---------------------------------------------------------------- which executor


def _executor(traits: ServerTraits, executors: Collection[str]) -> tuple[str | None, str]:
    """Return the executor that fits, and the reason."""
    step, code = traits.forms.get("step"), traits.forms.get("guide")
    slow = traits.read_tokens_s is not None and traits.read_tokens_s < _SLOW_TOKENS_S
    if code and not (slow and step):
        return "rlm", "It writes code in the form that is asked for, so `rlm` fits: data stay in variables."
    if step:
        slowly = f", and it reads only {traits.read_tokens_s:,.0f} tokens a second" if slow else ""
        return "react", f"It keeps the form of a step with one call{slowly}, so `react` fits: its prompts are shortest."
    # Behind a form that was kept: that a template shows tools doesn't say that the model calls them.
    if traits.tools and "tools" in executors:
        return "tools", "Its server shows it tools by the chat protocol, so `tools` is worth a try."
    if step is None and code is None:
        return "react", "Whether it keeps the form of a step isn't known; `react` asks for least."
    return None, (
        "It keeps the form of no step, so no run of it would get far: take a model with more parameters, or one that "
        "was tuned to follow instructions."
    )


def _options(traits: ServerTraits, size: TaskSize, executor: str | None) -> tuple[str, ...]:
    if executor is None:
        return ()
    made = list[str]()
    if traits.context_tokens is not None and traits.context_tokens < _LEAN_BELOW:
        made += ["--preset", "lean"]
    longest = _call_s(traits, size.first.get(executor, 0) + size.step, size.reply)
    if longest is not None and longest * 2 > limits.LM_TIME_S:
        # Twice, because another program may use the machine too.
        made += ["--lm-arg", f"timeout={min(-(-round(longest * 2) // 60) * 60, limits.LM_TIME_MOST_S):d}"]
    if traits.forms.get("judge") is False:
        made += ["--judge", "none"]
    return tuple(made)


def _context_words(traits: ServerTraits, size: TaskSize, executor: str | None) -> list[str]:
    length = traits.context_tokens
    if length is None:
        return ["Nobody says how many tokens its context has: give --lm-arg context_tokens=N where you know it."]
    if executor is None:
        return []
    room = length - size.first.get(executor, 0) - size.reply
    shown = max(0, room // size.step)
    if room <= 0:
        return [
            f"Its context of {length:,} tokens has no room for a first prompt and a reply: serve it with a longer one."
        ]
    if shown < size.steps:
        return [f"Its context of {length:,} tokens shows about the last {shown} steps; older ones are left out."]
    return [f"Its context of {length:,} tokens has room for {size.steps} steps."]


def _role_words(traits: ServerTraits) -> list[str]:
    told = list[str]()
    if traits.forms.get("judge") is False:
        told.append("It doesn't keep the form of a judgment: let another model judge (--judge-lm), or checks alone.")
    if traits.forms.get("extractor") is False:
        told.append("It doesn't keep the form of items: let another model extract them (--extractor-lm).")
    if traits.forms.get("forced") is False:
        told.append("When its steps are used up it gives no answer that can be read: such runs end without one.")
    if traits.bound is None and traits.tried_on is not None:
        told.append("Its server keeps no bound on a reply: one that doesn't end is left after the time for an answer.")
    return told


def _left_out_words(found: ModelFindings) -> list[str]:
    if not found.left_out:
        return []
    tries = forms_of(found.traits)
    names = "; ".join(tries.get(name, name) for name in found.left_out)
    more = sum(expected_s(name, found.traits) or 0.0 for name in found.left_out)
    # Twice, because a reply may be as long as its bound.
    enough = -(-round(found.seconds + more * reply_limits.TRIED_EXPECTED_SHARE) // 60) * 60
    return [
        f"{found.seconds:g} s were not enough to try all, so this isn't known: {names}. --seconds {enough} would be."
    ]


# ---------------------------------------------------------------- what a task costs


def _call_s(traits: ServerTraits, prompt: int, reply: int) -> float | None:
    read, written = traits.read_tokens_s or 0.0, traits.written_tokens_s or 0.0
    if min(read, written) < _LEAST_TOKENS_S:
        return None
    return prompt / read + reply / written


def _prompts(size: TaskSize, executor: str) -> list[int]:
    """Return the tokens of the prompts of an agent's calls: of each step, and of a forced answer."""
    return [size.first.get(executor, 0) + size.step * number for number in range(size.steps + 1)]


def _seconds(traits: ServerTraits, size: TaskSize, executor: str | None) -> float | None:
    if executor is None:
        return None
    prompts = _prompts(size, executor)
    cached = (traits.server or "").startswith(_CACHING)
    read = prompts[-1] if cached else sum(prompts)
    return _call_s(traits, read + size.after, size.reply * (len(prompts) + 2))


def _usd(found: ModelFindings, size: TaskSize, executor: str | None) -> float | None:
    if executor is None or found.price_in is None or found.price_out is None:
        return None
    prompts = _prompts(size, executor)
    written = size.reply * (len(prompts) + 2)
    return ((sum(prompts) + size.after) * found.price_in + written * found.price_out) / 1e6


def _cost_words(traits: ServerTraits, size: TaskSize, seconds: float | None, usd: float | None) -> str:
    task = f"A task of {size.steps} steps, judged and learned from, takes"
    money = "" if usd is None else f" and costs at most about {usd:.2g} USD"
    if seconds is None:
        return f"{task} a time that nobody knows{money}: the speed of the model wasn't measured."
    cached = (traits.server or "").startswith(_CACHING)
    how = "with the beginning of prompts in the server's cache" if cached else "if no prompt's beginning is cached"
    return f"{task} at most about {seconds:,.0f} s, {how}{money}."


# ---------------------------------------------------------------- the next command


def _next(found: ModelFindings, executor: str, options: tuple[str, ...]) -> str:
    task = ["--ont", "lights", "--task", "How many lighthouses are there?"]
    return _command(found, "rbank-es run ./trial", *task, "--executor", executor, *options)


def _command(found: ModelFindings, command: str, *more: str) -> str:
    named = ["--lm", found.traits.model, *(["--api-base", found.address] if found.address else [])]
    return f"{command} {shlex.join([*more[:4], *named, *more[4:]])}"
