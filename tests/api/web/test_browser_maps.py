"""Maps of many ranks in a real Chromium: the one rank that stands out is seen."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from argus.evals.browser import lacking
from tests.api.web.test_browser import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "there is a browser"),
]

AS_EXPECTED, SLOW = 128, 255

REDDEST = """() => {
  const canvas = document.querySelector('.map canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let most = 0;
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 200) most = Math.max(most, data[i] - Math.max(data[i + 1], data[i + 2]));
  return most;
}"""
"""By how much the reddest pixel is red."""


def chart(sizes: dict[str, int], *, slow: int | None) -> dict[str, object]:
    """A map of a job whose one slow rank is no suspect of anything."""
    num, stride, coords = 1, 1, {}
    for size in sizes.values():
        num *= size
    for dim, size in sizes.items():
        coords[dim] = [rank // stride % size for rank in range(num)]
        stride *= size
    codes = bytearray([AS_EXPECTED] * num)
    if slow is not None:
        codes[slow % num] = SLOW
    hosts = [f"h-{number:04d}" for number in range(-(-num // 8))]
    return {
        "sizes": sizes,
        "coords": coords,
        "hosts": hosts,
        "leaf": [""] * len(hosts),
        "host": [rank // 8 for rank in range(num)],
        "device": [""] * num,
        "conflicts": [],
        "codes": b64encode(bytes(codes)).decode(),
    }


def reddest(browser: Browser, url: str, told: dict[str, object]) -> int:
    with opened(browser, url, "runs") as shown:
        shown.page.route("**/charts/map*", lambda route: route.fulfill(json=told))
        shown.page.goto(f"{url}/#/run/nightly-01")
        shown.whole_view()
        shown.page.focus(".map canvas")
        shown.page.keyboard.press("ArrowRight")
        assert "rank" in shown.page.inner_text(".map .told")
        return int(shown.page.evaluate(REDDEST))


@pytest.mark.parametrize("sizes", [{"dp": 32}, {"tp": 8, "dp": 1280}, {"dp": 10_240}], ids=str)
def test_one_slow_rank_stays_visible(browser: Browser, url: str, sizes: dict[str, int]) -> None:
    nobody, one = (reddest(browser, url, chart(sizes, slow=slow)) for slow in (None, 5_000))
    assert one > nobody + 100
