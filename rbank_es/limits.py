"""Every limit of the project, with its unit and its reason, in one place.

A limit is a promise to whoever shares the machine: no input, however large or hostile, makes the bank
hold, write or print more than is named here. Sizes are in bytes unless the name says characters.
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
"""What a `Ref` shows of its text (source: the handle pattern's 80 characters)."""

LOCK_WAIT_S = 60.0
"""Seconds for which a writer waits for another before it raises `LogBusy`."""

READ_BLOCK_BYTES = 256 * KIB
"""Bytes of a segment that are read at a time: the block and its events fit into a processor's second cache."""

POLL_S = 0.25
"""Seconds after which a follower checks the log by itself, where no file notification arrives."""

NEEDLE_CHARS = 8
"""Characters from which erased texts are searched for elsewhere: shorter ones, such as "yes", are in many events."""

SEARCHED_IDS = 32
"""Ids that a writer searches for in the active segment's bytes before it makes a dictionary of all of them."""

ERASED_UNITS = 2_000
"""Texts that one event lists as erased: at 130 bytes each, the event's line stays below its limit."""

ERASURE_JSON_DEPTH = 4
"""Levels of JSON in strings of JSON that erasure searches: a tool's JSON in a message in a request has two."""

BANK_NAME_CHARS = 100
"""Characters of a bare bank name: with what is added to it, it fits into a file name of 255 bytes."""

# -------------------- events

NAME_CHARS = 256
"""Identifiers, model names, tool names, error codes: facts that are never erased."""

NAMES = 10_000
"""Elements of one list of names or ids in an event."""

# -------------------- errors

ERROR_CHARS = 2_000
"""What an event keeps of an error's message."""

# -------------------- projections and policies

PROJECTION_BATCH_EVENTS = 20_000
"""Events whose row changes are applied in one transaction while catching up."""

PROJECTION_BATCH_CHARS = 32 * MIB
"""Characters of text after which such a transaction is closed early: a few events may hold a lot of text."""

PROJECTION_CACHE_KIB = 128 * KIB
"""Memory for pages of a read model while it is being built, in KiB."""

PROJECTION_BUSY_S = 60.0
"""How long a statement waits while another process commits to the same read models."""

QUERY_WORDS = 64
"""Distinct words of a search that are used; the rest of the query is ignored."""

QUERY_CHARS = 10_000
"""Characters of a search that are looked at."""

SEARCH_HITS = 100
"""The largest `k` of a search."""

QUOTE_CHARS = 500
"""Default size of `quote`."""

# -------------------- items

ITEM_TITLE_CHARS = 120
ITEM_DESC_CHARS = 240
ITEM_CONTENT_CHARS = 2_000
ITEM_TAGS = 12
ITEM_TAG_CHARS = 60
"""Sizes of an item as an extractor may make it; imports are kept whole."""

# -------------------- importers

IMPORT_FILE_BYTES = 256 * MIB
"""One file given to `import`."""

IMPORT_CANDIDATES = 100
"""Imported items of one extraction: with their words inline, they stay well below the limit of a line."""

IMPORT_BATCH_BYTES = 16 * MIB
"""What an import appends at once: half of a group, which leaves room for its decisions."""

IMPORT_LOOKUPS = 8
"""Ids of an import that are looked up one by one; for more, the log is read once."""

IMPORT_TRIES = 20
"""How often an import plans anew when other writers were faster."""

# -------------------- bank

CONSOLIDATION_TRIES = 50
CONSOLIDATION_WAIT_S = 2.0
"""How often candidates are decided about anew because other writers were faster, and the longest wait before that.
With 20 tries and no wait, eight processes that did nothing else lost 3 of 160 extractions."""

# -------------------- ontology

ONTOLOGY_FILES = 1_000
"""Files of one ontology."""

ONTOLOGY_BYTES = 256 * MIB
"""Bytes of all files of one ontology: what is larger belongs behind an endpoint."""

ONTOLOGY_LITERAL_CHARS = 1 * MIB
"""Characters of one literal in an ontology that are looked at when it is described."""

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
"""What is kept of a label, and of a definition or a note, when an ontology is described."""

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
"""What a tool returns at most, as JSON. More than that in one return is a red flag of leakage."""

SLICE_RETURN_CHARS = 4_000
"""What `sparql_slice` and `ctx_slice` return at most: rows and excerpts that the agent asked for."""

ITEMS_RETURN_CHARS = 4_500
"""What `mem_get` returns at most: three items in full, as an extractor may make them, and little more."""

TOOL_ARGUMENT_CHARS = 20_000
"""Characters of one call's arguments, as JSON, that are taken; a query or a note that is longer is refused."""

PAYLOAD_BYTES = TEXT_LINE_BYTES - 64 * KIB
"""Bytes of one payload as JSON: with what stands around it, it fits into a text line."""

PAYLOADS_KEPT_CHARS = 32 * MIB
"""Payloads of a run that are kept in memory beside the bank; those recorded later are read from there."""

STORE_CHARS = 256 * MIB
"""All payloads of a store that has no bank."""

TOOL_TRIES = 20
"""How often a tool that reads the bank reads again because other writers were faster."""

READ_ITEMS = 3
"""Items that `mem_get` gives in full at once."""

FOUND_ITEMS = 20
"""The largest `k` of `mem_search`: what still fits into its return with titles."""

PEEK_CHARS = 200
"""Default size of `ctx_peek` (source: the handle pattern)."""

FIND_HITS = 100
"""The largest `k` of `ctx_find`."""

FIND_TIME_S = 1.0
"""How long `ctx_find` may look: a pattern can backtrack for ever."""

FIND_SNIPPET_CHARS = 40
"""What `ctx_find` shows around a hit, on either side."""

CELL_CHARS = 300
"""What a slice shows of one value; the whole stays behind the handle."""

CELL_IRI_CHARS = 2_000
"""What a slice shows of an IRI: a part of one is of no use, and half a page holds it (longer ones aren't described)."""

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
"""What is read of one answer, with all that a provider puts around it, and what is kept of it: its words."""

LM_MENDED_CHARS = 2_000
"""A field of an answer that is malformed JSON, and is mended: up to 1 s. Mending 32,000 characters took 66 s."""

LM_SCRIPT_BYTES = 4 * MIB
"""One file of scripted turns."""

# -------------------- sandbox

STEP_TIME_S = 60.0
"""How long the code of one step may run; what the tools it calls take is not counted."""

SANDBOX_START_S = 60.0
"""How long a sandbox may take to start: 1.6 s on an idle machine, its parts being in the cache."""

SANDBOX_WARM_S = 300.0
"""How long fetching those parts (13 MB) may take."""

SANDBOX_MEMORY_BYTES = 512 * MIB
SANDBOX_HEAP_BYTES = 256 * MIB
"""What a sandbox may take beside what it has mapped when it is ready, and of that the heap of JavaScript."""

SANDBOX_OUTPUT_CHARS = 20_000
"""What is kept of one step's output, head and tail; a model is shown less."""

SANDBOX_PRINTED_CHARS = 10_000_000
"""What one step may print before printing is refused."""

SANDBOX_SUBMIT_CHARS = 1_000_000
"""What may be submitted, as JSON."""

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
"""Steps that an agent may take, and models that its code may ask on the way; what comes then is forced."""

RUN_ITERATIONS_MOST = 1_000
RUN_SUBCALLS_MOST = 10_000
"""The most that anybody may ask for: a run of so many steps is a mistake."""

STEP_OUTPUT_CHARS = 10_000
"""What an agent is shown again of each earlier step's output, head and tail (source: dspy.RLM)."""

HISTORY_ENTRIES = 4
HISTORY_LINE_CHARS = 200
"""Latest steps that the scratchpad shows whole, and what it shows of each step before: one line."""

REPLY_SHOWN_CHARS = 1_000
"""What an agent is shown of a reply of its own that could not be read."""

# -------------------- judging

DIFFERENCE_EXAMPLES = 3
"""Rows or columns that are shown of one way in which two answers differ."""

JUDGE_REASON_CHARS = 2_000
"""What a judgment says of its reasons."""

JUDGE_ANSWER_CHARS = 8_000
JUDGE_QUERY_CHARS = 8_000
"""What a judging model is shown of an answer, and of the query that it rests on."""

JUDGE_PRINCIPLES = 5
JUDGE_CASES = 3
JUDGE_MEMORY_CHARS = 3_000
"""Principles and past cases that a judging model is given, and the characters of each kind at most."""

JUDGE_TRIES = 3
"""Replies of a judging model that are read, each told why the one before couldn't be, before it is given up."""

JUDGE_TERMS = 200
"""Terms of a query or an answer that are looked up in the data, in one query."""

JUDGE_CASES_BYTES = 16 * MIB
"""A file of labelled cases."""

# -------------------- extraction

EXTRACTION_ITEMS = 3
EXTRACTION_PROPOSALS = 10
"""Items that are learnt from a run at most: of those that a model draws from it (source: the ReasoningBank paper,
arXiv:2509.25140), and of those that its agent proposed."""

EXTRACTION_TRIES = 3
"""Answers of an extracting model that are read, each told why the one before couldn't be, before it is given up."""

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
"""What the dashboard shows of a task, a title, a name."""

# -------------------- cli

LOG_TAIL = 1_000_000
"""The largest `--tail`."""
