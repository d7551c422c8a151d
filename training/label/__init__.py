"""Realised output lengths of prompts: asked of a model, journalled, written as a table."""
