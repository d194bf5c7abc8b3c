"""Host samples: each source against files as the kernel writes them, and the whole on this machine."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.collectors.host.counters import Counters
from argus.collectors.host.fabric import ports_between, read_ports
from argus.collectors.host.gpus import Gpus
from argus.collectors.host.host_sampler import HostSampler, Roots, Seen
from argus.collectors.host.kernel_log import KernelLog, parse_line, parse_record
from argus.collectors.host.observers import HostWatch
from argus.collectors.host.pressure import read_load, read_pressure, read_steal
from argus.collectors.host.process_use import Counts, read_counts, read_throttling, use_between
from argus.collectors.records.errors import WireError
from argus.collectors.records.host_sample import HostSample, KernelEvent, PartState, RankUse
from tests.collectors.host.test_host_stacks import json_values

SAMPLE = HostSample(
    host="h",
    start_s=1.0,
    end_s=11.0,
    numbers={"cpu_some_s": 2.0},
    ranks=(RankUse(run="r", attempt=0, rank=0, first_step=1, last_step=9, numbers={"run_delay_s": 0.5}),),
    gpus=(PartState(name="GPU-1", numbers={"power_watts": 300.0}, flags=("hw_thermal",)),),
    ports=(PartState(name="mlx5_0/1"),),
    events=(KernelEvent(ts_s=3.0, kind="xid", code=79, device="0000:10:1c", text="fell off"),),
    unseen=("gpu: none",),
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_pressure_steal_and_load(tmp_path: Path) -> None:
    write(
        tmp_path / "pressure/cpu", "some avg10=98.99 avg60=0 avg300=0 total=2000000\nfull avg10=0 total=0\n"
    )
    write(tmp_path / "pressure/io", "some avg10=0.00 total=500000\n")
    write(tmp_path / "stat", "cpu  1 2 3 4 5 6 7 800 0 0\n")
    write(tmp_path / "loadavg", "1.00 1.00 1.00 17/300 4242\n")
    pressure = read_pressure(root=tmp_path)
    assert pressure == pytest.approx({"cpu_some_s": 2.0, "cpu_full_s": 0.0, "io_some_s": 0.5})
    assert read_steal(root=tmp_path)["cpu_steal_s"] == 800 / os.sysconf("SC_CLK_TCK")
    assert read_load(root=tmp_path)["runnable"] == 17.0
    assert read_pressure(root=tmp_path / "none") == {} == read_load(root=tmp_path / "none")


@pytest.mark.parametrize(
    ("line", "mount", "stat"),
    [
        (
            "1:cpu,cpuacct:/job\n0::/\n",
            "cpu,cpuacct/job",
            "nr_periods 9\nnr_throttled 4\nthrottled_time 3000000000\n",
        ),
        ("1:cpu:/host/path\n", "cpu", "nr_periods 9\nnr_throttled 4\nthrottled_time 3000000000\n"),
        ("0::/job.slice\n", "job.slice", "usage_usec 5\nnr_throttled 4\nthrottled_usec 3000000\n"),
    ],
)
def test_throttling_of_both_cgroup_versions(tmp_path: Path, line: str, mount: str, stat: str) -> None:
    write(tmp_path / "proc/7/cgroup", "3:cpuset:/\n" + line)
    write(tmp_path / "cgroup" / mount / "cpu.stat", stat)
    got = read_throttling(7, proc=tmp_path / "proc", cgroup=tmp_path / "cgroup")
    assert got == {"throttled_periods": 4.0, "throttled_s": 3.0}


def test_run_queue_delay_counts_threads_that_came_and_went() -> None:
    before = Counts(whole={"cpu_s": 1.0}, run_delay_s={1: 5.0, 2: 1.0})
    now = Counts(whole={"cpu_s": 4.0}, run_delay_s={1: 6.0, 3: 0.5})
    assert use_between(now, before) == {
        "cpu_s": 3.0,
        "run_delay_s": 1.5,
        "thread_run_delay_s": 1.0,
    }


def test_this_process_has_counts() -> None:
    counts = read_counts(os.getpid())
    assert counts.whole["cpu_s"] > 0 and os.getpid() in counts.run_delay_s
    assert read_counts(1 << 22) == Counts()


@pytest.mark.parametrize(
    ("text", "kind", "code", "device"),
    [
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper", "xid", 63, "0000:10:1c"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal", "sxid", 12028, "0000:c1:00.0"),
        ("pcieport 0000:00:01.1: AER: Corrected error received: 0000:01:00.0", "aer", 0, "0000:00:01.1"),
        ("mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Corrected", "aer", 0, "0000:01:00.0"),
        ("Out of memory: Killed process 4242 (python)", "oom", 4242, ""),
        (
            "Memory cgroup out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB",
            "oom",
            77,
            "",
        ),
    ],
)
def test_hardware_lines_of_the_kernel_log(text: str, kind: str, code: int, device: str) -> None:
    event = parse_record(f"4,1234,5000000,-;{text}\n SUBSYSTEM=pci\n".encode(), boot_s=100.0)
    assert event is not None and (event.kind, event.code, event.device) == (kind, code, device)
    assert event.ts_s == 105.0


def test_other_lines_say_nothing() -> None:
    assert parse_line("usb 1-1: new device", ts_s=0.0) is None
    assert parse_record(b"garbage", boot_s=0.0) is None


def test_a_log_that_may_not_be_read_is_said(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "none")
    assert log.read(boot_s=0.0) == [] and "No such file" in log.unseen


def test_ports_are_differences_and_say_when_they_are_down(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0/ports/1"
    write(port / "counters/symbol_error", "5\n")
    write(port / "counters/unicast_rcv_packets", "9\n")
    write(port / "hw_counters/local_ack_timeout_err", "1\n")
    write(port / "state", "1: DOWN\n")
    write(port / "rate", "400 Gb/sec (4X NDR)\n")
    before = read_ports(root=tmp_path)
    write(port / "counters/symbol_error", "12\n")
    (part,) = ports_between(read_ports(root=tmp_path), before, root=tmp_path)
    assert (part.name, part.flags) == ("mlx5_0/1", ("down",))
    assert part.numbers == {"symbol_error": 7.0, "local_ack_timeout_err": 0.0, "rate_gbit_per_s": 400.0}


class FakeNvml(ModuleType):
    """NVML with one GPU that knows a few things and throttles for heat."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.replays = 3

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, _gpu: int) -> str:
        return "GPU-abc"

    def nvmlDeviceGetClockInfo(self, _gpu: int, which: int) -> int:
        return 1410 if which == self.NVML_CLOCK_SM else 1593

    def nvmlDeviceGetTemperature(self, _gpu: int, _which: int) -> int:
        raise self.NVMLError("not supported")

    def nvmlDeviceGetPcieReplayCounter(self, _gpu: int) -> int:
        self.replays += 2
        return self.replays

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _gpu: int) -> int:
        return 0x1 | 0x40


def test_a_gpu_tells_what_it_knows_and_counters_as_differences() -> None:
    gpus = Gpus(FakeNvml())
    (first,) = gpus.read()
    (second,) = gpus.read()
    assert first.name == "GPU-abc" and "pcie_replays" not in first.numbers
    assert second.numbers == {"sm_clock_mhz": 1410.0, "mem_clock_mhz": 1593.0, "pcie_replays": 2.0}
    assert second.flags == ("hw_thermal",)


def test_this_host_can_be_sampled(tmp_path: Path) -> None:
    sampler = HostSampler(
        host="h",
        gpus=Gpus(FakeNvml()),
        log=KernelLog(tmp_path / "none"),
        uptime_clock=lambda: 10.0,
        roots=Roots(infiniband=tmp_path),
    )
    seen = Seen(key=("run", 0, 3), pid=os.getpid(), step=4)
    assert sampler.sample([seen], read=sampler.read([seen], now_s=100.0)) is None
    end_s = time.process_time() + 0.03
    while time.process_time() < end_s:
        pass
    seen = Seen(key=seen.key, pid=seen.pid, step=9)
    sample = sampler.sample([seen], read=sampler.read([seen], now_s=110.0))
    assert sample is not None and (sample.start_s, sample.end_s) == (100.0, 110.0)
    (use,) = sample.ranks
    assert (use.rank, use.first_step, use.last_step) == (3, 5, 9)
    assert use.numbers["cpu_s"] > 0 and "run_delay_s" in use.numbers
    assert any("kernel log" in text for text in sample.unseen)
    assert HostSample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_an_answer_of_a_driver_that_nobody_foresaw_ends_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus, asked = Gpus(None), threading.Event()

    def read() -> tuple[PartState, ...]:
        asked.set()
        raise KeyError("power")

    monkeypatch.setattr(gpus, "read", read)
    log, counters = KernelLog(tmp_path / "none"), Counters()
    sampler = HostSampler(
        host="h", gpus=gpus, log=log, uptime_clock=lambda: 1.0, roots=Roots(infiniband=tmp_path)
    )
    watch = HostWatch(sampler, counters=counters, wall_clock=lambda: 100.0)
    watch.ask([])
    watch.start()
    assert asked.wait(10.0)
    watch.stop()
    assert counters.get("argus_collector_host_samples_total", "error") == 1
    assert watch.unseen == ("host: KeyError: 'power'",)


def test_a_sample_survives_the_wire() -> None:
    assert HostSample.from_json(json.loads(json.dumps(SAMPLE.to_json()))) == SAMPLE


@given(key=st.sampled_from(sorted(SAMPLE.to_json())), value=json_values)
def test_any_value_in_a_sample_is_taken_or_refused(key: str, value: object) -> None:
    raw = {**SAMPLE.to_json(), key: value}
    try:
        sample = HostSample.from_json(raw)
    except WireError:
        return
    assert sample.host.isprintable() and sample.start_s <= sample.end_s
