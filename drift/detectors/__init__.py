"""Detectors of drift, one file each, behind one small protocol.

Which one sees what: rank detectors ask whether forecasts still order lengths, scale detectors
whether their numbers still fit, covariate detectors whether other prompts come. Only the first
say that a ranker has decayed.
"""
