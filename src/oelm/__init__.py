"""oelm: transformers with frozen, head-wise orthogonal Query/Key projections."""

__version__ = "0.1.0"
