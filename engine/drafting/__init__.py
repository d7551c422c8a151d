"""Where guesses about the next tokens come from, for the model to verify."""
