from __future__ import annotations

import numpy as np
import pytest

from training.recipes import shipped
from training.recipes.shipped import Shipped
from training.recipes.store import Fitted, Store


def _result(recipe: str, *values: float, at: str = "x") -> Fitted:
    return Fitted(recipe, 1.5, 2.5, {at: np.array(values)})


def test_results_of_a_cache_are_found_where_the_home_has_none(tmp_path) -> None:
    cache, out = Store(tmp_path / "cache"), tmp_path / "recipes.parquet"
    cache.put("a", _result("ltr", 0.25, -1.0))
    cache.put("b", _result("pars", 3.0))
    cache.put("c", _result("ours-blend", 3.0))
    shipped.main(cache.folder, out)
    store = Store(tmp_path / "home", Shipped(out))
    found = store.get("a")
    assert found is not None
    assert (found.recipe, found.minutes, found.milliseconds) == ("ltr", 1.5, 2.5)
    assert found.scores["x"].tolist() == [0.25, -1.0]
    assert store.get("c") is None
    store.put("a", _result("ltr", 7.0, 8.0))  # what was trained here counts
    again = store.get("a")
    assert again is not None
    assert again.scores["x"].tolist() == [7.0, 8.0]


def test_a_newer_result_of_the_same_rows_takes_the_place_of_the_old(tmp_path) -> None:
    out = tmp_path / "recipes.parquet"
    shipped.write(out, {"old": _result("ltr", 1.0), "other": _result("ltr", 1.0, at="elsewhere")})
    cache = Store(tmp_path / "cache")
    cache.put("new", _result("ltr", 2.0))
    shipped.main(cache.folder, out)
    assert set(Shipped(out).all()) == {"new", "other"}


def test_no_file_is_no_results(tmp_path) -> None:
    assert Shipped(tmp_path / "none.parquet").get("a") is None
    assert Shipped(tmp_path / "none.parquet").all() == {}
    with pytest.raises(ValueError, match="no label to write"):
        shipped.main(tmp_path, tmp_path / "none.parquet")
