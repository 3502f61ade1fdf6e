"""Level 7: verbs only. Each parses, calls one function and prints. Nothing here imports torch before it must."""
