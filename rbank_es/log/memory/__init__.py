"""The engine that keeps logs in the memory of one process."""
