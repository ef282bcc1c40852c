"""The runtime of tools: sessions, calls, encoding, handles, and the toolbox of one run."""
