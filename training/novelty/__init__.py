"""Novelty of training traffic against the reference prompts that are shipped."""
