"""Which version of each registered name is tried beside the one that serves."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ranker.types import Ranker
from serving.logs import failure
from serving.rankers import Source
from training.gate.registered import CHALLENGER

log = logging.getLogger(__name__)


class Challengers:
    """Follows the alias of ``names`` in ``source``. :meth:`look` may take its time and comes from
    one thread; :meth:`of` may come from any."""

    def __init__(self, source: Source | None, names: Sequence[str]) -> None:
        self._source = source
        self._names = tuple(dict.fromkeys(names))
        self._loaded: dict[str, Ranker] = {}
        self._refused: dict[str, str] = {}
        self._given_up: dict[str, str] = {}

    def of(self, name: str) -> Ranker | None:
        ranker = self._loaded.get(name)
        given_up = ranker is not None and self._given_up.get(name) == str(ranker.version)
        return None if given_up else ranker

    def give_up(self, name: str, version: str) -> bool:
        """Try ``version`` no more, though the alias stays on it; whether it was tried. From any
        thread."""
        tried = self._loaded.get(name)
        self._given_up[name] = version
        return tried is not None and str(tried.version) == version

    def look(self) -> None:
        """Read the aliases and load what moved. A registry that is away changes nothing; a version
        that does not load is said once and tried no more."""
        if self._source is None:
            return
        for name in self._names:
            try:
                version = self._source.resolve(name, CHALLENGER)
            except Exception as error:
                log.warning("%s@%s was not looked up: %s", name, CHALLENGER, failure(error))
                continue
            known = self._loaded.get(name)
            if version is None or self._given_up.get(name) == str(version):
                self._loaded.pop(name, None)
            elif str(version) != (known and str(known.version)):
                self._load(self._source, name, str(version))

    def _load(self, source: Source, name: str, version: str) -> None:
        if self._refused.get(name) == version:
            return
        self._loaded.pop(name, None)
        try:
            self._loaded[name] = source.load(f"models:/{name}/{version}")
        except Exception as error:
            self._refused[name] = version
            log.warning("%s version %s does not load: %s", name, version, failure(error))
        else:
            self._refused.pop(name, None)
            log.info("%s@%s is version %s", name, CHALLENGER, version)
