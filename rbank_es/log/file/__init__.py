"""The `file:` engine: a directory of JSON Lines segments."""
