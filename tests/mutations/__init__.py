"""A mutation run: does any test notice when one thing in the core is changed? `python -m tests.mutations --help`."""
