"""The encoder tier: a transformer that reads prompts. Training needs torch, serving does not."""
