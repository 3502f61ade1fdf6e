"""Level 5: a trained model and a question."""
