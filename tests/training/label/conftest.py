from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.training.label.endpoint import Endpoint, serving


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as running:
        yield running
