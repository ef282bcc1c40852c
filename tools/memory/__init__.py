"""Searches of a bank's items, and proposals of new ones."""
