"""Every limit of the project, by room, each with its unit in its name and its reason below it.

A limit is a promise to everybody who shares the machine: no input, however large or hostile, makes the bank hold,
write or print more than is named here. A docstring covers all limits above it, up to the docstring before.
"""

KIB = 1024
MIB = 1024 * KIB

# -------------------- log

LINE_BYTES = 1 * MIB
"""One numbered line. Longer texts live in text lines, so a reader can hold any event cheaply."""

TEXT_LINE_BYTES = 16 * MIB
"""One text line (a prompt, a response, a tool's payload), JSON escapes included."""

GROUP_EVENTS = 10_000
"""Events of one append. A group is held in memory, and becomes visible whole."""

GROUP_BYTES = 32 * MIB
"""Bytes of one append, its text lines included; must fit into a segment."""

SEGMENT_BYTES = 64 * MIB
"""A segment is closed before a group would grow it past this; erasure rewrites whole segments."""

INLINE_TEXT_BYTES = 2 * KIB
"""A text whose UTF-8 is longer is stored as a text line, and the event holds a `Ref` to it."""

REF_PREVIEW_CHARS = 80
"""Characters of its text that a `Ref` shows (source: the handle pattern)."""

LOCK_WAIT_S = 60.0
"""How long a writer waits for another before it gives up with `LogBusy`."""

READ_BLOCK_BYTES = 256 * KIB
"""Bytes of a segment that are read at a time: their events should fit into a processor's second cache."""

POLL_S = 0.25
"""How often a follower looks by itself, where no file notification arrives."""

NEEDLE_CHARS = 8
"""Shorter texts are erased in their own place only and not searched for, because "yes" is everybody's."""

SEARCHED_IDS = 32
"""Ids that a writer looks up in the active segment's bytes before it makes a dictionary of them all."""

# -------------------- events

NAME_CHARS = 256
"""Identifiers, model names, tool names, error codes: facts are never erased, so they have no room for free text."""

NAMES = 10_000
"""Elements of one list of names or ids in an event: more would not fit into a line."""

ERROR_CHARS = 2_000
"""Characters of an error's message that an event keeps: a traceback or a server's page has no end."""

SECRET_CHARS = 6
"""Shorter values of the environment are not redacted, because they occur in any text."""

REDACTION_DEPTH = 32
"""Levels of nesting of a call's arguments that are redacted; the log redacts them again as text."""

ITEM_TITLE_CHARS = 120
ITEM_DESC_CHARS = 240
ITEM_CONTENT_CHARS = 2_000
ITEM_TAGS = 12
ITEM_TAG_CHARS = 60
"""Sizes of an item from an extractor (source: the item's form in the ReasoningBank paper); imports are kept whole."""

# -------------------- projections and policies

PROJECTION_BATCH_EVENTS = 20_000
"""Events whose row changes are applied in one transaction: they are held in memory until then."""

PROJECTION_BATCH_CHARS = 32 * MIB
"""Characters of text after which such a transaction is closed early, because a few events may hold much text."""

PROJECTION_CACHE_KIB = 128 * KIB
"""Memory for pages of a read model during a rebuild, in KiB: SQLite's own 2 MiB would write most pages many times."""

PROJECTION_BUSY_S = 60.0
"""How long a statement waits while another process commits to the same read models: a large batch takes seconds."""

QUERY_WORDS = 64
"""Distinct words of a query that are searched for: the time of a search grows with each."""

QUERY_CHARS = 10_000
"""Characters of a query that are read; an agent may send a whole page."""

SEARCH_HITS = 100
"""The largest `k` of a search, because each hit is looked up, and more are not read."""

QUOTE_CHARS = 500
"""Default size of `quote`: half of a tool's return."""

POLICY_WEIGHT = 1_000
POLICY_ITEMS = 100_000_000
POLICY_FRACTION = 1_000_000
POLICY_TRAJECTORY_LEAST_CHARS = 1_000
POLICY_TRAJECTORY_CHARS = 100_000
POLICY_TRIES = 10
"""Bounds of a policy's settings: a column's weight, items of a bank, parts of a fraction, characters of a run's steps
and answers of a model. Beyond them a setting is a slip of the pen."""

# -------------------- importers

IMPORT_FILE_BYTES = 256 * MIB
"""One file given to `import`: it is held in memory, with its events."""

IMPORT_CANDIDATES = 100
"""Imported items of one extraction: with their words inline, they stay well below the limit of a line."""

IMPORT_BATCH_BYTES = 16 * MIB
"""Bytes that an import appends at once: half of a group, which leaves room for its decisions."""

IMPORT_LOOKUPS = 8
"""Ids of an import that are looked up one by one; for more, reading the log once is quicker."""

IMPORT_TRIES = 20
"""How often an import plans again because other writers were faster."""

EXPORT_NAME_CHARS = 200
"""Characters of a run's or bank's name that a file name keeps: with digest and suffix it stays below 255 bytes."""

# -------------------- bank

CONSOLIDATION_TRIES = 50
CONSOLIDATION_WAIT_S = 2.0
"""How often candidates are decided about anew because other writers were faster, and the longest wait before that.
With 20 tries and no wait, eight processes that did nothing else lost 3 of 160 extractions."""

# -------------------- ontology

ONTOLOGY_FILES = 1_000
"""Files of one ontology."""

ONTOLOGY_BYTES = 256 * MIB
"""Bytes of all files of one ontology: larger ones belong behind an endpoint."""

ONTOLOGY_LITERAL_CHARS = 1 * MIB
"""Characters of one literal in an ontology that a description reads."""

ONTOLOGY_TERM_CHARS = 2 * MIB
"""Characters of one literal or IRI in an ontology: escaped, it still fits into the 16 MiB that the engine's parser
reads at once. A file with a longer one is refused."""

ONTOLOGY_DEPTH = 200
"""How deep elements, objects and triple terms of an ontology's file may be nested: readers die of a few thousand."""

ONTOLOGY_TOLERANT_BYTES = 16 * MIB
"""The largest file that is read again by rdflib where pyoxigraph refuses it: rdflib takes a second for 2 MiB."""

ONTOLOGY_IRI_CHARS = 2_000
"""Characters of an IRI; classes and properties with longer ones are not described."""

ONTOLOGY_LABEL_CHARS = 120
ONTOLOGY_COMMENT_CHARS = 500
"""Characters of a label, and of a definition or a note, that a description of an ontology keeps."""

ONTOLOGY_NOTES = 8
"""Notes of one class or property that are kept: a term of PROV or SKOS has two at most."""

TYPED_USES = 2_000
"""Pairs of class and property, and steps from class to class, that are kept of an ontology's data, most used first."""

DISJOINT_PAIRS = 10_000
"""Pairs of disjoint classes that are kept: a hundred classes that exclude each other make half of them."""

GRAPH_CACHE_ENTRIES = 32
"""Parsed graphs that are kept on disk; the one used least recently goes first."""

# -------------------- sparql

QUERY_TEXT_CHARS = 20_000
"""Characters of a SPARQL query; longer ones are not parsed."""

QUERY_ROWS_DEFAULT = 100
QUERY_ROWS = 10_000
"""Rows that a query gives: unless asked otherwise, and at most."""

QUERY_TIME_S = 30.0
QUERY_TIME_MOST_S = 300.0
"""How long a query may run: unless asked otherwise, and at most."""

QUERY_MEMORY_BYTES = 1024 * MIB
"""Memory that a query may take in the local engine, beside the graph itself."""

RESULT_BYTES = 4 * MIB
"""Bytes of one result: with the escapes of JSON, it still fits into a text line."""

RESULT_CELL_CHARS = 100_000
"""Characters of one value that are kept of a result."""

ENGINE_START_S = 60.0
"""How long the local engine may take to load its graph."""

ENDPOINT_CONNECT_S = 5.0
ENDPOINT_READ_S = 20.0
"""How long an endpoint may take to accept a connection, and between two pieces of an answer."""

ENDPOINT_RETRIES = 2
ENDPOINT_WAIT_S = 30.0
"""How often a call that was turned away is tried again, and the longest wait that an endpoint may ask for."""

ENDPOINT_REDIRECTS = 3
"""Redirects within the same host that are followed."""

ENDPOINT_GET_CHARS = 1_800
"""Queries up to this length go by GET, which caches well; longer ones by POST."""

ENDPOINT_MESSAGE_CHARS = 300
"""What the agent sees of an endpoint's own error message."""

# -------------------- tools

TOOL_RETURN_CHARS = 1_000
"""A tool's return as JSON. More in one return is a red flag of leakage."""

SLICE_RETURN_CHARS = 4_000
"""The return of `sparql_slice` and `ctx_slice`: rows and excerpts that the agent asked for."""

ITEMS_RETURN_CHARS = 4_500
"""The return of `mem_get`: three items of an extractor in full, and little more."""

TOOL_ARGUMENT_CHARS = 20_000
"""Characters of one call's arguments, as JSON, that are taken; a query or a note that is longer is refused."""

PAYLOAD_BYTES = TEXT_LINE_BYTES - 64 * KIB
"""Bytes of one payload as JSON: with its envelope, it fits into a text line."""

PAYLOADS_KEPT_CHARS = 32 * MIB
"""Payloads of a run that are kept in memory beside the bank; those recorded later are read from there."""

STORE_CHARS = 256 * MIB
"""All payloads of a store that has no bank."""

TOOL_TRIES = 20
"""How often a tool that reads the bank reads again because other writers were faster."""

READ_ITEMS = 3
"""Items that `mem_get` gives in full at once."""

FOUND_ITEMS = 20
"""The largest `k` of `mem_search`: so many titles still fit into its return."""

PEEK_CHARS = 200
"""Default size of `ctx_peek` (source: the handle pattern)."""

FIND_HITS = 100
"""The largest `k` of `ctx_find`."""

FIND_TIME_S = 1.0
"""How long `ctx_find` may look: a pattern can backtrack for ever."""

FIND_SNIPPET_CHARS = 40
"""Characters that `ctx_find` shows around a hit, on either side."""

CELL_CHARS = 300
"""Characters of one value that a slice shows; the whole stays behind the handle."""

CELL_IRI_CHARS = 2_000
"""Characters of an IRI that a slice shows: a part of one is of no use (longer ones aren't described)."""

SLICE_ROWS = 100
"""Rows of one slice."""

# -------------------- context

CONTEXT_BASE_CHARS = 800
CONTEXT_L0_CHARS = 600
CONTEXT_L1_CHARS = 1_000
CONTEXT_L2_CHARS = 600
CONTEXT_L2_ITEMS = 2
CONTEXT_L2_ITEM_CHARS = 300
CONTEXT_L3_CHARS = 1_000
CONTEXT_LEAN_L1_CHARS = 400
CONTEXT_LEAN_L3_CHARS = 200
"""Budgets of the layers of a context in characters, titles and markup included (source: the layered memory plan)."""

CONTEXT_FILE_BYTES = 4 * MIB
"""A guide or a file of constraints that is given to a context."""

# -------------------- models

LM_RETRIES = 2
LM_WAIT_S = 30.0
"""How often a call of a model that was turned away is tried again, and the longest wait that a provider may ask for."""

LM_TIME_S = 300.0
LM_TIME_MOST_S = 86_400
LM_CONNECT_S = 10.0
"""How long a model may take for one answer, and at most where somebody says otherwise: some think for minutes. And how
long to accept the connection."""

LM_REQUEST_BYTES = 4 * MIB
"""One request to a model as JSON: with its escapes it fits into a text line, beside the answer into a group."""

LM_RESPONSE_BYTES = 16 * MIB
LM_RESPONSE_CHARS = 1_000_000
"""Bytes of one answer that are read, with all that a provider puts around it, and characters of it that are kept."""

LM_MENDED_CHARS = 2_000
"""A field of an answer that is malformed JSON, and is mended: up to 1 s. Mending 32,000 characters took 66 s."""

LM_SCRIPT_BYTES = 4 * MIB
"""One file of scripted turns."""

# -------------------- sandbox

STEP_TIME_S = 60.0
"""How long the code of one step may run, without the time of the tools that it calls."""

SANDBOX_START_S = 60.0
"""How long a sandbox may take to start: 1.6 s on an idle machine, its parts being in the cache."""

SANDBOX_WARM_S = 300.0
"""How long fetching those parts (13 MB) may take."""

SANDBOX_MEMORY_BYTES = 512 * MIB
SANDBOX_HEAP_BYTES = 256 * MIB
"""Memory of a sandbox beyond its memory when it is ready, and of that the heap of JavaScript."""

SANDBOX_OUTPUT_CHARS = 20_000
"""Characters of one step's output that are kept, head and tail; a model is shown less."""

SANDBOX_PRINTED_CHARS = 10_000_000
"""Characters that one step may print before printing is refused: a loop prints a gigabyte in seconds."""

SANDBOX_SUBMIT_CHARS = 1_000_000
"""Characters of a submission as JSON: room for a long answer, not for a result set."""

SANDBOX_ARGUMENT_CHARS = 1_000_000
"""Arguments of one call out of the sandbox, as JSON: room for a batch of prompts."""

SANDBOX_MESSAGE_BYTES = 16 * MIB
"""One line between a sandbox and this side, either way: a whole payload fits."""

SANDBOX_NOISE_LINES = 1_000
"""Lines out of a sandbox in one step that belong to no conversation; a session that sends more is ended."""

SANDBOX_COMPLAINT_BYTES = 2_000
"""The end of a sandbox's standard error, kept for the message when it dies."""

SANDBOX_RESTARTS = 3
"""New sessions that a run gets after its first was lost."""

SANDBOX_POOL = 16
"""Sessions that a pool keeps ready: one for each rollout. Each takes about 160 MB."""

# -------------------- executors

RUN_ITERATIONS = 12
RUN_SUBCALLS = 25
"""Steps of an agent, and calls of models by its code, before it is forced to submit."""

RUN_ITERATIONS_MOST = 1_000
RUN_SUBCALLS_MOST = 10_000
"""The most that anybody may ask for: a run of so many steps is a mistake."""

STEP_OUTPUT_CHARS = 10_000
"""Characters of each earlier step's output that an agent is shown again, head and tail (source: dspy.RLM)."""

HISTORY_ENTRIES = 4
HISTORY_LINE_CHARS = 200
"""Latest steps that the scratchpad shows whole, and characters of the one line for each step before."""

REPLY_SHOWN_CHARS = 1_000
"""What an agent is shown of a reply of its own that could not be read."""

# -------------------- judging

DIFFERENCE_EXAMPLES = 3
"""Rows or columns that are shown of one way in which two answers differ."""

JUDGE_REASON_CHARS = 2_000
"""Characters of a judgment's reason."""

JUDGE_ANSWER_CHARS = 8_000
JUDGE_QUERY_CHARS = 8_000
"""Characters of an answer, and of its query, that a judging model is shown."""

JUDGE_PRINCIPLES = 5
JUDGE_CASES = 3
JUDGE_MEMORY_CHARS = 3_000
"""Principles and past cases that a judging model is given, and the characters of each kind at most."""

JUDGE_TRIES = 3
"""Replies of a judging model that are parsed before it is given up; each time it is told the fault of the last."""

JUDGE_TERMS = 200
"""Terms of a query or an answer that are looked up in the data, in one query."""

JUDGE_CASES_BYTES = 16 * MIB
"""A file of labelled cases."""

# -------------------- extraction

EXTRACTION_ITEMS = 3
EXTRACTION_PROPOSALS = 10
"""Items that are learned from a run at most: of those that a model draws from it (source: the ReasoningBank paper,
arXiv:2509.25140), and of those that its agent proposed."""

EXTRACTION_TRIES = 3
"""Answers of an extracting model that are parsed before it is given up; each time it is told the fault of the last."""

EXTRACTION_TRAJECTORY_CHARS = 12_000
EXTRACTION_ROLLOUTS_CHARS = 24_000
EXTRACTION_TEXT_CHARS = 4_000
"""What an extracting model is shown: of the steps of a run, of all rollouts of a task together, and of a task, an
answer, a query or a reason."""

# -------------------- loop and rerun

ROLLOUTS = 16
"""Runs of one task side by side: each has a sandbox of its own."""

TASKS = 10_000
TASKS_BYTES = 16 * MIB
TASK_CHARS = 10_000
TASK_ID_CHARS = 100
"""A file of tasks, the question of one, and its id, which becomes part of the ids of its runs."""

# -------------------- dashboard

FLAG_RETURN_CHARS = 1_000
FLAG_ITEMS_INJECTED = 3
FLAG_CONTEXT_CHARS = 4_000
"""Red flags of leakage: one tool's return, memory items put into a prompt, the context of a run. More is flagged."""

DASHBOARD_POINTS = 1_000
"""Points of one line of a chart. More can't be told apart on a screen, and would slow the page."""

DASHBOARD_ROWS = 200
"""Rows of one table of the dashboard; more is for SQL and `--json`."""

DASHBOARD_BARS = 20
"""Bars of one chart of the dashboard, each with a name to read."""

DASHBOARD_TEXT_CHARS = 120
"""Characters of a task, a title or a name that the dashboard shows."""

# -------------------- cli

LOG_TAIL = 1_000_000
"""The largest `--tail`."""
