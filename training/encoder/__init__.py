"""Fine-tunes a transformer encoder to order prompts by the length of their answers."""
