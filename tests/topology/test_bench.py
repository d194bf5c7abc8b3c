"""The benchmark measures every query and reports the three promised figures."""

from __future__ import annotations

import pytest

from argus.evals.bench.topology import measure, table


@pytest.mark.slow
def test_figures_of_a_thousand_ranks() -> None:
    result = measure(1024)
    assert {"build_s", "query_ms_max", "peak_rss_mb", "ok"} <= set(result)
    assert result["ranks"] == 1024 and result["elements"] > 4 * 1024
    assert max(result["query_ms"].values()) == result["query_ms_max"]
    for query in ("scope of ranks", "scope of groups", "path between ranks", "blast radius", "difference"):
        assert query in result["query_ms"]
    assert "| ranks | 1,024 |" in table(result)
