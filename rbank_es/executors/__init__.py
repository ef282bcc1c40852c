"""Executors: the agent loops that turn a task and its context into a run. Importing this loads no dspy."""
