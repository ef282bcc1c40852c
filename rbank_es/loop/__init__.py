"""The closed loop: retrieve, run, judge, extract, consolidate, task by task; and what is made of single runs.

tasks         questions, read from files
settings      every choice of a loop in one value, with a digest
equipment     what the runs of a loop share: the source, the executor, its sandboxes
one_run       one task, run once; recorded whatever happens
learning      the verdict on a run, and what is learnt of it
history       what a bank already has of which task
closed_loop   one task after the other; resumable
rollouts      several runs of one task, and what can be learnt by comparing them
guide         a long text about an ontology, written once by an agent
"""
