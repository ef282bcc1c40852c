"""The limits of what is recorded of an agent of one's own."""

# Characters of one text of a run: a long page or a whole prompt; at six bytes an escaped one, it fits into a text line.
RECORDED_CHARS = 1_000_000
# Characters that are searched for secrets before a text is cut: no key is as long as the rest.
REDACTED_CHARS = 2 * RECORDED_CHARS
# Events behind the read models that a recall reads rather than bring these up to date: some 20 runs, in 3 ms.
RECALL_TAIL_EVENTS = 250
# Seconds for which a recorder waits for the mark of its own run: only somebody who looks for ended writers holds it.
MARK_WAIT_S = 5.0
# Bytes of the name of a machine in such a mark.
MACHINE_BYTES = 256
# Runs of one server, or of one agent in a framework, that are open at once: of eight hosts, each with subagents. The
# one used longest ago makes room.
OPEN_RUNS = 64
