"""The limits of an agent's tools.

An answer that would be longer says so (`truncated`, `has_more`, a total), and the whole stays behind its handle.
"""

from rbank_es.limits import KIB, MIB, TEXT_LINE_BYTES

# A tool's return as JSON. More in one return is a red flag of leakage.
TOOL_RETURN_CHARS = 1_000
# The return of `sparql_slice` and `ctx_slice`: rows and excerpts; and of `mem_get`: three items of an extractor.
SLICE_RETURN_CHARS = 4_000
ITEMS_RETURN_CHARS = 4_500
# Characters of one call's arguments as JSON; a longer query or note is refused.
TOOL_ARGUMENT_CHARS = 20_000
# Characters of an unknown name that is taken as a parameter: an answer keeps room for the note that says so.
TAKEN_NAME_CHARS = 40
# Characters of arguments that are written as JSON, to be measured: up to here, a refusal tells how many there are.
READ_ARGUMENT_CHARS = 10 * TOOL_ARGUMENT_CHARS
# Bytes of one payload as JSON: with its envelope, it fits into a text line.
PAYLOAD_BYTES = TEXT_LINE_BYTES - 64 * KIB
# Characters of payloads that a run keeps in memory (the bank has the others), and that a store without a bank takes.
PAYLOADS_KEPT_CHARS = 32 * MIB
STORE_CHARS = 256 * MIB
# Levels of nesting of a tool's result; deeper values are replaced by `…`.
TOOL_RESULT_DEPTH = 16
# The return of the naive mode: all that one payload can hold, with its escapes, and as much beside it.
NAIVE_RETURN_CHARS = 2 * PAYLOAD_BYTES
# -------------------- items
# The largest `k` of `mem_search`: so many titles still fit into its return.
FOUND_ITEMS = 20
# Events that are checked for changes to items; after more of them, projections are brought up to date instead.
LOOK_BACK_EVENTS = 64
# Characters of JSON that an id may take where it is named beside other things; imports can have longer ones.
SHOWN_ID_CHARS = 80
# Characters of the title and the description of an item beside the thing that it is about: several have to fit.
RELATED_TITLE_CHARS = 80
RELATED_DESC_CHARS = 120
# -------------------- items from queries
# Words and characters of a label or a local name by which a query's pattern names a thing.
PATTERN_NAME_WORDS = 5
PATTERN_NAME_CHARS = 40
# Characters of a guardrail for its reason and for its checks, and of any item for prefixes: the pattern has the rest.
PATTERN_REASON_CHARS = 300
PATTERN_CHECKS_CHARS = 700
PATTERN_PREFIXES_CHARS = 500
# Terms whose meaning an item gives, and characters of each meaning.
PATTERN_MEANINGS = 5
PATTERN_MEANING_CHARS = 160
# Classes and properties that the description of an item names: its budget holds so many names of usual length.
PATTERN_CLASSES_NAMED = 3
PATTERN_PROPERTIES_NAMED = 4
# -------------------- payloads
# Default size of `ctx_peek` (source: the handle pattern).
PEEK_CHARS = 200
# The largest `k` of `ctx_find`, and its time limit: a pattern can backtrack for ever.
FIND_HITS = 100
FIND_TIME_S = 1.0
# The default `k` of `ctx_find`: so many hits fit into a return; and characters that are shown on either side of one.
FIND_HITS_DEFAULT = 20
SNIPPET_CHARS = 40
# -------------------- results
# Characters of one value that a slice shows, while the whole stays behind the handle; and rows of one slice.
CELL_CHARS = 300
SLICE_ROWS = 100
# Default size of a page: rows of a slice, classes, properties (source: the tool design).
PAGE_ROWS = 50
# Characters of one kind of a column, because names of datatypes can be long.
KIND_CHARS = 40
# Characters that a result's variable names may take; `sparql_slice` names all that it shows.
VARIABLES_CHARS = 160
# Characters of a warning about a query, and of its alternative.
FINDING_CHARS = 160
# -------------------- things
# Examples that `sparql_peek` gives, and instances that `g_sample` gives; and the default of both.
PEEK_ROWS = 20
SAMPLE_ROWS = 20
EXAMPLES_DEFAULT = 5
# Examples of a property that `g_describe` gives beside all that is declared of it.
DESCRIBED_EXAMPLES = 3
# The largest `k` of `g_search`, and the default.
FOUND_TERMS = 50
FOUND_TERMS_DEFAULT = 10
# Rows that `g_search` reads for each hit that it returns, to find the best ones: a query can't rank.
READ_FOR_A_HIT = 10
# Words of a search that are looked for, and characters of the texts of things that are read: longer ones name nothing.
SEARCHED_WORDS = 8
SEARCHED_TEXT_CHARS = 200
# How long one query that a tool makes by itself may take, because an agent waits for several; and one for a hint.
LOOK_TIME_S = 10.0
HINT_QUERY_S = 2.0
# Triples of one thing that are counted on an endpoint: popular things have millions of them there.
PEEK_TRIPLES = 1_000
# Instances by which the properties of a class are counted that no schema lists: an endpoint may have millions.
SAMPLED_INSTANCES = 100
# Classes of an overview; properties of a class in a list and in its detail, and of an instance.
OVERVIEW_CLASSES = 10
LISTED_PROPERTIES = 5
DETAIL_PROPERTIES = 8
# Domains, ranges and parents of one row.
LISTED_BOUNDS = 3
# Characters of a label, a comment and a note of an ontology: an answer has to hold several.
SHOWN_LABEL_CHARS = 80
SHOWN_COMMENT_CHARS = 200
SHOWN_NOTE_CHARS = 240
# Characters of a value, and of a value in a hint, which names several.
SHOWN_VALUE_CHARS = 80
HINT_VALUE_CHARS = 40
# Characters of a hint or a note of an answer, and of the name of a thing, which its caller knows.
SHOWN_TEXT_CHARS = 400
SHOWN_NAME_CHARS = 300
# Prefixes that the refusal of an unknown one names: a return has room for them.
PREFIXES_NAMED = 20
