"""The limits of hooks of coding agents, of what they spool, and of the settings that name them."""

from rbank_es.limits import KIB, MIB

# Seconds that one hook may take before it answers nothing: a person waits for every prompt.
HOOK_TIME_S = 0.15
# Seconds behind that time after which the process ends, whatever holds it up: a locked spool, a slow disk. Hosts wait
# for 1 s at least; what is left to do takes 2 ms, and half a second on a machine with ten times its work.
HOOK_END_S = 0.5
# Bytes of one event on standard input. A tool's response is in it whole; larger ones are in the transcript.
HOOK_EVENT_BYTES = 8 * MIB
# Characters of the context that a hook gives. Hosts take 10,000 at most; a longer one is not read by models.
HOOK_CONTEXT_CHARS = 2_000
# Bytes of the log behind the read models that a hook looks through: they take 2 ms.
HOOK_TAIL_BYTES = 1 * MIB
# Seconds within which the same event of the same turn is the same: two hosts, or two settings files, run one hook.
HOOK_TWICE_S = 10.0
# Characters of a spooled text (a tool's arguments, its response, an answer), of a prompt, and of a name or path.
SPOOL_TEXT_CHARS = 8_000
SPOOL_PROMPT_CHARS = 16_000
SPOOL_NAME_CHARS = 1_000
# Bytes of one line of a spool: texts within their limits, escaped, fit.
SPOOL_LINE_BYTES = 256 * KIB
# A spool file is closed at this size, and of closed ones so many are kept: a month of work that nobody took in.
SPOOL_FILE_BYTES = 16 * MIB
SPOOL_FILES = 16
# Seconds for which a spool's lock is waited for: a hook holds it for a millisecond, unless it was stopped.
SPOOL_LOCK_S = 2.0
# Bytes at the end of a spool in which an event that came twice is sought.
SPOOL_TAIL_BYTES = 256 * KIB
# Prompts whose outcomes are kept beside a spool: a week of work. More than one in so many late is a fault to tell of.
TALLY_PROMPTS = 100
LATE_ONE_IN = 4
# A settings file of a coding agent, and our own list of trusted banks: people write them by hand.
SETTINGS_BYTES = 4 * MIB
# Folders from a working directory up that are looked through for the root of its repository.
PROJECT_DEPTH = 64
# Bytes of a transcript in which `doctor` looks for the last lesson given; a longer session isn't looked through.
TRANSCRIPT_LOOK_BYTES = 64 * MIB
# Seconds after its prompt at which a turn of a spool is given up: nothing more of it will come.
SPOOL_WAIT_S = 86_400.0
# Characters of a prompt by which a turn is found in a transcript, and seconds that both may say it apart.
PROMPT_COMPARED_CHARS = 2_000
PROMPT_APART_S = 120.0
