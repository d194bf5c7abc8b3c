"""Kernels find their launch, phase, step and collective."""

from __future__ import annotations

import numpy as np

from argus.collectors.rank.cupti.decode import Decoded
from argus.collectors.rank.cupti.join import HELD_ROUNDS, Joiner
from argus.collectors.rank.cupti.kinds import CONCURRENT_KERNEL, LAUNCH, MEMCPY, WORK
from argus.collectors.rank.cupti.names import cxx_demangler, shortener
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.timeline import CallSpans, Timeline
from argus.collectors.records.events import Rows

OFFSET_NS = 1_000_000


class Bench:
    """A joiner with a timeline of one forward (step 4) and one backward (step 5)."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.timeline, self.calls = Timeline(), CallSpans()
        self.forward, self.backward = self.ring.intern("forward"), self.ring.intern("backward")
        self.group = self.ring.intern("17")
        self.timeline.put(OFFSET_NS + 100, step=4, phase=self.forward)
        self.timeline.put(OFFSET_NS + 200, step=4, phase=0)
        self.timeline.put(OFFSET_NS + 300, step=5, phase=self.backward)
        self.joiner = Joiner(
            ring=self.ring,
            timeline=self.timeline,
            calls=self.calls,
            shorten=shortener(cxx_demangler()),
            group_kind=lambda index: {self.group: "dp"}[index],
        )

    def texts(self, rows: Rows, column: str) -> list[str]:
        return [self.ring.names[int(index)] for index in rows[column]]


def work(*rows: tuple[int, ...], kind: int = CONCURRENT_KERNEL) -> Rows:
    """Rows of (start, end, correlation, name)."""
    out = np.zeros(len(rows), WORK)
    out["kind"] = kind
    for i, column in enumerate(("start", "end", "correlation", "name")):
        out[column] = [row[i] for row in rows]
    return out


def launches(*rows: tuple[int, int]) -> Rows:
    """Rows of (correlation, start)."""
    out = np.zeros(len(rows), LAUNCH)
    out["correlation"], out["start"] = [row[0] for row in rows], [row[1] for row in rows]
    out["end"] = out["start"] + 5
    return out


def test_a_kernel_belongs_to_the_phase_that_launched_it_not_the_one_it_ran_in() -> None:
    bench = Bench()
    bench.joiner.add(
        Decoded(work=work((350, 400, 9, 0)), launches=launches((8, 310), (9, 150)), names=("gemm",))
    )
    rows = bench.joiner.take(OFFSET_NS)
    assert rows["step"].tolist() == [4] and bench.texts(rows, "phase") == ["forward"]
    assert rows["launch_ns"].tolist() == [OFFSET_NS + 150] and rows["start_ns"].tolist() == [OFFSET_NS + 350]
    assert rows["dur_ns"].tolist() == [50] and bench.texts(rows, "role") == ["compute"]


def test_the_launch_may_come_in_a_later_buffer() -> None:
    bench = Bench()
    bench.joiner.add(Decoded(work=work((350, 400, 9, 0)), names=("gemm",)))
    assert len(bench.joiner.take(OFFSET_NS)) == 0
    bench.joiner.add(Decoded(launches=launches((9, 150))))
    assert bench.joiner.take(OFFSET_NS)["launch_ns"].tolist() == [OFFSET_NS + 150]


def test_without_its_launch_a_kernel_goes_by_its_own_start_after_some_rounds() -> None:
    bench = Bench()
    bench.joiner.add(Decoded(work=work((350, 400, 9, 0)), names=("gemm",)))
    taken = [bench.joiner.take(OFFSET_NS) for _ in range(HELD_ROUNDS + 1)]
    assert [len(rows) for rows in taken] == [0] * HELD_ROUNDS + [1]
    assert taken[-1]["launch_ns"].tolist() == [0] and bench.texts(taken[-1], "phase") == ["backward"]


def test_a_number_that_came_round_again_means_the_latest_launch() -> None:
    bench = Bench()
    bench.joiner.add(Decoded(launches=launches((9, 110), (9, 320))))
    bench.joiner.add(Decoded(work=work((350, 400, 9, 0)), names=("gemm",)))
    assert bench.joiner.take(OFFSET_NS)["launch_ns"].tolist() == [OFFSET_NS + 320]


def test_a_communication_kernel_knows_its_call() -> None:
    bench = Bench()
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    bench.calls.put(OFFSET_NS + 140, end_ns=OFFSET_NS + 160, group=bench.group, seq=12)
    bench.joiner.add(
        Decoded(
            work=work((350, 900, 1, 0), (360, 400, 2, 1), (361, 401, 3, 0)),
            launches=launches((1, 150), (2, 152), (3, 170)),
            names=(name, "gemm"),
        )
    )
    rows = bench.joiner.take(OFFSET_NS)
    assert bench.texts(rows, "role") == ["comm:dp", "compute", "comm:world"]
    assert bench.texts(rows, "group") == ["17", "", ""] and rows["seq"].tolist() == [12, 0, 0]
    assert bench.texts(rows, "name")[0] == "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def test_copies_have_a_role_of_their_own() -> None:
    bench = Bench()
    rows = work((350, 400, 1, 0), kind=MEMCPY)
    bench.joiner.add(Decoded(work=rows, launches=launches((1, 150)), names=("Memcpy HtoD",)))
    assert bench.texts(bench.joiner.take(OFFSET_NS), "role") == ["copy"]


def test_kernels_of_a_graph_share_the_graphs_launch() -> None:
    bench = Bench()
    rows = work((350, 360, 1, 0), (360, 380, 1, 0))
    bench.joiner.add(Decoded(work=rows, launches=launches((1, 150)), names=("k",)))
    assert bench.joiner.take(OFFSET_NS)["launch_ns"].tolist() == [OFFSET_NS + 150] * 2


def test_what_ran_before_the_first_phase_is_left_out_and_untimed_work_counted() -> None:
    bench = Bench()
    rows = work((10, 20, 1, 0), (0, 0, 2, 0), (350, 340, 3, 0))
    bench.joiner.add(Decoded(work=rows, launches=launches((1, 5), (2, 150), (3, 150)), names=("k",)))
    assert len(bench.joiner.take(OFFSET_NS)) == 0
    assert bench.ring.dropped() == {"kernel_untimed": 2}


def test_at_the_end_nothing_waits_any_longer() -> None:
    bench = Bench()
    bench.joiner.add(Decoded(work=work((350, 400, 9, 0)), names=("gemm",)))
    assert len(bench.joiner.take(OFFSET_NS, is_last=True)) == 1


def test_names_are_demangled_and_cut() -> None:
    shorten = shortener(cxx_demangler())
    mangled = "_ZN2at6native29vectorized_elementwise_kernelILi4EfEEviT0_"
    assert shorten(mangled) == "at::native::vectorized_elementwise_kernel"
    assert shorten("triton_poi_fused_add_0") == "triton_poi_fused_add_0"
    assert shorten("_Znot_mangled") == "_Znot_mangled"
