"""Level 1: the vocabulary. Enums and frozen pydantic models; nothing here imports torch."""
