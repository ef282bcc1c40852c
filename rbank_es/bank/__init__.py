"""The bank: one log, its state and its read models, as Python programs use them."""

from rbank_es.bank.bank import Bank, Replayed
from rbank_es.bank.bank_access import READ_MODELS

__all__ = ["READ_MODELS", "Bank", "Replayed"]
