"""A whole step of the model in one call of C, compiled for the machine it runs on."""
