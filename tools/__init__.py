"""What an agent may call.

A tool takes keys or handles and returns a small JSON dict: never a payload, never an exception.

Floor rule: tools stand on the bank and the floors below it. They know nothing of who calls them
(executors, the loop, the command line), so nothing here imports from those.
"""
