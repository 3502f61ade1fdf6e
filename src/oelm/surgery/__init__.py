"""Level 3: Hugging Face models. Where Q and K live (a table), how they are split, rewritten, frozen, saved and exported.

The only room that imports transformers. `oelm.base`, `oelm.config` and `oelm.method` are all it needs of oelm.
"""
