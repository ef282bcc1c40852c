"""The limits of the project, by package, each with its unit in its name and its reason above it.

A limit is a promise to everybody who shares the machine: no input, however large or hostile, makes the bank hold,
write or print more than is named here. A comment covers all limits below it, up to the next comment.

Here are those that several packages share. What one alone has stands beside this file: `tool_limits.py`,
`recorder_limits.py`, `hook_limits.py`, `skill_limits.py`, `git_limits.py`, `transcript_limits.py`, `page_limits.py`,
`answer_limits.py`, `sandbox_limits.py`, `reply_limits.py`, `mcp_limits.py`, `otlp_limits.py`,
`experiment_limits.py`, `postgres_limits.py`.
"""

KIB = 1024
MIB = 1024 * KIB
# -------------------- messages
# What a message repeats of what was given, and of one word that was: enough to find it again, not a page of it.
GIVEN_CHARS = 80
GIVEN_WORD_CHARS = 40
# Names of a list, known names near an unknown one, and those of all there are to choose from: the advice comes after.
NAMES_LISTED = 3
NEAREST_NAMES = 3
CHOICES_NAMED = 8
# Terms that a query names and nobody knows, and variables that a warning about it names.
UNKNOWN_TERMS_NAMED = 5
VARIABLES_NAMED = 4
# Characters of each side of a difference that an error shows: a line of code, a setting.
DIFFERENCE_CHARS = 200
# Marks over one letter that are shown: the densest scripts (Vietnamese, Thai, Hebrew) have at most this many.
LETTER_MARKS = 4
# Digits of a whole number that is read from a text: no position has more, and Python refuses to convert thousands.
INTEGER_DIGITS = 18
# -------------------- files
# The path of a bank, as its cached folder notes it: the longest that a system has.
CACHE_PLACE_BYTES = 4 * KIB
# Bytes of a file's name that its scratch file keeps: with the 38 that are added, it stays below 255.
SCRATCH_NAME_BYTES = 200
# The description of a parsed graph, beside it in the cache: what a schema keeps is limited, this is far beyond.
GRAPH_SCHEMA_BYTES = 256 * MIB
# A marker of a bank: the reason why writers stopped is a sentence, and an erasure lists what one group can hold.
MARKER_BYTES = 32 * MIB
REASON_BYTES = 4 * KIB
# -------------------- log
# One numbered line. Longer texts live in text lines, so a reader can hold any event cheaply.
LINE_BYTES = 1 * MIB
# One text line (a prompt, a response, a tool's payload), JSON escapes included.
TEXT_LINE_BYTES = 16 * MIB
# Events of one append. A group is held in memory, and becomes visible whole.
GROUP_EVENTS = 10_000
# Bytes of one append, its text lines included; must fit into a segment.
GROUP_BYTES = 32 * MIB
# A segment is closed before a group would grow it past this; erasure rewrites whole segments.
SEGMENT_BYTES = 64 * MIB
# A text whose UTF-8 is longer is stored as a text line, and the event holds a `Ref` to it.
INLINE_TEXT_BYTES = 2 * KIB
# Characters of its text that a `Ref` shows (source: the handle pattern).
REF_PREVIEW_CHARS = 80
# Characters of a text, and values of a collection, that the repr of a value shows: a line of a terminal holds a few.
REPR_CHARS = 60
REPR_VALUES = 3
# Rows of a list in a notebook or in print: a screen. Fields of a row in print: two lines of a terminal.
REPR_ROWS, REPR_FIELDS = 20, 6
# Seconds for which a writer waits for another before `LogBusy`; and after which a follower looks without being told.
LOCK_WAIT_S = 60.0
POLL_S = 0.25
# Bytes of a segment that are read at a time: their events should fit into a processor's second cache.
READ_BLOCK_BYTES = 256 * KIB
# Shorter texts are erased in their own place only and not searched for, because "yes" is everybody's.
NEEDLE_CHARS = 8
# Characters of words that a text must have before or behind an ellipsis, for erasure to take it for a cut copy of them:
# questions often begin alike for 20.
CUT_WORDS_CHARS = 32
# Texts that one event lists as erased: at 130 bytes each, the event's line stays below its limit.
ERASED_UNITS = 2_000
# Levels of escapes that a search for erasure undoes: JSON in a message in a request in a line of the log has four.
ERASURE_LEVELS = 8
# Bytes in which a search for erasure looks at a time: most blocks of lines are passed by without reading each line.
SEARCH_BLOCK_BYTES = 1 * MIB
# Characters of a bare bank name: with what is added to it, it fits into a file name of 255 bytes.
BANK_NAME_CHARS = 100
# Files that keep what interrupted appends left, and bytes of each: the newest matter, and a group fits into one.
TORN_FILES = 8
TORN_FILE_BYTES = 32 * MIB
# Places of related banks that are read: each costs a few small reads, and few banks have so many forks.
RELATED_PLACES = 1_000
# -------------------- events
# The largest integer that every JSON reader and SQLite hold exactly.
COUNT_MOST = 2**53 - 1
# What one event may claim: of 30 years and of a billion dollars, sums and squares are still finite numbers.
EVENT_S = 1e9
EVENT_USD = 1e9
# Identifiers, model names, tool names, error codes: facts are never erased, so they have no room for free text.
NAME_CHARS = 256
# Elements of one list of names or ids in an event: more would not fit into a line.
NAMES = 10_000
# Renamed ids that one absorption lists: pairs of the longest names, all escaped, stay within a line.
RENAMED_LISTED = 300
# Characters of an error's message that an event keeps: a traceback or a server's page has no end.
ERROR_CHARS = 2_000
# Levels of nested lists and objects in JSON that somebody gives: where Python itself gives up depends on its version.
JSON_DEPTH = 400
# Levels of nesting of a call's arguments that are redacted; the log redacts them again as text.
REDACTION_DEPTH = 32
# Characters from which on a value of the environment is redacted, and up to which a bare word is a mere placeholder.
SECRET_CHARS = 6
PLACEHOLDER_CHARS = 11
# Sizes of an item from an extractor, our own choice: a line, a sentence or two, a page. Imports are kept whole.
ITEM_TITLE_CHARS = 120
ITEM_DESC_CHARS = 240
ITEM_CONTENT_CHARS = 2_000
ITEM_TAGS = 12
ITEM_TAG_CHARS = 60
# Numbers of one vector: models give 384 to 4,096; up to here, sums of products of 16-bit integers are exact doubles.
VECTOR_DIMENSIONS = 8_192
# -------------------- projections and policies
# Uses in one window of the win rate: a few days of work, of which one verdict moves the rate by 5 points.
WIN_RATE_USES = 20
# How long a statement waits while another process commits to the same read models: a large batch takes seconds.
PROJECTION_BUSY_S = 60.0
# Distinct words of a search that are looked up, because time grows with each; and characters of it that are read.
QUERY_WORDS = 64
QUERY_CHARS = 10_000
# Postings of a search's words from which numpy is quicker than plain Python, once it is loaded: to call it for each
# word takes 10 us, and Python takes 100 ns for a posting.
NUMPY_POSTINGS = 5_000
# Postings that a process walks in plain Python before it loads numpy: that took as long as loading takes, 0.1 s.
PYTHON_POSTINGS = 2_000_000
# Postings that a view keeps in memory, at 10 bytes each at most: 80 MB, the common words of a bank of a million items.
POSTINGS_KEPT = 8_000_000
# Stems of one language that a process keeps, at some 150 bytes each: three times the words of a large bank.
STEMS_KEPT = 300_000
# Filters whose passing items a view keeps in memory, at a byte for each item.
FILTER_MASKS_KEPT = 64
# The largest `k` of a search, because each hit is looked up, and more are not read.
SEARCH_HITS = 100
# Judged uses from which on a bank's own log says where its floor should be: of fewer, intervals are 14 points wide.
FLOOR_USES = 200
# Labelled cases of one file: each costs a few searches, and ten thousand tell policies apart by less than a point.
RELEVANCE_CASES = 10_000
# Items below the floor that a search looks at, and records, before it gives up: each is some 120 bytes of its event.
WITHHELD_HITS = 10
# Characters of a text in which an excerpt is looked for: ten times what an extractor may write.
EXCERPT_TEXT_CHARS = 20_000
# Default size of `quote`: half of a tool's return.
QUOTE_CHARS = 500
# Bounds of a policy's settings: beyond them, a setting is a slip of the pen.
POLICY_WEIGHT = 1_000
POLICY_ITEMS = 100_000_000
POLICY_FRACTION = 1_000_000
POLICY_TRAJECTORY_LEAST_CHARS = 1_000
POLICY_TRAJECTORY_CHARS = 100_000
POLICY_TRIES = 10
# Items that one candidate may take the place of: more would let a model empty a bank with a few proposals.
MERGE_TARGETS = 20
# -------------------- exchange
# One file given to `import`: it is held in memory, with its events.
IMPORT_FILE_BYTES = 256 * MIB
# Bytes that an import appends at once, half of any group, which leaves room for its decisions.
IMPORT_GROUP_BYTES = GROUP_BYTES // 2
# Imported items of one extraction: with their words inline, they stay well below the limit of a line.
IMPORT_CANDIDATES = 100
# Extractions that an exported item names as its originals, the first ones: the names stay shorter than its words.
COPY_ORIGINALS = 20
# How often an import plans again because other writers were faster.
IMPORT_TRIES = 20
# Records of a file that one note names, and changed records that a report shows: the rest is counted.
RECORDS_NAMED = 5
# Characters of a run's or bank's name that a file name keeps: with digest and suffix it stays below 255 bytes.
EXPORT_NAME_CHARS = 200
# -------------------- bank
# How often candidates are decided about again because other writers were faster, and the longest wait before that:
# with 20 tries and no wait, eight processes lost 3 of 160 extractions.
CONSOLIDATION_TRIES = 50
CONSOLIDATION_WAIT_S = 2.0
# Decisions or ids in one event of a correction, and their bytes as JSON: the event fits into a line with its envelope.
CORRECTION_ROWS = NAMES
CORRECTION_ROW_BYTES = LINE_BYTES // 2
# Causes that the end of a correction names: a bank that nobody corrected for years may have more.
CORRECTION_CAUSES = 1_000
# Events and bytes of one group of a correction, half of any group: what is over goes ahead of it in parts.
CORRECTION_GROUP_EVENTS = GROUP_EVENTS // 2
CORRECTION_GROUP_BYTES = GROUP_BYTES // 2
# Events and bytes that an absorption appends at once: they, their decisions and what is due before fit into one group.
ABSORBED_GROUP_EVENTS = 4_000
ABSORBED_GROUP_BYTES = GROUP_BYTES // 4
# Seconds for which an absorption waits itself where the other clock is fast: synchronised ones differ by under 0.1 s.
CLOCK_AHEAD_S = 2.0
# Listed, while all are counted: events that an absorption refuses for ids, slips of writers, files that can't be read.
REFUSALS_LISTED = 100
BAD_FILES_LISTED = 10
SLIPS_LISTED = 1_000
# Ids that an error or a doubtful verdict names: more would hide what follows.
IDS_NAMED = 6
# Ids that an unknown one is compared with, to suggest the nearest: 10,000 take a third of a second.
IDS_COMPARED = 10_000
# -------------------- ontology
# Files of one ontology, and bytes of all of them: larger ones belong behind an endpoint.
ONTOLOGY_FILES = 1_000
ONTOLOGY_BYTES = 256 * MIB
# Characters of one literal in an ontology that a description reads.
ONTOLOGY_LITERAL_CHARS = 1 * MIB
# Characters of one literal or IRI of a file: escaped, it fits into the 16 MiB that the engine's parser reads at once.
ONTOLOGY_TERM_CHARS = 2 * MIB
# Levels of nested elements, objects and triple terms in an ontology's file: readers die of a few thousand.
ONTOLOGY_DEPTH = 200
# First bytes of a file by which its format is recognised: comments and prefixes come before the first statement.
ONTOLOGY_HEAD_BYTES = 64 * KIB
# The largest file that rdflib may read where pyoxigraph refuses it: rdflib takes a second for 2 MiB.
ONTOLOGY_TOLERANT_BYTES = 16 * MIB
# Characters of an IRI: classes and properties with longer ones are not described, and a slice shows no more of one.
ONTOLOGY_IRI_CHARS = 2_000
# Characters of a label, and of a definition or a note, that a description of an ontology keeps.
ONTOLOGY_LABEL_CHARS = 120
ONTOLOGY_COMMENT_CHARS = 500
# Steps from class to superclass by which instances are counted; with more, numbers leave out subclasses. Brick: 12,500.
ONTOLOGY_SUPERCLASS_STEPS = 1_000_000
# Notes of one class or property that a description keeps: a term of PROV or SKOS has two at most.
ONTOLOGY_NOTES = 8
# Pairs of class and property, and steps from class to class, that a description keeps, most used first.
TYPED_USES = 2_000
# Pairs of disjoint classes that a description keeps: a hundred classes that exclude each other make half of them.
DISJOINT_PAIRS = 10_000
# How deep XML entities may be made of other entities: a few levels multiply a file of kilobytes into gigabytes.
ONTOLOGY_ENTITY_DEPTH = 10
# Characters that rdflib may copy while it joins the pieces of one text (quadratic in their number): some seconds.
ONTOLOGY_JOINED_CHARS = 10_000_000_000
# Characters of a name that are compared with known names: difflib's time grows with their square.
ONTOLOGY_NAME_CHARS = 200
# Digests of terms that a registration keeps: of any two ontologies, the share in common shows within a tenth or so.
ONTOLOGY_SKETCH = 64
# Things whose class fits no property, that one warning or finding names: more of them have one cause.
CLASS_MISMATCHES = 3
# Classes, and ends of properties, of one node of a query that are compared with each other: the pairs grow with them.
CLASS_FACTS = 50
# Parsed graphs that are kept on disk, and schema tables in memory; the least recently used is evicted first.
GRAPH_CACHE_ENTRIES = 32
# Age at which a half-written entry of the cache is taken for that of a dead process: the largest takes minutes.
GRAPH_ABANDONED_S = 3_600.0
# How often an entry is put in place again because another process put a damaged one there meanwhile.
GRAPH_CACHE_TRIES = 3
# Characters of a parser's message about a file, because it quotes the file.
ONTOLOGY_ERROR_CHARS = 300
# Characters of a prefix that a file declares, and of one that is made from a namespace: names get longer by it.
PREFIX_CHARS = 64
MADE_PREFIX_CHARS = 20
# -------------------- sparql
# Characters of a SPARQL query; longer ones are not parsed.
QUERY_TEXT_CHARS = 20_000
# A file of a query: characters of UTF-8 take up to four bytes.
QUERY_FILE_BYTES = 4 * QUERY_TEXT_CHARS
# Faults of a query of which a lenient parser reads on behind the next dot; after more, behind the group: each fault
# walks the group again.
QUERY_FAULTS = 20
# Names, words and marks of a query, how deep its brackets may nest, and the digits of one of its numbers.
QUERY_TOKENS = 5_000
QUERY_NESTING = 100
QUERY_NUMBER_DIGITS = 1_000
# Digits of a LIMIT or an OFFSET: they fit into the integers of every engine, and of JSON.
QUERY_COUNT_DIGITS = 15
# Rows that a query gives, and how long it may run: unless asked otherwise, and at most.
QUERY_ROWS_DEFAULT = 100
QUERY_ROWS = 10_000
QUERY_TIME_S = 30.0
QUERY_TIME_MOST_S = 300.0
# Memory that a query may take in the local engine, beside the graph itself.
QUERY_MEMORY_BYTES = 1024 * MIB
# Bytes of one result, which still fit into a text line as escaped JSON; characters of one value that are kept.
RESULT_BYTES = 4 * MIB
RESULT_CELL_CHARS = 100_000
# How long the local engine may take to load its graph.
ENGINE_START_S = 60.0
# How long an endpoint may take to accept a connection, and between two pieces of an answer.
ENDPOINT_CONNECT_S = 5.0
ENDPOINT_READ_S = 20.0
# How often a call that was turned away is tried again, and the longest wait that an endpoint may ask for.
ENDPOINT_RETRIES = 2
ENDPOINT_WAIT_S = 30.0
# Redirects within the same host that are followed.
ENDPOINT_REDIRECTS = 3
# Characters of an endpoint's own error message that an agent sees, and bytes of an error's body that are read.
ENDPOINT_MESSAGE_CHARS = 300
ENDPOINT_ERROR_BYTES = 16 * KIB
# Characters of an answer's media type in an error: with its parameters, usual ones have 50.
ENDPOINT_MEDIA_CHARS = 60
# One TOML file of an endpoint's profile.
ENDPOINT_PROFILE_BYTES = 1 * MIB
# Terms of which an engine's data are remembered to have them or not: some ten megabytes, more than a suite names.
TERMS_REMEMBERED = 100_000
# How long after its time limit a query in a worker ends by itself, should nobody have ended it.
QUERY_GRACE_S = 5.0
# -------------------- tools
# Retries of a tool that reads the bank because other writers were faster.
TOOL_TRIES = 20
# Items that `mem_get` gives in full at once.
READ_ITEMS = 3
# The retrieval policies' default `k` of `mem_search` (source: the tool design).
FOUND_ITEMS_DEFAULT = 6
# -------------------- context
# Budgets of the layers of a context in characters, titles and markup included (source: the layered memory plan).
CONTEXT_BASE_CHARS = 800
CONTEXT_L0_CHARS = 600
CONTEXT_L1_CHARS = 1_000
CONTEXT_L2_CHARS = 600
CONTEXT_L2_ITEM_CHARS = 300
CONTEXT_L3_CHARS = 1_000
CONTEXT_LEAN_L1_CHARS = 400
CONTEXT_LEAN_L3_CHARS = 200
# A guide or a file of constraints that is given to a context.
CONTEXT_FILE_BYTES = 4 * MIB
# One entry of a list in a layer (a longer one costs more room than it tells), and the report of what was left out.
CONTEXT_ENTRY_CHARS = 160
CONTEXT_LEFT_OUT_CHARS = 200
# Characters of a title or a heading: a tenth of the card.
CONTEXT_TITLE_CHARS = 60
# Classes on either side of a property, steps in the data of one property of a constraint, and terms that are shown
# because the task names them.
CONTEXT_SIDES = 2
CONTEXT_STEPS = 3
CONTEXT_TASK_TERMS = 8
# Characters of an item's id that is shown (an imported one may be longer than what it names), and the least room of
# an item: the beginning of a title helps nobody.
CONTEXT_ID_CHARS = 64
CONTEXT_ITEM_LEAST_CHARS = 40
# One curated line: at a third of the layer's budget, two of them leave room for derived ones.
CURATED_TEXT_CHARS = 240
# Curated lines of one file and terms of one line: more than anyone curates by hand for a layer of 1,000 characters.
CURATED_LINES = 200
CURATED_TERMS = 20
# The lowest priority of a curated line; 1 is the highest.
CURATED_PRIORITY = 9
# Subclasses of one class that count in its rank: Brick's largest class has 1,300, and a hostile chain takes minutes.
CARD_SUBCLASSES = 1_000
# -------------------- models
# Retries of a call to a model, and the longest wait between them that a provider may ask for.
LM_RETRIES = 2
LM_WAIT_S = 30.0
# The timeout of one answer: default and maximum (some models think for minutes); and that of a connection.
LM_TIME_S = 300.0
LM_TIME_MOST_S = 86_400
LM_CONNECT_S = 10.0
# One request to a model as JSON: escaped, it fits into a text line, and with the answer into a group.
LM_REQUEST_BYTES = 4 * MIB
# Bytes of one answer that are read, with all that a provider puts around it (or 64 vectors of 8,192 numbers of 25
# characters), and characters of it that are kept.
LM_RESPONSE_BYTES = 16 * MIB
LM_RESPONSE_CHARS = 1_000_000
# Values in the arguments of a wrapped function that its record holds: more than a long conversation has.
CALL_VALUES = 100_000
# The longest field of malformed JSON that is repaired, in up to 1 s; 32,000 characters took 66 s.
LM_REPAIRED_CHARS = 2_000
# One file of scripted turns.
LM_SCRIPT_BYTES = 4 * MIB
# Characters that an error shows of an answer that can't be read, of the end of a request that a script doesn't expect,
# and on each side of a difference from a recorded request.
LM_ANSWER_SHOWN_CHARS = 2_000
LM_REQUEST_SHOWN_CHARS = 300
LM_DIFFERENCE_CHARS = 60
# Texts of one request to an embedding endpoint, their characters, and those of one text: servers take as many texts,
# models read as many tokens, and a group holds the vectors.
EMBEDDING_TEXTS = 64
EMBEDDING_CHARS = 200_000
EMBEDDING_TEXT_CHARS = 8_000
# Time of one request to an embedding endpoint.
EMBEDDING_TIME_S = 60.0
# Failures after which an embedder asks no more: a server that is down would hold up every search for minutes.
EMBEDDING_FAILURES = 3
# -------------------- runs
# Calls of tools in one step and in one run: ten times the most recorded, and a hundred rows each looked up twice.
STEP_CALLS = 200
RUN_CALLS = 1_000
# Bytes of payloads that one step and one run keep: four of the largest results, and four such steps.
STEP_PAYLOAD_BYTES = 16 * MIB
RUN_PAYLOAD_BYTES = 64 * MIB
# Bytes that one step and one run write to the log: the payloads, and as much for arguments, prompts and answers.
STEP_LOG_BYTES = 32 * MIB
RUN_LOG_BYTES = 128 * MIB
# How long the code of a step may run, without the time of its tools; a step with its tools, ten queries that each use
# up `QUERY_TIME_S`; and a run, twelve such steps. The slowest recorded run took 170 s.
STEP_TIME_S = 60.0
STEP_WALL_S = 300.0
RUN_WALL_S = 3_600.0
# -------------------- executors
# Steps of an agent and calls of models by its code, before it is forced to submit; and the most that settings accept.
RUN_ITERATIONS = 12
RUN_SUBCALLS = 25
RUN_ITERATIONS_MOST = 1_000
RUN_SUBCALLS_MOST = 10_000
# Characters of each earlier step's output that an agent is shown again (source: dspy.RLM), and steps shown whole.
STEP_OUTPUT_CHARS = 10_000
HISTORY_ENTRIES = 4
# What an agent is shown of a reply of its own that could not be parsed, and of the reason.
REPLY_SHOWN_CHARS = 1_000
REPLY_REASON_CHARS = 300
# Characters of the one line of a step that is no longer shown whole.
STEP_LINE_CHARS = 200
# Prompts of one batch of sub-calls that are sent side by side (source: dspy.RLM).
SUB_CALLS_AT_ONCE = 8
# -------------------- judging
# Rows or columns that are shown of one way in which two answers differ.
DIFFERENCE_EXAMPLES = 3
# Characters that a judge quotes of an error or of the right words, and of one value: three rows of three still fit.
JUDGE_QUOTE_CHARS = 200
JUDGE_VALUE_CHARS = 60
# Ways to match the columns of two answers that are all tried; beyond, each column takes its most similar one.
JUDGE_COLUMN_CHOICES = 5_000
# Decimal exponent beyond which numbers are compared as text (a double ends at 308): 1e999999999 isn't written out.
JUDGE_EXPONENT = 400
# Digits to which a number with a fraction is compared; integers below 10**12 and fractions are compared by less.
JUDGE_NUMBER_DIGITS = 10_000
# Characters of a judgment's reason, and of an answer and its query as a judging model is shown them.
JUDGE_REASON_CHARS = 2_000
JUDGE_ANSWER_CHARS = 8_000
JUDGE_QUERY_CHARS = 8_000
# Characters of a text that a model rates by a rubric: a whole guide, of which the longest seen had 20,000.
RUBRIC_TEXT_CHARS = 24_000
# Rows of the query's result, and characters of them, that a judging model is shown: some of a list, all of a number.
JUDGE_ROWS = 10
JUDGE_ROWS_CHARS = 2_000
# Characters of the last steps of a run that a judging model is shown: one step of code with its output.
JUDGE_STEPS_CHARS = 3_000
# Principles and past cases that a judging model is given, and the characters of each kind at most.
JUDGE_PRINCIPLES = 5
JUDGE_CASES = 3
JUDGE_MEMORY_CHARS = 3_000
# Characters of a judging model's reply that is read; replies before it is given up, each asked for with the last fault.
JUDGE_REPLY_CHARS = 50_000
# In a model's reply: brackets that begin no JSON value, of which each may cost the rest of the text; characters of a
# quotation, and those before a part that tell whose it is.
REPLY_BRACKETS = 100
REPLY_QUOTATION_CHARS = 2_000
REPLY_LEAD_CHARS = 300
JUDGE_TRIES = 3
# Terms of a query or an answer that are looked up in the data, in one query; and a file of labelled cases.
JUDGE_TERMS = 200
JUDGE_CASES_BYTES = 16 * MIB
# -------------------- extraction
# Items learned from a run: drawn by a model (source: ReasoningBank, arXiv:2509.25140), or proposed by its agent.
EXTRACTION_ITEMS = 3
EXTRACTION_PROPOSALS = 10
# Answers of an extracting model that are parsed before it is given up; each time it gets the fault of the last.
EXTRACTION_TRIES = 3
# Characters that an extracting model is shown of its own unusable answer, and of the reason why it is unusable.
SHOWN_AGAIN_CHARS = 2_000
# Characters below which steps are not shown at all: two truncated steps and the note between them need that many.
EXTRACTION_TRAJECTORY_LEAST_CHARS = 200
# What an extracting model is shown of a run's steps, of all rollouts together, and of a task, answer, query or reason.
EXTRACTION_TRAJECTORY_CHARS = 12_000
EXTRACTION_ROLLOUTS_CHARS = 24_000
EXTRACTION_TEXT_CHARS = 4_000
# Items that a model is shown beside a candidate, and characters of each: the text of a few lessons, not a library.
MERGE_NEIGHBOURS = 5
MERGE_SHOWN_CHARS = 600
# -------------------- loop and rerun
# Levels of a curriculum rise when so many of the last tasks succeeded: 80 %, as in mastery learning (Bloom, 1968), of
# the fewest tasks of which that is a whole number; and the most that settings accept, more than a level has tasks.
CURRICULUM_WON = 4
CURRICULUM_LAST = 5
CURRICULUM_LAST_MOST = 1_000
# Runs of one task side by side: each has a sandbox of its own.
ROLLOUTS = 16
# A file of tasks, the question of one, and its id, which becomes part of the ids of its runs.
TASKS = 10_000
TASKS_BYTES = 16 * MIB
TASK_CHARS = 10_000
TASK_ID_CHARS = 100
# The highest temperature that providers accept.
TEMPERATURE_MOST = 2.0
# Runs of one bisection, and runs of a task among which it looks for the same prompt; of one run, searches repeated at
# each check, and checks.
BISECT_RUNS = 100
BISECT_SEARCHES = 200
BISECT_CHECKS = 200
# How long git may take to name the commit of the code, before runs are recorded without one.
COMMIT_WAIT_S = 5.0
# Characters compared of each query or answer of a rollout, because difflib's work grows with their square.
ROLLOUT_COMPARED_CHARS = 4_000
# Steps of an agent that writes a guide, unless asked otherwise: a whole ontology takes more than one question.
GUIDE_ITERATIONS = 20
# -------------------- page
# Red flags of leakage: one tool's return, memory items put into a prompt, the context of a run. More is flagged.
FLAG_RETURN_CHARS = 1_000
FLAG_ITEMS_INJECTED = 3
FLAG_CONTEXT_CHARS = 4_000
# -------------------- cli
# Rows of a table, and names of a list, that a terminal or a summary shows: a screen; files and --json have all.
TABLE_ROWS = 20
# Characters of a node of a tree, and of the reason in a command that `drift` proposes: the table has all.
TREE_LINE_CHARS = 160
DRIFT_REASON_CHARS = 200
# Lines of an item, and characters of a text of a run, that `review` shows; --json has all.
REVIEW_CONTENT_LINES = 6
REVIEW_TEXT_CHARS = 300
# Verdicts of one file: each is an event, and the group that corrects them all holds 10,000.
RULINGS = 5_000
# Verdicts that `review` lists at most, weeks of a person's work; and its largest `--minutes`, a day.
REVIEW_VERDICTS = 1_000
REVIEW_MINUTES = 1_440
# The largest `--tail`, and names that a shell is offered at a Tab.
LOG_TAIL = 1_000_000
COMPLETIONS = 1_000
