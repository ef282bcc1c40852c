"""Running recorded runs again from their own events, and saying where they come out otherwise.

scratch       a copy of the bank as it was before a run, with what that run needs
recording     the events of one run, and whether it can be run again
aftermath     how the loop judged it and what it learnt, done again
ontologies    the ontology that a run was about, found again
comparing     the first difference between two runs, event by event
rerunning     all of it, for one run
"""
