"""Recording traces and verification rounds from Hugging Face models.

Needs the extra ``record`` (torch, transformers ≥ 5). `settings`, `prompts`, `lookup` and `unique` do without it.
"""
