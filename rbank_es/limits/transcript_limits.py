"""The limits of what is read from the transcripts of coding agents."""

from rbank_es.limits import KIB, MIB

# One transcript. It is read line by line, so this bounds time, not memory.
TRANSCRIPT_BYTES = 4096 * MIB
# One line: a tool's result of tens of megabytes, or an image; a longer line is refused and passed over.
TRANSCRIPT_LINE_BYTES = 64 * MIB
# The beginning of a file by which its form is told: first lines are metadata, or a prompt with what was pasted into it.
TRANSCRIPT_HEAD_BYTES = 4 * MIB
# Lines of that beginning that are tried, because the first ones may be damaged.
TRANSCRIPT_HEAD_LINES = 50
# Characters kept of one text: of a tool's result the end is read too, because summaries of tests stand there.
TRANSCRIPT_TEXT_CHARS = 8_000
TRANSCRIPT_END_CHARS = 4_000
# Characters of one call's arguments as JSON: a file that was written whole is in the repository.
TRANSCRIPT_ARGUMENT_CHARS = 8_000
# Texts given to one run from outside that are kept, such as those of hooks.
TRANSCRIPT_CONTEXTS = 20
# Acts (calls of tools and of models) and bytes of a run that are appended together: a long run is several appends.
TRANSCRIPT_GROUP_ACTS = 1_000
TRANSCRIPT_GROUP_BYTES = 8 * MIB
# Units that are compared with the bank and appended at once, which bounds the memory of an import.
TRANSCRIPT_BATCH_UNITS = 200
# Results whose calls did not come yet, in a file whose lines are out of order.
TRANSCRIPT_ORPHANS = 1_000
# The outcome of a trial: a page of JSON, and a reward that is one number.
TRIAL_FILE_BYTES = 16 * MIB
REWARD_FILE_BYTES = 64 * KIB
