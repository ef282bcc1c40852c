"""The sandbox of an agent's code. Importing this package neither loads dspy nor starts a process."""
