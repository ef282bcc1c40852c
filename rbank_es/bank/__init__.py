"""The bank: one log, its state and its read models, as Python programs use them."""

from rbank_es.bank.bank import PROJECTIONS, Bank, Replayed, Verified

__all__ = ["PROJECTIONS", "Bank", "Replayed", "Verified"]
