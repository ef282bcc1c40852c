"""The limits of what is taken from, and told in, OpenTelemetry's protocol."""

from rbank_es.limits import KIB, MIB

# Bytes of one request's body, before and after it is unpacked: what the protocol advises. 50 kB of gzip can hold 50 MB.
OTLP_BODY_BYTES = 20 * MIB
# Digits of the length of a chunk of a body, in hexadecimal: a body has seven.
OTLP_CHUNK_DIGITS = 8
# Bodies that are held and decoded at once: each takes some ten times its bytes.
OTLP_BODIES = 4
# Seconds in which a body must arrive: the sender is on this machine.
OTLP_BODY_S = 10.0
# Characters of one attribute that are looked at for secrets before it is cut, and those of a JSON text that is parsed.
OTLP_READ_CHARS = 64 * KIB
OTLP_JSON_CHARS = 8 * MIB
# Values nested in one attribute: messages have five.
OTLP_DEPTH = 12
# Messages of a conversation, texts given to a model, calls of tools in messages, evaluations of a span that are kept.
OTLP_MESSAGES = 2_000
OTLP_KEPT = 20
OTLP_TOOLS = 500
# Spans, and bytes, that a spool holds: ten times what 500 spans a second leave while a run without its root waits.
OTLP_SPOOL_BYTES = 2048 * MIB
# Traces that one look at the spool takes in: each look holds their spans in memory.
OTLP_INTAKE_TRACES = 500
# Seconds without news after which a trace is taken in whose root has come: exporters send spans and logs apart.
OTLP_SETTLE_S = 5.0
# Seconds after which a trace without its root is: its agent was killed, or another program has the root.
OTLP_WAIT_S = 900.0
# Seconds between two looks at the spool while a server runs, and for which a write to it waits for another's.
OTLP_LOOK_S = 1.0
OTLP_LOCK_S = 5.0
