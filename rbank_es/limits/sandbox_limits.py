"""The limits of the sandbox.

Bounds of steps and runs, which are recorded with each run, are among the shared ones.
"""

from rbank_es.limits import KIB, MIB

# How long a sandbox may start from a warm cache (1.6 s on an idle machine), and how long the cache (13 MB) may fill.
SANDBOX_START_S = 60.0
SANDBOX_WARM_S = 300.0
# Memory of a sandbox beyond its memory when it is ready, and of that the heap of JavaScript.
SANDBOX_MEMORY_BYTES = 512 * MIB
SANDBOX_HEAP_BYTES = 256 * MIB
# Characters of a step's output that are kept, head and tail, and that it may print: loops print gigabytes.
SANDBOX_OUTPUT_CHARS = 20_000
SANDBOX_PRINTED_CHARS = 10_000_000
# Characters of a step's output that are kept where an interpreter has no limit of its own: four times the sandbox's,
# because what that truncated must not be truncated again.
OTHER_OUTPUT_CHARS = 4 * SANDBOX_OUTPUT_CHARS
# Characters as JSON of a submission (a long answer, no result set), and of one call's arguments (a batch of prompts).
SANDBOX_SUBMIT_CHARS = 1_000_000
SANDBOX_ARGUMENT_CHARS = 1_000_000
# Bits of an integer that is sent out of the sandbox as a number: Python writes no longer one as decimal text.
SANDBOX_INTEGER_BITS = 14_000
# Calls out of the sandbox in one step, refused ones too, and characters of their arguments: more ends the session.
SANDBOX_CALLS = 10_000
SANDBOX_CALLS_CHARS = 32 * MIB
# Depth of a value that leaves the sandbox (deeper is text), and values within it: one may contain itself.
SANDBOX_VALUE_DEPTH = 50
SANDBOX_VALUES = 500_000
# Elements of one variable that are counted when its size is measured.
SANDBOX_COUNTED_ELEMENTS = 10_000
# Memory that is freed when a step has used up all, because the error message needs some.
SANDBOX_RESERVE_BYTES = 4 * MIB
# One line to or from a sandbox: a whole payload fits. Lines in a step that are no messages: more end the session.
SANDBOX_MESSAGE_BYTES = 16 * MIB
SANDBOX_NOISE_LINES = 1_000
# Characters of the variables that a session begins with: three encodings escape them again.
SANDBOX_VARIABLES_CHARS = SANDBOX_MESSAGE_BYTES // 4
# The end of a sandbox's standard error, kept for the error message when it dies.
SANDBOX_STDERR_BYTES = 2_000
# Bytes of standard error that are read to get at its end: a process that only closed its output may go on writing.
SANDBOX_DRAINED_BYTES = 4 * MIB
# Places in the agent's code that an error names, and characters of each line.
SANDBOX_ERROR_PLACES = 4
SANDBOX_LINE_CHARS = 200
# The note of compared parts of the runtime: ten lines of a path and a digest.
SANDBOX_NOTE_BYTES = 64 * KIB
# New sessions of a run after its first was lost; and those that a pool keeps ready, one a rollout, of 160 MB each.
SANDBOX_RESTARTS = 3
SANDBOX_POOL = 16
# How long a process that exits may take to be reaped before it is killed, and Deno to print its release.
SANDBOX_EXIT_S = 2.0
DENO_PROBE_S = 10.0
