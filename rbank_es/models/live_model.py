"""The live model: a provider's, called over the network; which client calls it, with which address and key.

What speaks OpenAI's protocol is called over httpx. All others are called through dspy's client, which the extra `agent`
has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from rbank_es.errors import BadInput, MissingExtra
from rbank_es.events.event_envelope import Settings
from rbank_es.events.run_events import Role
from rbank_es.models.lm_request import LmMessage, LmRequest, LmResponse
from rbank_es.models.model_call import Model, failed
from rbank_es.models.model_choice import FUNCTION, LmChoice, on_this_machine
from rbank_es.models.parameters import bounded_parameters

OPENAI_KEY = "OPENAI_API_KEY"

# With these, OpenAI is called in another way than by messages.
_OTHERWISE = frozenset({"model_type", "api_version", "organization", "project"})
_OPENAI_NAMES = re.compile(r"gpt-|chatgpt-|o\d")


def live_model(choice: LmChoice) -> Model:
    """Return the model; nothing is sent. Raises `LmFailed` (unknown_model, missing_key), `MissingExtra`."""
    variable, address = require_key(choice), address_of(choice)
    name = openai_name(choice)
    if name is not None:
        from rbank_es.models.openai_model import OpenAiModel

        key = (os.environ.get(OPENAI_KEY) or "").strip() or None
        return OpenAiModel(choice, name, address, key, variable)
    from rbank_es.models.dspy_model import DspyModel

    return DspyModel(choice, address, variable)


def openai_name(choice: LmChoice) -> str | None:
    """Return the model's name at a server that speaks OpenAI's protocol; None for any other provider's.

    These are `openai/NAME`, a bare name with an address, and OpenAI's own bare names.
    """
    if _OTHERWISE & choice.arguments.keys():
        return None
    prefix, slash, rest = choice.model.partition("/")
    if slash:
        return rest if prefix == "openai" and rest else None
    return choice.model if choice.api_base or _OPENAI_NAMES.match(choice.model) else None


def reply_bounds(choice: LmChoice, role: Role) -> Settings:
    """Return the parameters of a choice with the default bounds of a role's replies.

    They are for servers that speak OpenAI's protocol, and those of one's own. Elsewhere models end by themselves, and
    thinking counts in a bound.
    """
    if openai_name(choice) is None and not choice.api_base and not choice.model.startswith("ollama"):
        return choice.parameters
    return bounded_parameters(role, choice.model, choice.parameters)


def require_prices(choices: Iterable[LmChoice]) -> None:
    """Raise `BadInput` for a model that no list has prices of: a bound in money could not be kept."""
    for choice in choices:
        if not _is_priced(choice):
            raise BadInput(
                f"no list has prices of {choice.name}, so a bound in US dollars can't be kept: bound its tokens, "
                "--bound run_tokens=N"
            )


def _is_priced(choice: LmChoice) -> bool:
    if choice.scripted or address_of(choice) is not None:
        return False
    from rbank_es.models.dspy_calls import price_of
    from rbank_es.models.dspy_model import route_of

    name, route = openai_name(choice), None
    if name is None and (route := route_of(choice)) is None:
        return False
    provider, model = ("openai", str(name)) if route is None else (route.provider, route.model)
    request = LmRequest.of(choice.model, [{"role": "user", "content": "1"}], {})
    usage = {"input_tokens": 1_000, "output_tokens": 1_000, "total_tokens": 2_000}
    said = LmResponse(model=model, message=LmMessage.of("assistant", "1"), finish_reason="stop", usage=usage)
    return price_of(request, said, provider, model) is not None


def require_key(choice: LmChoice) -> str:
    """Return the key's environment variable; empty where none is needed, or where litellm finds it.

    Raises `LmFailed('missing_key')`, naming the variable, if it is not set. A server on this machine needs none.
    Raises `MissingExtra` for a provider that only dspy's client can call.
    """
    if choice.model.startswith(FUNCTION):
        raise BadInput(f"{choice.model} is a function of a Python program, which no command can call: name a model")
    if openai_name(choice) is not None:
        variable, missing = OPENAI_KEY, [] if os.environ.get(OPENAI_KEY) else [OPENAI_KEY]
    else:
        from rbank_es.models.dspy_model import key_variables

        try:
            variable, missing = key_variables(choice)
        except MissingExtra as absent:
            does = f"calling {choice.model} (a server with OpenAI's protocol needs none: openai/NAME, --api-base URL)"
            raise MissingExtra("agent", does) from absent
    if missing and not on_this_machine(address_of(choice)):
        names = " and ".join(missing)
        raise failed("missing_key", f"{choice.model} needs a key in the environment variable {names}")
    return variable


def address_of(choice: LmChoice) -> str | None:
    """Return the URL of a server of one's own: the choice's, else that of the provider's variable; else None."""
    prefix = "openai" if openai_name(choice) is not None else choice.model.partition("/")[0]
    prefix = prefix.upper().replace("-", "_")
    named = (os.environ.get(f"{prefix}_{end}") for end in ("API_BASE", "BASE_URL"))
    return choice.api_base or next(filter(None, named), None)
