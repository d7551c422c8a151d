"""The drift dashboard: one page, live, from the drift monitor of the rank service.

It needs nothing from elsewhere and holds no prompt text: ``drift.board`` and the history of events
are all it shows.
"""
