"""Level 6: from a config to a finished run, and from a matrix of methods and seeds to many."""
