"""The bank: one log, the state that follows from it, and its read models. The way in for Python programs."""

from rbank_es.bank.bank import PROJECTIONS, Bank, Replayed, Verified

__all__ = ["PROJECTIONS", "Bank", "Replayed", "Verified"]
