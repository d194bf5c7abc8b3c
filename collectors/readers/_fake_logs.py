"""Make small logs, for tests: what training frameworks, NCCL and its watchdog print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ITERATION = (
    " [2026-01-05 10:00:00] iteration {step:8d}/  250000 | consumed samples: 186368 | elapsed time per iteration "
    "(ms): {ms:.1f} | learning rate: 1.0E-04 | global batch size: 1024 | lm loss: 2.38E+00 |\n"
)

STRAGGLER = (
    " 0: INFO:megatron.core.utils:[2024-03-14 23:07:56] | MnRtt/Rnk: 3000.08ms/2 | MxRtt/Rnk: 3468.20ms/5 | "
    "MnPwr/Rnk: 451796W/5 | MxPwr/Rnk: 683801W/3 | MnTmp/Rnk: 52C/0 | MxTmp/Rnk: 65C/5 | MnUtl/Rnk: 97%/5 | "
    "MxUtl/Rnk: 100%/6 | MnClk/Rnk: 1410MHz/5 | MxClk/Rnk: 1980MHz/0 | MnDRtt/Rnk: 14.27ms/2 | "
    "MxDRtt/Rnk: 34.65ms/3 | MnEtpt/Rnk: 256.02TF/5 | MxEtpt/Rnk: 297.32TF/2\n"
    " 0: INFO:megatron.core.utils:^^^^ Bottom 2 Ranks with lowest  Etpt(TF): 256.02/5, 290.10/1\n"
)


def timer_tables(
    timers: Mapping[str, Sequence[float]], *, num_tables: int = 12, slow: Mapping[int, float] | None = None
) -> str:
    """Megatron's tables of all ranks: `timers` maps a name to milliseconds by rank; `slow` multiplies forward and
    backward of ranks from the middle on."""
    parts = []
    for table in range(num_tables):
        rows = {name: list(values) for name, values in timers.items()}
        for rank, factor in (slow or {}).items() if table >= num_tables // 2 else ():
            for name in ("forward-compute", "backward-compute"):
                if name in rows:
                    rows[name][rank] *= factor
        total = max(
            sum(values[rank] for values in rows.values()) for rank in range(len(next(iter(rows.values()))))
        )
        parts.append(ITERATION.format(step=(table + 1) * 10, ms=total))
        parts.append("times across ranks (ms):\n")
        for name, values in rows.items():
            parts.append(f"  {name}:\n")
            parts += [f"     rank {rank:2d}: {value:.2f}\n" for rank, value in enumerate(values)]
    return "".join(parts)


def watchdog_lines(
    behind: Mapping[int, int],
    *,
    world: int = 8,
    seq: int = 1580,
    silent: Sequence[int] = (),
    op: str = "ALLREDUCE",
) -> str:
    """What every rank's watchdog prints when all-reduce `seq` of the default group hangs; ranks of `behind` made
    that many calls fewer and only answer the others' request for a dump, `silent` ones print nothing."""
    lines = []
    for rank in range(world):
        if rank in silent:
            continue
        place = f"[rank{rank}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] "
        group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        if rank in behind:
            last = seq - behind[rank]
            lines.append(
                f"{place}{group}Received a dump signal due to a collective timeout from rank 0 and we will try our "
                f"best to dump the debug info. Last enqueued NCCL work: {last}, last completed NCCL work: {last}.\n"
            )
            continue
        lines.append(
            f"{place}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
            "NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
        )
        lines.append(
            f"{place}{group}Exception (either an error or timeout) detected by watchdog at work: {seq}, "
            f"last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}.\n"
        )
    return "".join(lines)


def nccl_lines(world: int = 4, *, networks: Mapping[int, str] | None = None, hosts: int = 2) -> str:
    """What NCCL_DEBUG=INFO prints at the start of a job."""
    lines = []
    for rank in range(world):
        place = f"h-{rank * hosts // world}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
        network = (networks or {}).get(rank, "IB")
        lines += [
            f"{place}NCCL version 2.21.5+cuda12.4\n",
            f"{place}Using network {network}\n",
            (
                f"{place}comm 0x55d0 rank {rank} nranks {world} cudaDev {rank} nvmlDev {rank} busId 27000 commId 0x9f - "
                "Init START\n"
            ),
            (
                f"{place}Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % world}[{(rank + 1) % world}] [send] via "
                f"{'NET/IB/0/GDRDMA' if network == 'IB' else 'NET/Socket/0'}\n"
            ),
            (
                f"{place}Init timings - ncclCommInitRankConfig: rank {rank} nranks {world} total 55.01 (kernels 52.45, "
                "alloc 0.41, bootstrap 0.57)\n"
            ),
        ]
    return "".join(lines)


SCRAPE = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
"""


def dcgm_scrape(
    num_gpus: int = 8, *, slow: Sequence[int] = (), host: str = "h-0", more: Sequence[str] = ()
) -> str:
    """A scrape of DCGM exporter in which the `slow` GPUs' clocks are held down by heat; `more` are further lines."""
    lines = [SCRAPE]
    for gpu in range(num_gpus):
        labels = (
            f'gpu="{gpu}",UUID="GPU-{gpu:04d}",pci_bus_id="00000000:{16 + gpu:02X}:00.0",device="nvidia{gpu}",'
            f'modelName="NVIDIA H100 80GB HBM3",Hostname="{host}"'
        )
        values = {"SM_CLOCK": 1200 if gpu in slow else 1980, "GPU_UTIL": 100, "XID_ERRORS": 0}
        values["CLOCKS_EVENT_REASONS"] = 0x40 if gpu in slow else 0x4
        lines += [f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in values.items()]
    return "".join([*lines, *(f"{line}\n" for line in more)])


def xpu_timer_scrape(latencies: Sequence[float], *, hung: Sequence[int] = ()) -> str:
    """Gauges of xpu_timer: the average time of a matrix product by rank, in µs."""
    lines = ["# TYPE XPU_TIMER_MM_KERNEL_AVG_LATENCY gauge\n"]
    for rank, value in enumerate(latencies):
        labels = f'dtype="bf16",ip="NOT_SET",job_name="NOT_SET",level="3",local_rank="{rank}",operation="Matmul",rank="{rank}"'
        lines.append(f"XPU_TIMER_MM_KERNEL_AVG_LATENCY{{{labels}}} {value}\n")
        lines.append(f'XPU_TIMER_COMMON_HANG{{rank="{rank}"}} {int(rank in hung)}\n')
    return "".join(lines)


def folded_stacks(counts: Mapping[str, int] | None = None) -> str:
    """A raw profile of py-spy."""
    counts = counts or {
        "<module> (train.py:9);loop (train.py:5);__next__ (torch/utils/data/dataloader.py:630)": 80,
        "<module> (train.py:9);loop (train.py:6);forward (model.py:12)": 20,
    }
    return "".join(f"{stack} {count}\n" for stack, count in counts.items())
