"""The limits of reading the history of a repository."""

from rbank_es.limits import KIB, MIB

# Bytes of a history with all messages: some 500,000 commits; and of one read from git.
GIT_BYTES = 256 * MIB
GIT_READ_BYTES = 64 * KIB
# Seconds for git to print a history: one of 100,000 commits takes 2.
GIT_S = 60.0
# Steps from commit to commit that all questions about a history take together: some 20 s. One of 100,000 commits, with
# 1,000 reverted merges of 10 commits each, takes 300,000.
GIT_STEPS = 20_000_000
# Commits of one run that are looked at, and the fewest digits that name one: git itself prints no fewer.
GIT_RUN_COMMITS = 1_000
GIT_HASH_CHARS = 7
