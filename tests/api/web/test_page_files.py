"""The page's own files: nothing from elsewhere, nothing that makes markup of data, nothing that can run by itself."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from argus.api.http.app import make_app
from argus.api.http.pages import POLICY, page_files
from tests.api.kit import FakeClock, service_at

ROOT = Path(__file__).resolve().parents[3] / "api" / "web"
OWN = sorted(path for path in ROOT.glob("*.*"))

UPLOT = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
"""Of uPlot.iife.min.js as its authors publish it; vendor/README.txt says how to take another."""

MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.srcdoc|\bon\w+=\""
)


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        return TestClient(make_app(service))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_own_files_make_no_markup_of_data_and_load_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not MARKUP.findall(text)
    urls = re.findall(r"(?:https?:|[\"'(])//[\w.-]+\.\w+", text)
    assert not [url for url in urls if "www.w3.org" not in url]
    assert len(text.splitlines()) <= 400


def test_the_library_is_the_published_one_with_its_licence() -> None:
    script = (ROOT / "vendor" / "uPlot.iife.min.js").read_bytes()
    assert hashlib.sha256(script).hexdigest() == UPLOT
    assert "MIT License" in (ROOT / "vendor" / "uPlot.LICENSE.txt").read_text(encoding="utf-8")


def test_every_file_that_is_named_is_there(client: TestClient) -> None:
    shell = client.get("/")
    assert shell.status_code == 200 and shell.headers["content-type"].startswith("text/html")
    named = re.findall(r"(?:src|href)=\"(web/[^\"]+)\"", shell.text)
    scripts = [path for path in OWN if path.suffix == ".js"]
    named += [
        f"web/{name}" for path in scripts for name in re.findall(r'from "\./([^"]+)"', path.read_text())
    ]
    assert len(set(named)) >= len(scripts)
    for name in sorted(set(named)):
        answer = client.get(f"/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_policy_lets_nothing_in() -> None:
    assert "default-src 'none'" in POLICY and "script-src 'self'" in POLICY
    assert "unsafe" not in POLICY and "*" not in POLICY


@pytest.mark.parametrize(
    "name", ["nothing.js", "../http/app.py", "vendor", "..%2fhttp%2fapp.py", "index.html/"]
)
def test_only_files_of_the_page_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/web/{name}").status_code == 404


def test_the_page_asks_for_no_key_and_shows_no_data(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock(), key="s3cret") as service:
        client = TestClient(make_app(service))
        assert client.get("/").status_code == 200
        assert client.get("/v1/page").status_code == 401
    assert b"s3cret" not in b"".join(page_files().values())


def test_settings_reach_the_page(tmp_path: Path) -> None:
    clock = FakeClock()
    told = {"notice": "<b>maintenance</b>", "grafana_url": "http://g/", "perfetto_url": "http://p/"}
    with service_at(tmp_path / "a.sqlite", clock=clock, **told) as service:
        page = TestClient(make_app(service)).get("/v1/page").json()
    assert (page["notice"], page["grafana_url"], page["perfetto_url"]) == (
        told["notice"],
        "http://g",
        "http://p",
    )
    assert page["now_s"] == clock.now_s and page["has_model"] is False


def test_a_topology_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    from argus.api.cluster import cluster_facts
    from argus.api.settings import Settings, SettingsError

    wrong = tmp_path / "x.bin"
    wrong.write_bytes(b"\0\1\2")
    with pytest.raises(SettingsError, match="topology: x.bin"):
        cluster_facts(Settings(topology=str(wrong)))
    assert cluster_facts(Settings()) == ()
