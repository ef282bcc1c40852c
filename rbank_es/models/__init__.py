"""Language models: live, scripted and recorded, and the record of every call.

Each call of each role passes one engine, which appends an `lm_called` event before it returns the response. Behind the
engine is a provider, a script, or the events of an earlier run. Importing this package does not load dspy.
"""
