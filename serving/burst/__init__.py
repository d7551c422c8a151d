"""Send one burst of real prompts to running engines and say what each policy made of it."""
