"""The whole loop on real prompts and a real model: train, serve, compare, drift, report."""
