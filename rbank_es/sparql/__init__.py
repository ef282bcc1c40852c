"""SPARQL: guarding queries, and the engines that run them."""
