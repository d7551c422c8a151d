"""What acting on drift is worth: ``shortfirst drift act-replay``, a closed loop on a virtual clock.

Real prompts with real lengths and the forecasts of a real ranker arrive at the scheduler that
serves; what ends goes to the monitor that serves, and what that decides is stamped on the forecasts
of whoever arrives next.
"""
