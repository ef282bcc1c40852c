"""Runs out of OpenTelemetry's traces: spans and logs as they are sent, their facts, and the run that they tell of."""
