"""From what the monitor knows to what schedulers do: less trust, flat quantiles, and back. Pure.

``standings`` reads the monitor, :class:`~drift.acting.trust.Trust` says how much say forecasts of
each slice have, ``refit`` and :class:`~drift.acting.recalibration.Recalibration` mend quantiles,
:class:`~drift.acting.acting.Acting` is all of it: look now and then, stamp every forecast.
"""
