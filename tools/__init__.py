"""Tools that an agent may call, in families, and the runtime that checks, bounds and records their calls.

A tool takes keys or handles and returns a small JSON dict: never a payload, never an exception. Tools know nothing of
their callers (executors, the loop, the command line), so nothing here imports from those.
"""
