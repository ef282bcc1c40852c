"""The limits of what a host of the Model Context Protocol may ask."""

from rbank_es.limits import KIB, MIB

# Characters of a question, and of an answer with its evidence: what a person would still read.
MCP_QUESTION_CHARS = 20_000
MCP_ANSWER_CHARS = 200_000
# Characters of an id, of a point in time, of a domain.
MCP_NAME_CHARS = 256
# Items of one `get`: ten whole ones fit into a result.
MCP_ITEMS = 10
# Characters of each text in a list of `why`, and rows of such a list.
MCP_TEXT_CHARS = 600
MCP_ROWS = 20
# Bytes of a result: more would crowd the host's context, which has no bound of its own.
MCP_RESULT_BYTES = 64 * KIB
# Bytes of the arguments of one call: a long answer at six bytes a character, escaped.
MCP_ARGUMENTS_BYTES = 2 * MIB
# Seconds of each statement, and of an answer: a host waits for it.
MCP_STATEMENT_S = 5.0
MCP_ANSWER_S = 20
# Random bytes of the token that lets a host in over HTTP: 192 bits.
MCP_TOKEN_BYTES = 24
# Seconds for which a server that stops waits for calls under way.
MCP_STOP_S = 3
