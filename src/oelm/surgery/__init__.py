"""Level 3: Hugging Face models. Where Q and K live (a table); splitting, rewriting, freezing, saving.

This room and `oelm.exports` import transformers, no other does. `oelm.base`, `oelm.config` and `oelm.method` are all it
needs of oelm.
"""
