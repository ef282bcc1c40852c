"""A bank for any agent: what records its runs, brings in what it did elsewhere, and gives it what was learned."""
