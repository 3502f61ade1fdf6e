"""Level 5: the loop, the engine (precision, data parallel, accumulation, freezing), checkpoints and meters."""
