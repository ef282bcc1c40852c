"""The limits of what is taken from, and told in, OpenTelemetry's protocol."""

from rbank_es.limits import KIB, MIB

# Characters of one attribute that are looked at for secrets before it is cut, and those of a JSON text that is parsed.
OTLP_READ_CHARS = 64 * KIB
OTLP_JSON_CHARS = 8 * MIB
# Values nested in one attribute: messages have five.
OTLP_DEPTH = 12
# Messages of a conversation, texts given to a model, calls of tools in messages, evaluations of a span that are kept.
OTLP_MESSAGES = 2_000
OTLP_KEPT = 20
OTLP_TOOLS = 500
# Seconds without news after which a trace is taken in whose root has come: exporters send spans and logs apart.
OTLP_SETTLE_S = 5.0
# Seconds after which a trace without its root is: its agent was killed, or another program has the root.
OTLP_WAIT_S = 900.0
