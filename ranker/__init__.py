"""Prompt -> forecast of the output length. Loads neither torch nor mlflow nor LightGBM."""
