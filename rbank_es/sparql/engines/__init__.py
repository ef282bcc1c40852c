"""The query engines: pyoxigraph in a worker process, endpoints over HTTP, rdflib for comparison."""
