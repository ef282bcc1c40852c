"""Ontologies: their files, parsed and checked; their schema, described and cached; the names of their terms."""
