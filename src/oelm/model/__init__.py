"""Level 3: the GPT we own. Attention, blocks, one init pass, and the ledger of its weights and products."""
