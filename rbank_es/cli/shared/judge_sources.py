"""The options of commands that judge: the source and the model that a judge may query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rbank_es.cli.shared.command_registry import decorated
from rbank_es.cli.shared.ontology_options import ontology_options, open_named, whole_option
from rbank_es.errors import BadInput, JudgeFailed, LmFailed

if TYPE_CHECKING:
    from rbank_es.bank import Bank
    from rbank_es.judging.run_outcome import RunOutcome
    from rbank_es.judging.verdict import Verdict
    from rbank_es.models.model_choice import LmChoice
    from rbank_es.models.run_models import Lms
    from rbank_es.sparql.data_source import Source


class JudgeSources(NamedTuple):
    """The source and the model that a judge may query, as named on the command line."""

    paths: tuple[str, ...]
    endpoint: str | None
    void: str | None
    lm: str | None
    api_base: str | None
    lm_args: tuple[str, ...]
    whole: bool | None

    def choice(self) -> LmChoice | None:
        """Return the model named, None where none is."""
        from rbank_es.models.model_choice import LmChoice

        if self.lm is None:
            return None
        return LmChoice.parse(self.lm, api_base=self.api_base, arguments=self.lm_args)

    def source(self, stack: ExitStack, bank: Bank | None = None) -> Source | None:
        """Open the ontology or endpoint named, as a bank knows it; with a VoID file alone, its schema."""
        if self.paths or self.endpoint is not None:
            found = open_named(self.paths, stack, endpoint=self.endpoint, void=self.void, whole=self.whole)
        elif self.void is not None:
            from rbank_es.judging.source_evidence import described

            found = described(self.void)
            stack.callback(found.close)
        elif self.whole is not None:
            raise BadInput("--whole declares a source: name it with --ont or --endpoint")
        else:
            return None
        if bank is None:
            return found
        from rbank_es.bank.ontology_registrations import as_registered

        return as_registered(bank, found)


def model_and_source_options(endpoint: str, model: str, does: str) -> Callable[..., Callable[..., Any]]:
    """Return the options of `JudgeSources`, for a model that does something and has another option `model`.

    `endpoint` says what an endpoint is asked for.
    """
    return decorated(
        ontology_options(),
        click.option("--endpoint", metavar="URL|NAME", help=f"A SPARQL endpoint instead{endpoint}."),
        click.option("--void", metavar="FILE", help="A VoID description: of the endpoint, or alone, as a schema."),
        click.option("--lm", model, "lm", metavar="MODEL", help=f"The model that {does}, or script:FILE."),
        click.option("--api-base", metavar="URL", help="Address of your own model server."),
        click.option("--lm-arg", "lm_args", metavar="K=V", multiple=True, help="A parameter of the model."),
        whole_option,
    )


judge_source_options = model_and_source_options("; judges query it", "--judge-lm", "judges")


def models_of_judge(bank: Bank | None, run: str, choice: LmChoice | None, task: str) -> Lms | None:
    """Return the model that a judge may ask, whose calls a bank records; None where none is chosen."""
    if bank is None or choice is None:
        return None
    from rbank_es.models.run_models import Lms

    return Lms(bank, run, {"judge": choice}, task=task)


def asked_verdict(outcome: RunOutcome, judge: str, lms: Lms | None, **options: Any) -> Verdict:
    """Return a judge's verdict. Raises `JudgeFailed` without one, `LmFailed` if no other run would have one either."""
    from rbank_es.judging.judges import decide
    from rbank_es.models.model_call import FATAL, STOPPING

    try:
        with lms or nullcontext():
            return decide(outcome, judge=judge, lms=lms, **options)
    except LmFailed as failure:
        # With a wrong key or address every later run would fail too; any other failure costs one verdict.
        if failure.code in STOPPING or failure.code in FATAL:
            raise
        raise JudgeFailed(judge, failure.message) from failure
