"""Contexts: the text that an agent gets before its first step, layer by layer, within budgets."""
