"""The host processor's pod: what its probes ask a real processor, and the rights that it has."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from argus.collectors.host.fake_host import start

DAEMONSET = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "daemonset.yaml"


def pod() -> dict[str, Any]:
    (found,) = [one for one in yaml.safe_load_all(DAEMONSET.read_text()) if one["kind"] == "DaemonSet"]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def asked(command: Sequence[str], path: Path, *, patience_s: float) -> int:
    """Exit status of a probe's command where the processor's socket is `path`."""
    program, flags, code = command
    assert program == "python" and "settimeout(20)" in code
    code = code.replace("/run/argus/node/processor.sock", str(path)).replace("(20)", f"({patience_s})")
    done = subprocess.run([sys.executable, flags, code], capture_output=True, check=False, timeout=60)
    return done.returncode


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_a_probe_is_answered_by_a_processor_that_works_and_by_no_other(tmp_path: Path, probe: str) -> None:
    (container,) = pod()["containers"]
    command = container[probe]["exec"]["command"]
    host = start(tmp_path, url="")
    try:
        assert asked(command, host.path, patience_s=20) == 0
        assert host.counters.get("argus_collector_rejected_total", "cut_frame") == 0
    finally:
        host.stop()
    assert asked(command, host.path, patience_s=20) != 0
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.bind(str(tmp_path / "stuck.sock"))
        stuck.listen()
        assert asked(command, tmp_path / "stuck.sock", patience_s=0.1) != 0


def test_it_has_the_rights_to_look_at_ranks_and_no_others() -> None:
    spec = pod()
    (container,) = spec["containers"]
    security = container["securityContext"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    assert security["capabilities"]["drop"] == ["ALL"] and "SYS_PTRACE" in security["capabilities"]["add"]
    assert "ports" not in container and not spec["automountServiceAccountToken"]
    written = {mount["mountPath"] for mount in container["volumeMounts"]}
    named = [word for word in container["command"] if word.startswith("/")]
    assert named and all(any(word.startswith(f"{path}/") for path in written) for word in named)
