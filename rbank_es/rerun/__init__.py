"""Reruns of recorded runs from their own events, compared event by event with the record.

recorded_run      the events of one run and its stages, and whether it can be re-executed
ontology_lookup   the run's ontology, found by its digest
execution         the rerun itself, with recorded answers, keys and code outcomes
event_comparison  the first difference between two runs, and what may have changed
"""
