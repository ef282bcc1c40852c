"""The sandbox that runs an agent's code. Nothing here loads dspy or starts a process until a session is opened."""
