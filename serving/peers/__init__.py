"""This engine and another on one machine, driven alike through the OpenAI API and compared."""
