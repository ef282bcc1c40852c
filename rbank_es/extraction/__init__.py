"""What is learnt of a run."""
