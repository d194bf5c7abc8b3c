"""Rules by promtool, and every query of the dashboards against a real Prometheus that scrapes a real service."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from argus.api.cli.serve import product_analyses
from argus.api.cli.serve_store import remote_writer
from argus.api.metrics import METRICS, render
from argus.collectors.records.plan import WindowPlan
from argus.evals.load.bodies import layouts_body
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from tests.api.kit import FakeClock, beats_body, make_beat, service_at, upload
from tests.api.served import over_http

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "argus.rules.yml"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
FILLED = {"$__rate_interval": "10s", "$run_id": "train/0", "$run": "train", "$phase": ".*", "$rank": ".*"}

QUIET = ("argus_host_gap_ratio", "argus_overhead_ratio", "argus_channel_off")
"""A healthy job without GPU kernels and without shadow steps has no samples of these."""


def need(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def complaint(*words: str) -> str:
    """What promtool has to say against it, "" if nothing."""
    command = [need("promtool"), *words]
    done = subprocess.run(command, cwd=RULES.parent, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr or f"exit status {done.returncode}"


def test_promtool_takes_config_and_rules() -> None:
    assert complaint("check", "config", "prometheus.yml") == ""
    assert complaint("check", "rules", RULES.name) == ""
    assert "FAILED" in complaint("check", "rules", "prometheus.yml")


@pytest.mark.slow
def test_the_alerts_fire_when_they_should_and_only_then() -> None:
    assert complaint("test", "rules", "argus.test.yml") == ""


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_every_alert_is_tested_and_explained() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    tests = yaml.safe_load((RULES.parent / "argus.test.yml").read_text())["tests"]
    fired = {
        one["alertname"] for test in tests for one in test.get("alert_rule_test", ()) if one.get("exp_alerts")
    }
    assert fired == set(alerts)
    guide = (DEPLOY.parent / "docs" / "operating.md").read_text()
    for name, rule in alerts.items():
        assert rule["annotations"]["runbook"] == f"docs/operating.md#{name.lower()}"
        assert f"### {name}\n" in guide and rule["annotations"]["summary"] and rule["labels"]["severity"]


def expressions() -> list[tuple[str, str]]:
    """(where, query) of every panel, variable and annotation."""
    found = []
    for path in DASHBOARDS:
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            found += [(f"{path.name}: {panel['title']}", target["expr"]) for target in panel["targets"]]
        found += [(f"{path.name}: {one['name']}", one["expr"]) for one in board["annotations"]["list"]]
    return found


def used(query: str) -> set[str]:
    return set(re.findall(r"\bargus_[a-z0-9_]+", query))


def exported() -> set[str]:
    names = {name for name, kind, _, _ in METRICS if kind != "histogram"}
    histograms = [name for name, kind, _, _ in METRICS if kind == "histogram"]
    return names | {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}


def test_rules_and_dashboards_ask_for_what_is_exported() -> None:
    asked = set().union(
        *(used(query) for _, query in expressions()), *(used(rule["expr"]) for rule in rules())
    )
    recorded = {name.split(":")[1] for rule in rules() if (name := rule.get("record"))}
    assert asked and asked - recorded <= exported()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_can_be_provisioned(path: Path) -> None:
    board = json.loads(path.read_text())
    assert board["id"] is None and 0 < len(board["uid"]) <= 40 and "__inputs" not in board
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names[0] == "datasource" and len({panel["id"] for panel in board["panels"]}) == len(
        board["panels"]
    )
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    words = set(re.findall(r"\$([a-z_]+)", json.dumps([panel["targets"] for panel in board["panels"]])))
    assert words <= {*names, "__rate_interval"}


def test_all_attempts_are_those_of_the_chosen_run() -> None:
    """Panels ask by attempt alone: an `allValue` that fits all names would draw every run there is."""
    board = json.loads((DEPLOY / "grafana" / "dashboards" / "argus-run.json").read_text())
    (attempt,) = [one for one in board["templating"]["list"] if one["name"] == "run_id"]
    assert '{run="$run"}' in attempt["query"]["query"] and "allValue" not in attempt


def test_grafana_finds_dashboards_and_source() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    (provider,) = yaml.safe_load((folder / "dashboards" / "argus.yaml").read_text())["providers"]
    assert provider["type"] == "file" and provider["options"]["path"].startswith("/")
    (source,) = yaml.safe_load((folder / "datasources" / "argus.yaml").read_text())["datasources"]
    assert source["type"] == "prometheus" and len(source["uid"]) <= 40


class Prometheus:
    """A real server on loopback that scrapes one target every second and evaluates the rules."""

    def __init__(self, folder: Path, target: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yml")],
            "scrape_configs": [{"job_name": "argus", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "p.yml").write_text(yaml.safe_dump(config))
        groups = [{**group, "interval": "1s"} for group in yaml.safe_load(RULES.read_text())["groups"]]
        (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
        command = [
            need("prometheus"),
            f"--config.file={folder / 'p.yml'}",
            f"--storage.tsdb.path={folder}/data",
        ]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--web.enable-remote-write-receiver"]
        with (folder / "p.log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(
            f"{self.url(path)}?{urllib.parse.urlencode(query)}", timeout=10
        ) as answer:
            return json.load(answer)["data"]

    def wait_for(self, query: str) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if self.get("/api/v1/query", query=query)["result"]:
                    return
            except OSError:
                assert self._process.poll() is None, "prometheus ended"
            time.sleep(0.1)
        raise AssertionError(f"no answer to {query}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes a service that has lived through a job with a slow rank."""
    need("prometheus")
    folder, clock = tmp_path_factory.mktemp("prometheus"), FakeClock()
    with service_at(folder / "a.sqlite", clock=clock, analyses=product_analyses()) as service:
        job = Job(ranks=8, steps=80)
        done = simulate(
            job,
            [Fault(kind="compute", ranks=(5,), start_step=30, severity=3.0)],
            rng=np.random.default_rng(5),
        )
        clock.now_s = job.start_s
        service.receive_layouts(layouts_body(done.layouts))
        for closed in done.windows(WindowPlan()):
            clock.now_s = job.start_s + closed.end_s
            service.receive_windows(upload(*closed.parts))
            service.worker.turn(clock.now_s)
        with over_http(service) as url:
            urllib.request.urlopen(
                urllib.request.Request(
                    f"{url}/v1/ingest/heartbeats",
                    data=beats_body(*(make_beat(rank, ts_s=clock.now_s, run=job.run) for rank in range(8))),
                    headers={"content-type": "application/json"},
                )
            ).close()
            server = Prometheus(folder, url.removeprefix("http://"))
            try:
                server.wait_for("count_over_time(argus_leader[10s]) > 3")
                server.wait_for("run:argus_step_duration_seconds:max")
                yield server
            finally:
                server.close()


@pytest.mark.slow
def test_the_queries_of_the_dashboards_are_answered(prometheus: Prometheus) -> None:
    unanswered = []
    for where, query in expressions():
        for word, value in FILLED.items():
            query = query.replace(word, value)
        answer = prometheus.get("/api/v1/query", query=query)["result"]
        if not answer and not any(name in query for name in QUIET):
            unanswered.append(where)
    assert expressions() and not unanswered


@pytest.mark.slow
def test_the_variables_have_values(prometheus: Prometheus) -> None:
    for path in DASHBOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"][1:]:
            query = variable["query"]["query"].replace("$run_id", "train/0").replace("$run", "train")
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()  # type: ignore[union-attr]
            assert prometheus.get(f"/api/v1/label/{label}/values", **{"match[]": selector}), variable["name"]


@pytest.mark.slow
def test_recorded_series_join_with_who_the_ranks_are(prometheus: Prometheus) -> None:
    assert {
        rule["health"] for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]
    } <= {
        "ok",
        "unknown",
    }
    found = prometheus.get("/api/v1/query", query="run_host:argus_step_duration_seconds:max")["result"]
    assert found and all(one["metric"]["host"] for one in found)


@pytest.mark.slow
def test_what_is_pushed_reaches_a_real_receiver(prometheus: Prometheus, tmp_path: Path) -> None:
    settings = {"remote_write_url": prometheus.url("/api/v1/write")}
    with service_at(tmp_path / "b.sqlite", clock=FakeClock(), **settings) as service:
        writer = remote_writer(service)
        assert writer is not None
        writer.step()
        text = render(service.metrics).decode()
    sent = re.search(r'argus_remote_write_samples_total{result="sent"} (\d+)', text)
    assert sent and int(sent[1]) > 10 and 'result="refused"' not in text
    prometheus.wait_for('argus_analysis_backlog_windows{job="argus",instance=~".+:8321"}')
