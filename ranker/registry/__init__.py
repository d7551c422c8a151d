"""Runs and registered rankers in MLflow. The only package that imports mlflow.

:class:`Registry` finds, registers, loads and aliases versions; :class:`RunLog` records a run while
it happens. Both go through a client with its own address: no global tracking URI, no active run.
"""

from ranker.registry.connection import RegistryError, is_server, shown
from ranker.registry.run_log import RunLog
from ranker.registry.store import Registry

__all__ = ["Registry", "RegistryError", "RunLog", "is_server", "shown"]
