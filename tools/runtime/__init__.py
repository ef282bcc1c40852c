"""The runtime of tools: one invocation, its budget, its encoder, the store behind handles."""
