"""Lookups in an ontology or endpoint for several tool families."""
