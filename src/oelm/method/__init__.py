"""Level 2: the idea. Projections, freezing, geometry (what we claim, measured) and cost (weights, FLOPs)."""
