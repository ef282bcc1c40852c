"""The parser: SPARQL 1.1 text as tokens, then as one tree."""
