"""Text as words: how items, questions and names of an ontology are read, in every script."""
