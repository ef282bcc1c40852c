"""Where an agent's code runs. Nothing here loads dspy or starts a process until a sandbox is asked for."""
