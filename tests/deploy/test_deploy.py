"""The examples under deploy/: checked by the tools that read them, and run where they can be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from argus.api.cli import build_parser, load

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SCRIPTS = sorted((DEPLOY / "slurm").glob("*.sh"))
UNIT = DEPLOY / "systemd" / "argus-processor@.service"


def need(tool: str) -> str:
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def test_systemd_takes_the_unit() -> None:
    done = subprocess.run(
        [need("systemd-analyze"), "verify", str(UNIT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_the_commands_of_unit_and_daemonset_parse() -> None:
    (line,) = [text for text in UNIT.read_text().splitlines() if text.startswith("ExecStart=")]
    words = line.removeprefix("ExecStart=/usr/bin/env ").replace("${METRICS_PORT}", "0").split()
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "daemonset.yaml").read_text()))
    (container,) = documents[-1]["spec"]["template"]["spec"]["containers"]
    for command in (words, container["command"]):
        assert command[:2] == ["argus", "processor"]
        assert build_parser("processor", load("processor")).parse_args(command[2:]).socket is not None


def test_service_and_processor_have_no_folder_of_each_other() -> None:
    """The service's user is dynamic: systemd keeps its state below /var/lib/private, which is root's alone."""
    units = [unit.read_text() for unit in (UNIT.with_name("argus.service"), UNIT)]
    (service,), (processor,) = (
        re.findall(r"^StateDirectory=([^/\n]+)", text, re.MULTILINE) for text in units
    )
    assert "DynamicUser=yes" in units[0] and service != processor
    (line,) = re.findall(r"^ExecStart=.*", units[1], re.MULTILINE)
    kept = re.findall(r"/var/lib/([^/]+)/%i/", line)
    assert kept == [processor, processor]


def test_the_daemonset_may_see_processes_and_nothing_else() -> None:
    *_, daemonset = yaml.safe_load_all((DEPLOY / "kubernetes" / "daemonset.yaml").read_text())
    spec = daemonset["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert spec["hostPID"] and not spec.get("hostNetwork") and "ports" not in container
    assert security["capabilities"]["drop"] == ["ALL"] and "SYS_PTRACE" in security["capabilities"]["add"]
    assert not security.get("privileged") and not security["allowPrivilegeEscalation"]
    labels = daemonset["spec"]["selector"]["matchLabels"]
    assert labels.items() <= daemonset["spec"]["template"]["metadata"]["labels"].items()
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in spec["volumes"]}


def test_the_daemonset_listens_in_a_folder_of_its_own_and_goes_by_the_nodes_name() -> None:
    *_, daemonset = yaml.safe_load_all((DEPLOY / "kubernetes" / "daemonset.yaml").read_text())
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    args = build_parser("processor", load("processor")).parse_args(container["command"][2:])
    mounted = {Path(mount["mountPath"]) for mount in container["volumeMounts"]}
    assert args.socket.parent not in mounted and args.socket.parent.parent in mounted
    assert args.host == "$(NODE_NAME)"
    (name,) = [item for item in container["env"] if item["name"] == "NODE_NAME"]
    assert name["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(script)], check=True)
    assert os.access(script, os.X_OK)


def slurm(script: str, root: Path, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {"ARGUS_ROOT": str(root), "SLURM_JOB_ID": "42", "SLURM_JOB_UID": str(os.getuid()), **env}
    return subprocess.run(
        ["bash", str(DEPLOY / "slurm" / script)],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_prolog_starts_a_processor_and_epilog_ends_it(tmp_path: Path) -> None:
    binary = tmp_path / "argus"
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m argus "$@"\n')
    binary.chmod(0o755)
    folder = tmp_path / "run" / "job-42"
    assert slurm("prolog.sh", tmp_path / "run", ARGUS_BIN=str(binary)).returncode == 0
    note = tmp_path / "run" / "job-42.pid"
    pid = int(note.read_text())
    try:
        deadline = time.monotonic() + 60
        while not (folder / "processor.sock").exists():
            assert time.monotonic() < deadline, (folder / "processor.log").read_text()
            time.sleep(0.05)
        told = slurm("task_prolog.sh", tmp_path / "run").stdout
        assert told == f"export ARGUS_SOCKET={folder}/processor.sock\n"
    finally:
        done = slurm("epilog.sh", tmp_path / "run")
    assert done.returncode == 0 and not done.stderr and not folder.exists() and not note.exists()
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


def test_a_prolog_never_fails_a_job(tmp_path: Path) -> None:
    done = slurm("prolog.sh", tmp_path / "run", ARGUS_BIN="no-such-program")
    assert done.returncode == 0 and "no processor for job 42" in done.stderr
    assert slurm("task_prolog.sh", tmp_path / "run").stdout == ""
    assert slurm("epilog.sh", tmp_path / "run").returncode == 0


def test_an_epilog_spares_a_process_that_only_has_the_number(tmp_path: Path) -> None:
    folder = tmp_path / "job-42"
    folder.mkdir()
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "job-42.pid").write_text(str(sleeper.pid))
        assert slurm("epilog.sh", tmp_path).returncode == 0
        assert sleeper.poll() is None and not folder.exists()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_root_opens_nothing_in_the_users_folder(tmp_path: Path) -> None:
    """The folder is the user's before the processor starts: a link in it would have root write where it points."""
    if os.getuid() != 0:
        pytest.skip("needs root, as a prolog has it")
    folder, kept = tmp_path / "job-42", tmp_path / "kept"
    folder.mkdir()
    kept.write_text("root's own")
    kept.chmod(0o600)
    for name in ("processor.log", "processor.pid"):
        (folder / name).symlink_to(kept)
    done = slurm("prolog.sh", tmp_path, ARGUS_BIN="true", SLURM_JOB_UID="65534")
    assert done.returncode == 0 and kept.read_text() == "root's own"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('argus_collector_kernel_events_total{kind="xid"} 2.0', 2),
        ('argus_collector_kernel_events_total{kind="aer"} 1.0', 1),
        ('argus_collector_kernel_events_total{kind="oom"} 1.0', 0),
    ],
)
def test_the_health_check_reads_what_the_processor_measured(line: str, code: int, tmp_path: Path) -> None:
    need("curl")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"{line}\n".encode())

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        script = str(DEPLOY / "slurm" / "healthcheck.sh")
        done = subprocess.run(["bash", script, str(server.server_port)], check=False, capture_output=True)
        assert done.returncode == code
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
