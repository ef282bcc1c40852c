"""Experiments: conditions over task suites, in banks of their own, every number computed again from their logs."""
