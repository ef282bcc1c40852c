"""The limits of questions about a bank and of their answers."""

from rbank_es.limits import KIB, MIB

# Rows of one page of an answer, usually and at most: 10,000 runs are some 10 MB of JSON.
ANSWER_ROWS = 50
ANSWER_ROWS_MOST = 10_000
# Characters of the sentence about an event: two lines of a wide terminal.
SUMMARY_CHARS = 300
# Characters of one block of a text of any length, usually and at most.
TEXT_BLOCK_CHARS = 64 * KIB
TEXT_BLOCK_CHARS_MOST = 1 * MIB
# Messages of one recorded prompt that are shown apart; others are read one by one.
PROMPT_MESSAGES = 100
# Characters of a message of a call that a terminal shows, without the beginning that the call before had: two screens.
PROMPT_CHARS = 4_000
# Conditions of one question: a list has 50 fields.
ANSWER_CONDITIONS = 50
# Doubtful verdicts of one answer, unless asked for more: a person checks so many at a sitting.
DOUBTS = 10
# Points of a series of health reports: each is a view of its own, and a chart shows no more.
HEALTH_POINTS = 200
# A tree of causes or effects: an item, a run that it misled, what this taught, and its uses; nobody reads 200 lines.
LINEAGE_TREE_DEPTH = 6
LINEAGE_TREE_DEPTH_MOST = 50
LINEAGE_TREE_WIDTH = 10
LINEAGE_NODES = 200
# Moments of a course at most: more can't be told apart in a chart.
COURSE_POINTS = 1_000
# Tools, and red flags, of one answer: a toolbox has some 30 tools, and of more flags than these the newest tell enough.
LEAKAGE_ROWS = 200
# Marks and points of the overview, and rows of its lists: more can't be distinguished, or read.
OVERVIEW_RUNS = 240
# Groups of the runs before those, and the runs of one at least: a group of fewer takes as much room as their marks.
OVERVIEW_GROUPS = 60
OVERVIEW_GROUP_RUNS = 20
OVERVIEW_POINTS = 200
OVERVIEW_FAILURES = 5
OVERVIEW_ITEMS = 10
# Notable events that a log's marks name with so many characters, and equal parts in which all others are counted.
NOTABLE_EVENTS = 1_000
NOTABLE_CHARS = 300
TICKS = 200
# Characters of a bank's purpose.
PURPOSE_CHARS = 500
# Rows and characters of an answer to SQL, at most: they go from process to process, and to a file, in one piece.
SQL_ROWS = 1_000_000
SQL_RESULT_CHARS = 64 * MIB
