"""Logs on a PostgreSQL server: one bank for writers on several machines."""
