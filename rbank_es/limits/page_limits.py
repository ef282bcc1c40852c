"""The limits of the page and its server."""

from rbank_es.limits import KIB, MIB

# Runs of an exported page with all their events: about 4 kB each, so 1.2 MB; runs of one block, unpacked at once.
PAGE_WHOLE_RUNS = 300
PAGE_BLOCK_RUNS = 50
# Items of an exported page with what they came from and led to: the newest, and beside them the most used.
PAGE_NEWEST_ITEMS = 300
PAGE_USED_ITEMS = 200
# Rows of each list of an exported page, and of the same list as of an earlier stop.
PAGE_LISTED_ROWS = 2_000
PAGE_EARLIER_ROWS = 400
# Positions of an exported page beside the first and the newest: a slider has no room for many more.
PAGE_STOPS = 18
# Runs in the table that stands there without a script.
PAGE_SUMMARY_RUNS = 50
# A text of an event from this length on is kept as numbers of lines, which prompts share.
PAGE_LINED_CHARS = 120
# Rows of one table of a report; more is for SQL and `--json`.
DASHBOARD_ROWS = 200
# Characters that a page shows of a task or a title, of an id or a name, and of a bank's purpose.
DASHBOARD_TEXT_CHARS = 120
DASHBOARD_NAME_CHARS = 60
DASHBOARD_PURPOSE_CHARS = 500
# Rows of one page of a list at most, and characters of each text in a row.
LIST_ROWS_MOST = 200
LIST_TEXT_CHARS = 300
# Characters of each text of a run, or of an event, on its page: longer ones of events open in blocks.
TEXT_CHARS = 4_000
# Bytes of the JSON of a run's events in one answer: a browser draws so much without a pause.
EVENTS_BYTES = 1 * MIB
# Characters of a request's parameter: ids have fewer, and a query that has more is no search of a person.
PARAMETER_CHARS = 1_000
# Digits of a position that is asked for: far beyond any bank.
POSITION_DIGITS = 15
# Seconds of one SQL statement for a page. Lists of 100,000 events take a tenth; others wait for the connection.
STATEMENT_S = 2.0
# Seconds of an answer that is computed, such as a what-if: of 10,000 events it takes 5, and a thread is busy meanwhile.
ANSWER_S = 20
# Bytes of a request's first line and of its head: addresses of the page have 2,000 at most, browsers send 2 kB.
REQUEST_LINE_BYTES = 8 * KIB
REQUEST_HEAD_BYTES = 16 * KIB
# Lines of headers of a request: browsers send 20.
REQUEST_HEADERS = 100
# Parameters of a request: a question's own, and more conditions than a list takes, so that the question says so.
REQUEST_PARAMETERS = 100
# Seconds in which a request must arrive, and its response be taken: the other end is on this machine.
REQUEST_S = 5.0
RESPONSE_S = 10.0
# Requests that are worked on at once, and pages that follow a bank at once.
SERVER_THREADS = 32
LIVE_VIEWERS = 8
# Seconds for which a server that stops waits for requests under way.
STOP_S = 3.0
# Seconds between signs of life to a page that follows, so that it notices when the server is gone.
HEARTBEAT_S = 15.0
# Random bytes of the address that lets a browser in: 192 bits.
TOKEN_BYTES = 24
# Significant digits of scores and durations of events on a page: nobody reads more, and a file would grow by a tenth.
FRACTION_DIGITS = 3
