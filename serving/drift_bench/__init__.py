"""How well do the detectors do on real traffic? ``shortfirst drift benchmark`` and ``simulate``."""
