"""Level 2: text -> tokenizer -> token files and manifest -> batches, a pure function of seed and index."""
