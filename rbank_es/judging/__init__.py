"""Judging: whether a run did what it was asked, by checks, by the right answer, or by a model."""
