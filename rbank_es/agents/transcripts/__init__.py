"""Runs out of the transcripts that coding agents leave: one reader for each form, from a file to runs and refusals."""
