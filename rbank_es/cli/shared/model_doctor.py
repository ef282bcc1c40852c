"""`doctor --lm`: try a model with a few calls that are said before, and say what follows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from rbank_es.cli.shared.output import echo, echo_command, echo_fields, echo_heading, echo_json, echo_paragraph, styled
from rbank_es.errors import BadInput, LmFailed, MissingExtra
from rbank_es.events.readable_text import count, safe_line
from rbank_es.models.doctor_time import TryTime
from rbank_es.models.model_findings import Advice, ModelFindings, TaskSize, Tried, advice, forms_of, most_tokens

if TYPE_CHECKING:
    from rbank_es.events.server_traits import ServerTraits
    from rbank_es.models.model_choice import LmChoice
    from rbank_es.models.server_properties import ServerWord

_PRICED_TOKENS = 1_000_000


def examine_model(choice: LmChoice, steps: int, seconds: float, *, dry_run: bool, as_json: bool) -> bool:
    """Try a model, and print the findings and what follows. Return whether a run of it can get anywhere.

    All calls together take so many seconds at most; those that would not fit are left out, which is said.

    With `dry_run` nothing but the look at its server is made, which calls no model.
    """
    from rbank_es.models.server_properties import keep, look, traits_of

    if choice.scripted:
        raise BadInput("a script answers what it was written to: there is nothing to try; name a model")
    said = look(choice)
    found = _begun(choice, traits_of(choice, said), said, seconds)
    planned = {} if found.failure else _planned(choice, found.traits)
    if not as_json:
        _print_plan(found, planned)
    if dry_run or not planned:
        return _ended(found, None if dry_run else _advised(choice, found, steps), planned, as_json=as_json)
    spent = TryTime(seconds)
    for made in _tries(choice, found, spent):
        found = made
        # At once, because a person may have seen enough, and leave.
        keep(choice, found.traits)
        if not as_json and found.tried:
            _print_tried(found.tried[-1])
            if len(found.tried) == 1:
                _print_forecast(found, planned, spent)
    # The try under which the time ended decided nothing either.
    ended = [each.name for each in found.tried[-1:] if each.kept is None and not spent.left_s]
    found = msgspec.structs.replace(found, left_out=(*ended, *spent.left_out))
    return _ended(found, _advised(choice, found, steps), planned, as_json=as_json)


# ---------------------------------------------------------------- before a call


def _begun(choice: LmChoice, traits: ServerTraits, said: ServerWord, seconds: float) -> ModelFindings:
    """Return what is known before a call: the address, the key, and why no call would succeed."""
    from rbank_es.models.live_model import address_of, require_key

    variable, failure = "", ""
    try:
        variable = require_key(choice)
    except (LmFailed, MissingExtra) as missing:
        failure = str(missing)
    if said.failure is not None:
        failure = str(said.failure)
    key = "none is needed" if not variable else f"{variable} is {'set' if os.environ.get(variable) else 'not set'}"
    price_in, price_out = (None, None) if failure else _prices(choice)
    return ModelFindings(
        traits=traits,
        address=address_of(choice),
        key=key,
        seconds=seconds,
        failure=failure,
        price_in=price_in,
        price_out=price_out,
    )


def _prices(choice: LmChoice) -> tuple[float | None, float | None]:
    """Return the prices of a million tokens read and written, by the list that dspy ships; None for unknown ones."""
    from rbank_es.models.live_model import address_of, openai_name
    from rbank_es.models.lm_request import LmMessage, LmRequest, LmResponse

    if address_of(choice) is not None or find_spec("dspy") is None:
        return None, None
    from rbank_es.models.dspy_calls import price_of

    provider, _, name = choice.model.rpartition("/")
    provider, name = (provider or "openai"), openai_name(choice) or name
    request = LmRequest.of(name, [{"role": "user", "content": "?"}], {})

    def price(**usage: int) -> float | None:
        message = LmMessage.of("assistant", "!")
        return price_of(
            request, LmResponse(model=name, message=message, finish_reason="stop", usage=usage), provider, name
        )

    return price(input_tokens=_PRICED_TOKENS, output_tokens=0), price(input_tokens=0, output_tokens=_PRICED_TOKENS)


def _planned(choice: LmChoice, traits: ServerTraits) -> dict[str, str]:
    """Return the calls that may be made, in their order, with what each asks for."""
    from rbank_es.models.live_model import openai_name
    from rbank_es.models.server_probe import TRIES

    return {**(TRIES if openai_name(choice) is not None else {}), **forms_of(traits)}


def _most_usd(found: ModelFindings, planned: dict[str, str]) -> float | None:
    if found.price_in is None or found.price_out is None:
        return None
    tokens = [most_tokens(name) for name in planned]
    return sum(read * found.price_in + written * found.price_out for read, written in tokens) / _PRICED_TOKENS


# ---------------------------------------------------------------- the calls


def _tries(choice: LmChoice, found: ModelFindings, spent: TryTime) -> Iterator[ModelFindings]:
    """Make the calls, and yield what is known behind each. A failure that every other call would meet ends them."""
    from rbank_es.models.live_model import live_model

    try:
        model: Any = live_model(choice)
    except (LmFailed, MissingExtra) as missing:
        yield msgspec.structs.replace(found, failure=str(missing))
        return
    try:
        for tried, traits in _outcomes(model, choice, found.traits, spent):
            made = msgspec.structs.replace(traits, tried_on=time.strftime("%Y-%m-%d", time.gmtime()))
            found = msgspec.structs.replace(found, traits=made, tried=(*found.tried, tried))
            yield found
    except LmFailed as failure:
        yield msgspec.structs.replace(found, failure=str(failure), tried=())
    finally:
        model.close()


def _outcomes(
    model: Any, choice: LmChoice, traits: ServerTraits, spent: TryTime
) -> Iterator[tuple[Tried, ServerTraits]]:
    from rbank_es.loop.form_tries import try_forms
    from rbank_es.models.live_model import openai_name
    from rbank_es.models.server_probe import try_server

    if openai_name(choice) is not None:
        for tried, known in try_server(model, choice, traits, spent):
            yield tried, (traits := known)
    for tried in try_forms(model, choice, traits, spent):
        if tried.kept is not None:
            forms = {**traits.forms, tried.name: tried.kept}
            found = {"tools": tried.kept} if tried.name == "tools" else {"forms": forms}
            traits = msgspec.structs.replace(traits, **found)
        yield tried, traits


# ---------------------------------------------------------------- what follows


def _advised(choice: LmChoice, found: ModelFindings, steps: int) -> Advice:
    from rbank_es.executors.executor import EXECUTORS

    return advice(found, _size(choice, steps), EXECUTORS.names())


def _size(choice: LmChoice, steps: int) -> TaskSize:
    """Return the size of a task of the shipped ontology, in tokens; no first prompt where an extra is missing."""
    from rbank_es import limits
    from rbank_es.data import LIGHTS, lights
    from rbank_es.executors.executor import EXECUTORS, executor_class
    from rbank_es.loop.call_estimate import (
        ANSWER_TOKENS,
        LESSON_CHARS,
        STEP_TOKENS,
        VERDICT_CHARS,
        manual_chars,
    )
    from rbank_es.loop.settings import LoopSettings, task_context
    from rbank_es.loop.tasks import Task
    from rbank_es.models.scripted_model import CHARS_A_TOKEN
    from rbank_es.ontology.loader import load_ontology
    from rbank_es.sparql.data_source import open_source

    first = dict[str, int]()
    with suppress(MissingExtra), closing(open_source(load_ontology(lights().ontology, id=LIGHTS))) as source:
        for name in EXECUTORS.names():
            settings = LoopSettings(lm=choice, executor=name)
            context = task_context(Task.asking("How many lighthouses are there?"), settings, source, None)
            chars = len(context.text) + manual_chars(settings, source) + executor_class(name).frame_chars
            first[name] = chars // CHARS_A_TOKEN
    after = VERDICT_CHARS + LESSON_CHARS + limits.EXTRACTION_TRAJECTORY_CHARS // 2
    return TaskSize(steps=steps, first=first, step=STEP_TOKENS, reply=ANSWER_TOKENS, after=after // CHARS_A_TOKEN)


# ---------------------------------------------------------------- output


def _print_plan(found: ModelFindings, planned: dict[str, str]) -> None:
    from rbank_es.models.model_choice import on_this_machine

    traits = found.traits
    echo_fields(
        {
            "model": traits.model,
            "address": found.address,
            "server": traits.server,
            "served": traits.served,
            "key": found.key,
            "context": None if traits.context_tokens is None else f"{traits.context_tokens:,} tokens",
            "tools": None if traits.tools is None else "yes" if traits.tools else "no: its template shows none",
        }
    )
    if not planned:
        return
    echo_heading(f"at most {count(len(planned), 'call')} of the model")
    echo_fields(dict(planned), indent=2)
    usd = _most_usd(found, planned)
    price = "their price is unknown" if usd is None else f"they cost at most about {usd:.2g} USD"
    price = "they cost no money" if on_this_machine(found.address) else price
    echo_paragraph(f"Each is made once, and recorded nowhere; {price}. They end within {found.seconds:g} s.")


def _print_forecast(found: ModelFindings, planned: dict[str, str], spent: TryTime) -> None:
    """Say how long the other calls will take, as far as the first one showed a speed."""
    if found.traits.read_tokens_s is None or not found.tried[0].kept:
        return
    others = [name for name in planned if name not in ("bound", "other_bound")]
    fits = dict(spent.forecast(others, found.traits))
    left_out = ", ".join(name for name in others if name not in fits)
    without = f"; left out, because they don't fit: {left_out}" if left_out else ""
    echo(f"{'':9}the other {count(len(fits), 'call')} take about {sum(fits.values()):,.0f} s{without}")


def _print_tried(tried: Tried) -> None:
    word, colour = {True: ("yes", "green"), False: ("no", "red"), None: ("unknown", "yellow")}[tried.kept]
    tokens = "" if tried.tokens_out is None else f", {tried.tokens_in or 0:,} tokens read, {tried.tokens_out:,} written"
    seen = f"{safe_line(tried.detail)} ({tried.duration_s:.1f} s{tokens})"
    echo(f"{styled(word.ljust(7), colour)}  {tried.name:<11}  {seen}")


def _ended(found: ModelFindings, made: Advice | None, planned: dict[str, str], *, as_json: bool) -> bool:
    if as_json:
        echo_json({"findings": found, "planned": planned, "advice": made})
    elif made is not None:
        _print_advice(found, made)
    else:
        echo_paragraph(found.failure or "Nothing was asked of the model: leave out --dry-run to make these calls.")
    return not found.failure and (made is None or made.executor is not None)


def _print_advice(found: ModelFindings, made: Advice) -> None:
    traits = found.traits
    if traits.read_tokens_s or traits.written_tokens_s:
        echo_heading("tokens a second")
        echo_fields({"read": traits.read_tokens_s, "written": traits.written_tokens_s}, indent=2)
    echo_heading("what follows")
    for sentence in made.sentences:
        echo_paragraph(safe_line(sentence))
    echo()
    echo("run next:")
    echo_command(made.command.removeprefix("rbank-es "))
