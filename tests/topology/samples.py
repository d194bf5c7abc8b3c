"""One small sound file of every kind the loaders read."""

from __future__ import annotations

import json

TOPO_NEW = """\
\x1b[4m\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tNV18\tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tPIX\tSYS\t0-47,96-143\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tSYS\tPXB\t48-95\t1\t\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tSYS\tPXB\t48-95\t1\t\tN/A
NIC0\tPIX\tPIX\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPXB\tPXB\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
"""

TOPO_OLD = """\
        GPU0    GPU1    mlx5_0  mlx5_1  CPU Affinity
GPU0     X      NV1     PIX     PHB     0-19
GPU1    NV1      X      PHB     PIX     0-19
mlx5_0  PIX     PHB      X      PHB
mlx5_1  PHB     PIX     PHB      X
"""

NCCL_XML = """\
<system version="1">
 <cpu host_hash="0x8753" numaid="1" affinity="ffffffff" arch="x86_64" vendor="GenuineIntel">
  <pci busid="0000:bf:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
   <pci busid="0000:c2:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
    <gpu dev="3" sm="90" rank="3" gdr="1">
     <nvlink target="0000:f6:00.0" count="4" tclass="0x068000"/></gpu></pci>
   <pci busid="0000:c1:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
    <nic><net name="mlx5_5" dev="4" speed="200000" port="1" guid="0x2828" gdr="1"/></nic></pci>
  </pci>
 </cpu>
</system>
"""

TOPOLOGY_CONF = """\
# two leaves under one spine
SwitchName=leaf1 Nodes=n[0-1] LinkSpeed=400
SwitchName=leaf2 Nodes=n[2-3]
SwitchName=spine1 Switches=leaf[1-2]
"""

SCONTROL = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[0-1]
SwitchName=spine1 Level=1 LinkSpeed=1 Nodes=n[0-1] Switches=leaf1
"""

BLOCK_CONF = "BlockName=b1 Nodes=n[0-1]\nBlockName=b2 Nodes=n[2-3]\nBlockSizes=2,4\n"

SLURM_YAML = """\
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: spine1
        children: leaf[1-2]
      - switch: leaf1
        nodes: n[0-1]
      - switch: leaf2
        nodes: n[2-3]
- topology: nvl
  block:
    block_sizes: [2]
    blocks:
      - block: b1
        nodes: n[0-1]
"""

SLURM_ENV = """\
SLURM_JOB_ID=7
SLURM_JOB_NODELIST=n[0-1]
SLURM_TASKS_PER_NODE=8(x2)
SLURM_TOPOLOGY_ADDR=spine1.leaf1.n0
SLURM_TOPOLOGY_ADDR_PATTERN=switch.switch.node
SLURMD_NODENAME=n0
"""

HOSTFILE = "worker-1 slots=2\nworker-2 slots=2\n"

KUBERNETES = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "kind": "Node",
                "metadata": {
                    "name": f"n{i}",
                    "labels": {
                        "network.topology.nvidia.com/leaf": "leaf1",
                        "network.topology.nvidia.com/spine": "spine1",
                        "network.topology.nvidia.com/accelerator": "9f3e.1",
                        "topology.kubernetes.io/zone": "z1",
                        "nvidia.com/gpu.product": "NVIDIA-H100",
                    },
                },
            }
            for i in range(2)
        ]
        + [
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"job-{i}",
                    "labels": {
                        "jobset.sigs.k8s.io/jobset-name": "llama",
                        "jobset.sigs.k8s.io/job-global-index": str(i),
                    },
                },
                "spec": {
                    "nodeName": f"n{i}",
                    "containers": [{"resources": {"limits": {"nvidia.com/gpu": "4"}}}],
                },
                "status": {"phase": "Running"},
            }
            for i in range(2)
        ],
    }
)

KUBEFLOW = json.dumps(
    [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"p{i}",
                "labels": {
                    "training.kubeflow.org/job-name": "gpt",
                    "training.kubeflow.org/operator-name": "pytorchjob-controller",
                    "training.kubeflow.org/replica-type": "master" if i == 0 else "worker",
                    "training.kubeflow.org/replica-index": str(max(i - 1, 0)),
                },
            },
            "spec": {
                "nodeName": f"n{i}",
                "containers": [{"env": [{"name": "PET_NPROC_PER_NODE", "value": "2"}]}],
            },
        }
        for i in range(3)
    ]
)

OURS = """\
hosts:
  h-[0001-0002]:
    rack: r1
    zone: z1
    gpus: 4
    nics:
      mlx5_0: {gpus: [0, 1], leaf: leaf-a, rail: 0, gbps: 400}
      mlx5_1: {gpus: [2, 3], leaf: leaf-b, rail: 1, gbps: 400}
switches:
  leaf-a: {up: "spine-[1-2]", gbps: 800}
  leaf-b: {up: [spine-1, spine-2]}
ranks_per_host: 4
layout: {world_size: 8, tp: 2, pp: 2}
"""

CSV = """\
index, uuid, pci.bus_id, name
0, GPU-aaaa, 00000000:0F:00.0, NVIDIA H100 80GB HBM3
1, GPU-bbbb, 00000000:2D:00.0, NVIDIA H100 80GB HBM3
"""

LISTED = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb)\n"

DCGM = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-aaaa",pci_bus_id="00000000:0F:00.0",device="nvidia0",\
modelName="NVIDIA H100",Hostname="n0"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-bbbb",pci_bus_id="00000000:2D:00.0",device="nvidia1",\
modelName="NVIDIA H100",Hostname="n0"} 1980
"""

DISCOVERY = """\
1 GPU found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA A100-SXM4-40GB                                          |
|        | PCI Bus ID: 00000000:07:00.0                                         |
|        | Device UUID: GPU-aaaa                                                |
+--------+----------------------------------------------------------------------+
"""

RECORDS = "\n".join(
    json.dumps(
        {
            "run": "r",
            "attempt": 0,
            "rank": rank,
            "world_size": 2,
            "local_rank": rank,
            "host": "n0",
            "device": f"GPU-{'ab'[rank] * 4}",
            "groups": [{"name": "0", "desc": "default_pg", "ranks": [0, 1]}],
            "source": "live",
        }
    )
    for rank in range(2)
)

KINETO = json.dumps(
    {
        "schemaVersion": 1,
        "distributedInfo": {
            "backend": "nccl",
            "rank": 1,
            "world_size": 4,
            "pg_config": [
                {"pg_name": "0", "pg_desc": "default_pg", "ranks": []},
                {"pg_name": "1", "pg_desc": "mesh_tp", "ranks": "[0, 1]"},
                {"pg_name": "2", "pg_desc": "mesh_dp", "ranks": "[1, 2, ...]"},
            ],
        },
        "traceEvents": [],
    }
)

FLIGHT_RECORDER = json.dumps(
    {
        "version": "2.4",
        "pg_config": {
            "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
            "7": {"name": "7", "desc": "TENSOR_MODEL_PARALLEL_GROUP", "ranks": "[2, 3]"},
            "9": {"name": "9", "desc": "DATA_PARALLEL_GROUP", "ranks": "[1, 3]"},
        },
        "entries": [],
    }
)

MEGATRON_LOG = """\
using world size: 16, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2
------------------------ arguments ------------------------
  pipeline_model_parallel_size ..................... 2
  tensor_model_parallel_size ....................... 2
  world_size ....................................... 16
"""

TITAN_LOG = "[titan] \x1b[32mBuilding 3-D device mesh with ['pp', 'dp_shard', 'tp'], [2, 4, 2]\x1b[0m\n"

DEEPSPEED_LOG = (
    "Using topology: {ProcessCoord(pipe=0, data=0): 0, ProcessCoord(pipe=0, data=1): 1, "
    "ProcessCoord(pipe=1, data=0): 2, ProcessCoord(pipe=1, data=1): 3}\n"
)

SAMPLES: dict[str, tuple[str, str]] = {
    "topo-n0.txt": ("nvidia_smi_topo", TOPO_NEW),
    "topo-old.txt": ("nvidia_smi_topo", TOPO_OLD),
    "n0.xml": ("nccl_xml", NCCL_XML),
    "topology.conf": ("slurm_topology", TOPOLOGY_CONF),
    "scontrol.txt": ("slurm_topology", SCONTROL),
    "block.conf": ("slurm_topology", BLOCK_CONF),
    "slurm-topology.yaml": ("slurm_yaml", SLURM_YAML),
    "slurm.env": ("slurm_env", SLURM_ENV),
    "hostfile": ("hostlist", HOSTFILE),
    "nodes.json": ("kubernetes", KUBERNETES),
    "pods.json": ("kubernetes", KUBEFLOW),
    "topology.yaml": ("topology_yaml", OURS),
    "n0.csv": ("inventory", CSV),
    "n0.lst": ("inventory", LISTED),
    "dcgm.prom": ("inventory", DCGM),
    "discovery.txt": ("inventory", DISCOVERY),
    "layouts.jsonl": ("layouts", RECORDS),
    "rank-1.pt.trace.json": ("trace_metadata", KINETO),
    "nccl_trace_rank_3": ("trace_metadata", FLIGHT_RECORDER),
    "megatron.log": ("framework_log", MEGATRON_LOG),
    "titan.log": ("framework_log", TITAN_LOG),
    "deepspeed.log": ("framework_log", DEEPSPEED_LOG),
}
"""File name: the loader that must take it, and its content."""
