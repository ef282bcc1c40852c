"""Language models: who answers, and the record of every answer.

Every call of every role passes one engine that writes an `lm_called` event before the answer goes on. What stands
behind it is a provider, a script, or the recorded events of an earlier run. Nothing here loads dspy until a model is
asked for.
"""
