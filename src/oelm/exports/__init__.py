"""Level 4: our GPT as transformers models. Folds what is linear, and brings its own attention for what is not."""
