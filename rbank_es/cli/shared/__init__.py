"""Shared parts of the commands: options, output, progress, the table of commands."""
