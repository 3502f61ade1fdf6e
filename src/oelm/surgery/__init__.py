"""Level 3: Hugging Face models. Where Q and K live (a table); splitting, rewriting, freezing, saving, exporting.

The only room that imports transformers. `oelm.base`, `oelm.config` and `oelm.method` are all it needs of oelm.
"""
