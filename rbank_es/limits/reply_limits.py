"""Limits of a model's reply, by the role that it answers in, and of what its server says of itself."""

# Characters of a reply without headers that are parsed to see whether they are a program: some ten times a step's code.
REPLY_PROGRAM_CHARS = 20_000
# Steps in a row that fail in the same way or make the same call, and steps without an answer of any tool, after which
# an agent is told; if the next is such a step too, the run ends. Small models were seen to repeat a call to the limit.
STALL_REPEATS = 3
STALL_BARREN = 6
# Tokens of a reply, where nothing else is asked for: models that miss their end go on until a bound ends them. A step
# or a list of items is at most a page of code or prose, a judgment a word and two sentences.
AGENT_REPLY_TOKENS = 2_048
SUB_REPLY_TOKENS = 2_048
EXTRACTOR_REPLY_TOKENS = 2_048
JUDGE_REPLY_TOKENS = 512
# Calls of tools that one reply may have: more were only seen of models that repeat one until their bound.
REPLY_CALLS = 16
# Replies without a call behind which every further step has to be one: of models that explain themselves after a call,
# each further explanation would cost a step.
WITHOUT_CALLS = 2
# Letters of a tool's name in the chat protocol; a request with a longer one is refused.
TOOL_NAME_CHARS = 64
# Seconds for what a server says of itself: it reads no prompt for that, and a loop waits for it before its first run.
SERVER_LOOK_S = 3.0
# Seconds that a look waits for a server that says that it loads its model: a large file takes a minute from a disk.
SERVER_LOADS_S = 60.0
# What is kept of one model and its server: some twenty short fields.
SERVER_TRAITS_BYTES = 16 * 1024
# What is kept free for a reply is what it may have, or one part in so many of the context where that is less: a short
# context would else have no room for a prompt.
REPLY_SHARE = 8
# Words of an answer below which it isn't taken for one of our own texts: a name of three words may stand in any.
TOLD_WORDS_LEAST = 4
# No reply of fewer tokens says anything.
REPLY_TOKENS_LEAST = 64
# Tokens of a prompt are estimated as so many times what was counted for the one before, because parts of prompts differ
# in characters a token; a count below one part in so many of the first estimate is that of a prompt that was cut.
ESTIMATE_MARGIN = 1.1
ESTIMATE_LEAST_SHARE = 2
# Characters of a text that a prompt holds, such as a run's steps, below which it isn't shortened for a small context.
GIVEN_TEXT_LEAST_CHARS = 400
# The longest context that is believed, in tokens: no model reads as many.
CONTEXT_TOKENS_MOST = 100_000_000
# Tokens of a reply that tries a server, of one that tries a form, and of a judgment: enough to measure a speed, for a
# step with two sentences of thought or for one item, and for three sentences of thought before a word with two: 96 cut
# those of models that think first. One part in so many of the bound is what a try is expected to take.
TRIED_REPLY_TOKENS = 32
TRIED_FORM_TOKENS = 192
TRIED_JUDGE_TOKENS = 128
TRIED_EXPECTED_SHARE = 2
# Characters of the reason why a form wasn't kept, as the doctor shows it: two lines of a terminal.
TRIED_REASON_CHARS = 160
# Seconds of all calls of a model's doctor together, unless another number is given: as long as a person likes to wait.
DOCTOR_TIME_S = 120
# A reply ends early where it repeats a passage of at most so many characters so many times, to the letter, and over so
# many characters: no table, program or list of triples does, and a ruler is shorter. Looked for after so many more.
REPEATED_PERIOD_CHARS = 500
REPEATED_TIMES = 6
REPEATED_CHARS = 1_000
REPEATED_CHECK_CHARS = 200
# How many times the timeout of an answer the reading of its prompt may take, where the server streams: at 10 tokens a
# second, which slow machines reach, 900 s are a prompt of 9,000 tokens.
READING_TIMES = 3
