"""The question `policies`: the policies in force."""

from __future__ import annotations

from rbank_es.answers.shared.bank_reader import BankReader
from rbank_es.answers.shared.question_form import BankAnswer, BankQuestion, QuestionKind
from rbank_es.bank.policy_record import PolicyInForce, policies_in_force


class PoliciesAnswer(BankAnswer, frozen=True, kw_only=True):
    """The policy of each kind that governs, recorded or not."""

    policies: tuple[PolicyInForce, ...]


def find_policies(reader: BankReader, question: BankQuestion) -> PoliciesAnswer:
    """Return the policies in force."""
    found = policies_in_force(reader.bank.log, reader.position)
    return PoliciesAnswer(bank=reader.name, position=reader.position, policies=found)


QUESTION = QuestionKind(
    about="The policies in force, with their settings.",
    question=BankQuestion,
    answer=PoliciesAnswer,
    find=find_policies,
    rows="policies",
)
