"""Lookups in an ontology or endpoint on behalf of the tool families."""
