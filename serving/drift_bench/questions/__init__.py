"""The questions, one file each: what is measured, and what must be reached."""
