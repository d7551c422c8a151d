"""``shortfirst drift loop``: shift, alert, retraining, promotion, recovery, rollback: for real."""
