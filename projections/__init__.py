"""Read models: each a pure function from events to rows, rebuildable from the log at any time."""
