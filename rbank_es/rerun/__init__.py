"""Reruns of recorded runs from their own events, compared event by event with the record.

recorded_run      the events of one run and its stages, and whether it can be re-executed
ontology_lookup   the run's ontology, found by its digest
execution         the rerun itself, with recorded answers, keys and code outcomes
event_comparison  the first difference between two runs, and what may have changed

bisection         the events since which bad runs were given something else by the bank
change_search     the binary search for them, over the positions at which memory changed
given_memory      what the bank gave to a run, and would have given as of another position
recorded_prompt   other runs that had a prompt, and so answer without a model
task_outcomes     tasks that ran more than once, and those that failed after a success
"""
