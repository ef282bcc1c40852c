"""The limits of skills: lessons of a bank in files that coding agents read."""

from rbank_es.limits import KIB, MIB

# Skills of one place and characters of a description: Codex lists 8,000 characters of descriptions with their names.
SKILLS_MOST = 24
SKILL_DESCRIPTION_CHARS = 240
# Characters of a name's parts: two of them with the prefix, the digest and the hyphens stay below 64.
SKILL_LABEL_CHARS = 20
SKILL_DIGEST_CHARS = 6
# Bytes of the lessons of one SKILL.md: below 5,000 tokens at 3 bytes a token.
SKILL_BODY_BYTES = 14_000
# Lessons of one SKILL.md, one a line: below 500 lines with its frame.
SKILL_LESSONS = 400
# Bytes that one lesson counts for where lessons are parted into skills: a longer one is whole in a reference.
SKILL_LESSON_BYTES = 600
# Lessons of one topic for which a skill of its own is worth its place in the listing.
SKILL_TOPIC_LESSONS = 5
# Lessons of one place: the best supported ones; as many fit into the skills in lines of some 60 bytes.
SKILL_PLACE_LESSONS = 5_000
# Bytes of the lessons in full beside a SKILL.md: read on demand, a part at a time.
SKILL_REFERENCE_BYTES = 256 * KIB
# Words of a description, the most frequent ones, and characters of one of them.
SKILL_WORDS = 24
SKILL_WORD_CHARS = 24
# Bytes of AGENTS.md in all: Codex drops the rest; and of the block in it, which other text shares the file with.
AGENTS_FILE_BYTES = 32 * KIB
AGENTS_BLOCK_BYTES = 12 * KIB
# Bytes of a file of skills as it is read back, and of a manifest: 5,000 lessons with their ids and digests take 1 MB.
SKILL_FILE_BYTES = 1 * MIB
SKILL_MANIFEST_BYTES = 8 * MIB
# Places of one bank that are remembered: projects on one machine.
SKILL_PLACES = 1_000
# Seconds for which a writer waits for another one in the same folder.
SKILL_LOCK_S = 10.0
