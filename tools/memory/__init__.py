"""Search in the bank, and proposals of items, on behalf of the tool families."""
