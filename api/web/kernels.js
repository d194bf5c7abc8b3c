// Distributions of kernel durations: the suspects' lines against the band of their peers.

import { get, quoted } from "./api.js";
import { axis, colour, plot } from "./chart.js";
import { badge, h } from "./dom.js";
import { counted, ranks, seconds, times } from "./format.js";

const LINES = ["line-1", "line-2", "line-3", "line-4"];

export async function kernelCurves({ run, attempt, suspects, upto }) {
  if (!suspects.length) return h("p", { class: "quiet" }, "No rank is suspected, so there is nobody to compare.");
  const chart = await get(`/v1/runs/${quoted(run)}/charts/kernels`, { attempt, rank: suspects.slice(0, 4), upto });
  if (chart.note) return h("p", { class: "quiet" }, chart.note);
  if (!chart.kernels.length) return h("p", { class: "quiet" }, "No kernels of these ranks and of peers came in for one window.");
  return [
    h("p", { class: "quiet" }, `Window ${chart.window}: share of launches that took at most so long. ${ranks(chart.ranks)} against ${counted(chart.peers.length, "ranks")} of the same work; the costliest of ${counted(chart.num_kernels, "kernels")} first.`),
    h("div", { class: "small-multiples" }, chart.kernels.map(curve)),
  ];
}

function curve(kernel) {
  const names = Object.keys(kernel.suspects);
  const x = kernel.x_s.map(Math.log10);
  const data = [x, kernel.peers_low, kernel.peers_high, kernel.peers_mid, ...names.map((name) => kernel.suspects[name])];
  const kind = kernel.ratio > 1.05 ? "slow" : kernel.ratio < 0.95 ? "fast" : "";
  return h("figure", {},
    h("figcaption", {}, h("code", {}, kernel.kernel), " ", badge(times(kernel.ratio), kind), h("span", { class: "quiet" }, ` ${kernel.kind} · ${kernel.role}`)),
    plot((width) => options(width, names), data, { label: `Durations of ${kernel.kernel}: ${times(kernel.ratio)} of the peers'` }));
}

function options(width, names) {
  const hidden = { stroke: "transparent", points: { show: false } };
  return {
    height: 170,
    legend: { show: false },
    cursor: { y: false },
    scales: { x: { time: false }, y: { range: [0, 1] } },
    axes: [axis({ values: (_, ticks) => ticks.map((t) => seconds(10 ** t)), space: 60 }), axis({ size: 34, values: (_, ticks) => ticks.map((t) => `${Math.round(t * 100)}`) })],
    series: [
      {}, { label: "peers, lowest", ...hidden }, { label: "peers, highest", ...hidden },
      { label: "peers", stroke: colour("text-quiet"), width: 1.5, dash: [4, 3], points: { show: false } },
      ...names.map((name, at) => ({ label: `rank ${name}`, stroke: colour(LINES[at]), width: 2, points: { show: false } })),
    ],
    bands: [{ series: [2, 1], fill: colour("band") }],
  };
}
