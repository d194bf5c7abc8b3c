"""A communication group that is slow as a whole, whatever the framework calls it and whoever sent no kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from argus.analytics.finding import Finding
from argus.analytics.kernels.digest import digest_kernels
from argus.analytics.window import Window
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernel_names import group_kind
from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.layout import Topology, build
from tests.analytics.detectors.test_l3 import RANKS, findings, window

pytestmark = pytest.mark.slow

TP = "TENSOR_MODEL_PARALLEL_GROUP"
LONG = "of_the_machines_that_share_a_switch_and_a_rack"

DESCRIPTIONS = {
    # what the framework calls a group: its kind
    "mesh_tp": "tp",
    "EXPERT_MODEL_PARALLEL_GROUP": "ep",
    "EXPERT_DATA_PARALLEL_GROUP": "edp",
    TP: "tp",
    "DATA_PARALLEL_GROUP_WITH_CP": "dp_cp",
    "DATA_PARALLEL_GROUP_WITH_CP_AG": "dp_cp",
    "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP": "dp_cp_intra",  # longer than a role
    "mesh_dp_shard": "dp",
    "mesh_dp_shard_cp": "dp_cp",
    "mesh_fsdp": "dp",
    "ep_size_2": "ep",
    f"mesh_{LONG}": LONG[:40],
    "mesh_dim_0": "dp",  # by its pattern
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Three windows of a job cut into groups of `size`. `slow` maps ranks to ratios, `usual` (place,) has the ratio
    of each place in a group; ranks of `missing` send no kernels."""

    slow: Mapping[int, float]
    desc: str = TP
    size: int = 2
    missing: Collection[int] = ()
    usual: Sequence[float] = (1.0,)
    sends_names: bool = True

    @property
    def topology(self) -> Topology:
        return build(
            Layout(run="r", attempt=0, rank=rank, world_size=RANKS, host="h", groups=(self._group(rank),))
            for rank in range(RANKS)
        )

    def _group(self, rank: int) -> GroupInfo:
        first = rank - rank % self.size
        return GroupInfo(name=str(first), desc=self.desc, ranks=tuple(range(first, first + self.size)))

    def window(self, number: int) -> Window:
        rng = np.random.default_rng(number)
        pairs = (("ncclDevKernel_AllToAll", f"comm:{group_kind(self.desc)}"),)
        summaries = []
        for rank in sorted(set(range(RANKS)) - set(self.missing)):
            typical = 1e5 * self.slow.get(rank, 1.0) * self.usual[rank % len(self.usual)]
            durations = np.rint(typical * np.exp(0.02 * rng.normal(size=200)))
            summaries.append(summarise(np.zeros(200, np.int64), durations, pairs=pairs, rank=rank))
        blob = encode(summaries, names=None if self.sends_names else {})
        return replace(window(number, (blob,)), topology=self.topology)

    def findings(self) -> tuple[Finding, ...]:
        return findings([self.window(number) for number in range(3)])

    def groups(self) -> list[tuple[str | None, tuple[int, ...]]]:
        """Slow groups that are told, with their ranks."""
        return [(one.group, one.ranks) for one in self.findings() if one.kind == "group_shift"]


@pytest.mark.parametrize("desc", DESCRIPTIONS)
def test_a_slow_group_is_told_by_any_frameworks_name_for_it(desc: str) -> None:
    assert Case(desc=desc, slow={4: 3.0, 5: 3.0}).groups() == [(f"{DESCRIPTIONS[desc]}/2", (4, 5))]
    assert Case(desc=desc, slow={}).groups() == []


def test_a_name_of_many_groups_without_one_is_no_kind() -> None:
    assert build([Layout(run="r", attempt=0, rank=0, world_size=2)]).roles == {}
    assert Case(desc="", slow={4: 3.0, 5: 3.0}).groups() == []


@pytest.mark.parametrize("missing", [4, 5, 7, 0])
def test_a_slow_group_is_told_though_a_rank_sent_no_kernels(missing: int) -> None:
    case = Case(size=4, slow=dict.fromkeys(range(4, 8), 2.0), missing=(missing,))
    assert case.groups() == [("tp/1", (4, 5, 6, 7))]


def test_a_member_of_whom_nothing_is_known_may_be_whom_the_others_wait_for() -> None:
    case = Case(size=4, slow=dict.fromkeys(range(4, 8), 2.0), missing=(5,))
    windows = [case.window(number) for number in range(3)]
    silent = np.isin(windows[-1].ranks, (5,))[:, None]
    windows[-1] = replace(windows[-1], step_s=np.where(silent, np.nan, windows[-1].step_s))
    assert [one for one in findings(windows) if one.kind == "group_shift"] == []


@pytest.mark.parametrize("missing", range(4))
def test_a_member_that_is_missing_makes_its_group_no_slow_one(missing: int) -> None:
    stages = (1.0, 4.0, 9.0, 30.0)
    assert Case(size=4, slow={}, missing=(missing,), usual=stages).groups() == []


def test_of_a_group_of_two_one_is_no_group() -> None:
    assert Case(slow={5: 3.0}).groups() == Case(slow={4: 3.0, 5: 3.0}, missing=(4,)).groups() == []


def test_all_of_a_small_group_must_be_slow() -> None:
    assert Case(size=4, slow={4: 3.0, 5: 3.0, 6: 3.0}).groups() == []
    assert len(Case(size=4, slow=dict.fromkeys(range(4, 8), 3.0)).groups()) == 1


def test_a_role_nobody_has_defined_yet_accuses_nobody() -> None:
    case = Case(slow={5: 1.6}, sends_names=False)
    digest = digest_kernels(case.window(0))
    assert digest is not None and digest.found is not None and not digest.found.is_compute.any()
    assert {one.role for one in case.findings()} <= {"victim"}
