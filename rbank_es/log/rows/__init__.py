"""Logs in rows of a database: what engines of tables do alike."""
