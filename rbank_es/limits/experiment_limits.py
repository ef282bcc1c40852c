"""The limits of experiments and their reports."""

from rbank_es.limits import MIB

# Tasks of a generated suite: each is drafted and asked of its world, in time that grows with the square.
GENERATED_TASKS = 2_000
# The file of an experiment: words and switches; the longest shipped one has 4 KiB.
EXPERIMENT_BYTES = 1 * MIB
# The name of an experiment or of a condition: part of the names of folders, of which most file systems take 255 bytes.
EXPERIMENT_NAME_CHARS = 60
# Conditions, and trials in all: each trial is a bank on disk of its own.
EXPERIMENT_CONDITIONS = 100
EXPERIMENT_TRIALS = 10_000
# Trials side by side. Each has sandboxes of its own, of about 160 MB each.
EXPERIMENT_JOBS = 64
# Simulated worlds: each family has words of its own, and each task is a run of a bank, 3 ms in memory and 20 on disk.
SIMULATED_FAMILIES = 1_000
SIMULATED_TASKS = 100_000
# The largest weight of an assumption: one item then decides a draw alone.
SIMULATED_WEIGHT = 10
# Repetitions of a simulated study: an interval is then as wide as a thirtieth of the spread.
STUDY_REPETITIONS = 1_000
# How long a trial waits for a model that fails before it stops: by default, and at most.
EXPERIMENT_PATIENCE_S = 600.0
EXPERIMENT_PATIENCE_MOST_S = 24 * 3_600.0
# Its first wait; each doubles the one before up to the longest, so that a provider that recovers has room.
EXPERIMENT_WAIT_S = 5.0
EXPERIMENT_WAIT_MOST_S = 300.0
# Repetitions beyond which no number is given that would be needed: nobody runs so many.
NEEDED_REPETITIONS = 100_000
# Families without a partner that one flaw of a suite names: it is one line of a table.
FAMILIES_NAMED = 5
# Kinds of notes of tasks that the end of a run names, the most frequent first.
NOTES_NAMED = 5
# What a report's page shows: points of a curve, in the width of a column; and runs and tasks: 20,000 have 12 MB.
REPORT_POINTS = 200
REPORT_RUNS = 20_000
# Characters of a task there, in a table and in the title of its runs.
REPORT_TASK_CHARS = 60
# Events of the banks whose pages a report writes, a minute's work, with few earlier positions: each costs a tenth of a
# second.
REPORT_PAGE_EVENTS = 30_000
REPORT_PAGE_STOPS = 8
REPORT_UNPAGED = 10
# A file of a report that is checked: 100,000 runs have 150 MiB of rows.
REPORT_FILE_BYTES = 512 * MIB
# Characters of each side of a difference that a check shows, and differences that it prints; --json has all.
REPORT_DIFFERENCE_CHARS = 160
REPORT_DIFFERENCES = 40
# How long a claim of a shard holds without being renewed: longer than clients of a shared disk keep what they know of
# its files, a minute at most by default; and how often one looks who waits for the common bank.
CLAIM_LEASE_S = 180.0
CLAIM_WAIT_S = 2.0
# A claim's file, a machine and a process, and the digits of its generation.
CLAIM_BYTES = 1_000
CLAIM_DIGITS = 7
