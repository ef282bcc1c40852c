"""Whole runs of a real model, small or large, at a server on this machine: robustness, never quality (`make real`)."""
