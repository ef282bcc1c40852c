"""Contexts: what an agent is told before its first step, layer by layer, within budgets."""
