"""Running recorded runs again from their own events, and saying where they come out otherwise.

recording     the events of one run, and whether it can be run again
aftermath     how the loop judged it, scored it and learnt of it, stage by stage
ontologies    the ontology that a run was about, found again
playing       what is taken from the record: what models said, what code came to
comparing     the first difference between two runs, event by event
hints         what may have changed there, in words
rerunning     all of it, for one run
"""
