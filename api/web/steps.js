// Step times of a run with change points, incidents and the steps that are known to be different.

import { get, quoted } from "./api.js";
import { axis, colour, plot } from "./chart.js";
import { h, link, table } from "./dom.js";
import { digits, ranks, seconds, times } from "./format.js";

const LINES = ["line-1", "line-2", "line-3", "line-4"];
const MAX_SHOWN = 4;

export async function stepsChart({ run, attempt, suspects = [], upto = null, windows = 120, since_step = null }) {
  const shown = suspects.slice(0, MAX_SHOWN);
  const chart = await get(`/v1/runs/${quoted(run)}/charts/steps`, { attempt, rank: shown, upto, windows, since_step });
  if (!chart.window.length) return h("p", { class: "quiet" }, "No window was analysed yet.");
  const names = ["Job, median step", "slowest step", ...shown.map((rank) => `rank ${rank}`)];
  const columns = [chart.job_s, chart.slowest_s, ...shown.map((rank) => chart.ranks[rank])];
  const data = [chart.first_step, chart.low_s, chart.high_s, ...columns];
  const label = `Step times of ${run} from step ${chart.first_step[0]}`;
  return [
    plot((width) => options(width, names, chart), data, { label }),
    legend(chart),
    asTable(chart, names, columns),
  ];
}

function options(width, names, chart) {
  const line = (label, stroke, extra = {}) => ({ label, stroke, width: 1.6, points: { size: 4 }, value: (_, v) => (v == null ? "—" : seconds(v)), ...extra });
  const strokes = [colour("text"), colour("text-quiet"), ...LINES.map(colour)];
  return {
    height: Math.max(220, Math.min(320, width * 0.35)),
    cursor: { y: false },
    scales: { x: { time: false } },
    axes: [axis({ label: "step", labelSize: 18, values: (_, ticks) => ticks.map((t) => digits(t)) }), axis({ size: 66, values: (_, ticks) => ticks.map(seconds) })],
    series: [
      { label: "from step", value: (_, v) => (v == null ? "—" : digits(v)) },
      line("ranks, 5 %", "transparent", { show: true, points: { show: false } }),
      line("ranks, 95 %", "transparent", { show: true, points: { show: false } }),
      ...names.map((name, at) => line(name, strokes[at], at === 1 ? { dash: [4, 4], width: 1 } : {})),
    ],
    bands: [{ series: [2, 1], fill: colour("band") }],
    hooks: { drawClear: [(u) => backdrop(u, chart)], draw: [(u) => changes(u, chart)] },
  };
}

function stretch(u, from, to, fillStyle) {
  const left = Math.max(u.valToPos(from, "x", true), u.bbox.left);
  const right = Math.min(u.valToPos(to, "x", true), u.bbox.left + u.bbox.width);
  if (right < u.bbox.left || left > u.bbox.left + u.bbox.width) return;
  u.ctx.fillStyle = fillStyle;
  u.ctx.fillRect(left, u.bbox.top, Math.max(right - left, 2), u.bbox.height);
}

function backdrop(u, chart) {
  const last = chart.first_step.at(-1) + chart.num_steps.at(-1);
  for (const mark of chart.marks) stretch(u, mark.first_step, mark.last_step + 1, colour("mark"));
  for (const one of chart.incidents) stretch(u, one.onset_step, one.end_step ?? last, colour(one.status === "open" ? "incident-open" : "incident-over"));
}

function changes(u, chart) {
  u.ctx.save();
  u.ctx.strokeStyle = colour("suspect");
  u.ctx.lineWidth = devicePixelRatio;
  u.ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  for (const change of chart.changes) {
    const x = u.valToPos(change.step, "x", true);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
  }
  u.ctx.restore();
}

function legend(chart) {
  const kinds = [...new Set(chart.marks.map((mark) => mark.what))];
  return h("div", { class: "legend" },
    chart.changes.length ? h("span", {}, h("span", { class: "swatch change" }), "change points: ",
      chart.changes.slice(0, 6).map((one, at) => `${at ? ", " : ""}${one.kind} at step ${digits(one.step)}${one.ratio ? ` (${times(one.ratio)})` : ""}`)) : null,
    chart.incidents.length ? h("span", {}, h("span", { class: "swatch incident-open" }), "incidents: ",
      chart.incidents.slice(0, 6).map((one) => [link(`#/incident/${encodeURIComponent(one.id)}`, one.class), ` ${ranks(one.suspects, 3)} `])) : null,
    kinds.length ? h("span", {}, h("span", { class: "swatch mark" }), `known steps of rank ${chart.marks_of}: ${kinds.join(", ")}`) : null);
}

function asTable(chart, names, columns) {
  const recent = chart.first_step.map((_, at) => at).slice(-20).reverse();
  const rows = recent.map((at) => [digits(chart.first_step[at]), ...columns.map((column) => (column[at] === null ? "—" : seconds(column[at])))]);
  return h("details", {}, h("summary", {}, "The last windows as a table"), table(["from step", ...names], rows));
}
