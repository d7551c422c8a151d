"""Published ways to order requests by length, re-run on the same rows and the same encoder."""
