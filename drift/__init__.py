"""Outcomes in, states, alerts and reports out.

``drift.sink.MonitoredStore`` is what a service reports outcomes to; ``drift.monitor.Monitor`` is
the pure part of it; ``drift.report.write`` makes the page.
"""
