"""Ontologies: reading their files, describing what is in them, keeping that by digest."""
