"""The guard: the checks and edits that a query passes before an engine runs it."""
