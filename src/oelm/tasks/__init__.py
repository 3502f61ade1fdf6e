"""Level 4: what is predicted and how it is scored."""
