"""The probe tier: what the served model itself knows of its answer once it has read the prompt."""
