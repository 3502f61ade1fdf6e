"""Level 6: how fast. Contestants in turns in one process, ratios with intervals, shares of the machine, memory."""
