"""Webhooks: changes of state told to other systems, at once and without ever holding outcomes up.

``config`` says where to, ``formats`` what each receiver understands, ``notifier.Notifier`` sends.
"""
