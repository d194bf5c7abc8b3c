// Ranks over time, ranks over phases, and where ranks are: three views of who stands out.

import { get, quoted } from "./api.js";
import { scaleLegend } from "./chart.js";
import { h, into } from "./dom.js";
import { digits, seconds, unpacked } from "./format.js";
import { heatMap, rowRanks } from "./heat.js";

const NAMES = { own: "all own work", step: "whole step" };
const ROWS = 256;
const WIDE = 512;
const WINDOWS = 60;

// Rank × time. `onset` is the step at which an incident began.
export function timeHeat({ run, attempt, suspects = [], upto = null, metric = "own", onset = null }) {
  const body = h("div", {}, h("p", { class: "loading" }, "Loading…"));
  const state = { metric, first: null, last: null };
  const load = () => into(body, ask(), (chart) => {
    if (chart.note) return h("p", { class: "quiet" }, chart.note);
    const codes = unpacked(chart.codes);
    const columns = chart.window.map((_, at) => ({
      tick: digits(chart.first_step[at]),
      label: `steps ${digits(chart.first_step[at])}–${digits(chart.first_step[at] + chart.num_steps[at] - 1)}`,
    }));
    if (!columns.length) return h("p", { class: "quiet" }, "No window was analysed yet.");
    const at = onset === null ? -1 : chart.first_step.findIndex((first, i) => onset < first + chart.num_steps[i] && onset >= first);
    return [controls(state, chart.metrics, load), heatMap({
      chart, codes, columns, suspects, columnMarks: at >= 0 ? [at] : [],
      label: `${NAMES[state.metric] ?? state.metric} of ranks over windows, beside ${chart.beside}`,
      onRow: chart.ranks_per_row > 1 ? (row) => zoom(state, chart, row, load) : null,
    }), h("p", { class: "quiet" }, `Each cell beside ${chart.beside}.`, chart.ranks_per_row > 1 ? ` ${chart.ranks_per_row} ranks a row, the one that stands out most is shown; choose a row to see them.` : ""), scaleLegend()];
  });
  const ask = () => get(`/v1/runs/${quoted(run)}/charts/heat`, {
    attempt, metric: state.metric, upto, windows: WINDOWS, rows: ROWS, first_rank: state.first, last_rank: state.last,
  });
  return { element: body, done: load() };
}

function zoom(state, chart, row, load) {
  const [first, last] = rowRanks(chart, row);
  const around = Math.max(0, Math.floor((ROWS - (last - first + 1)) / 2));
  state.first = Math.max(0, first - around);
  state.last = state.first + ROWS - 1;
  load();
}

function controls(state, metrics, load) {
  const choice = h("select", { "aria-label": "What is compared" }, metrics.map((one) => h("option", { value: one, selected: one === state.metric }, NAMES[one] ?? one)));
  choice.addEventListener("change", () => {
    state.metric = choice.value;
    load();
  });
  const back = h("button", { type: "button", class: "small" }, "All ranks");
  back.hidden = state.first === null;
  back.addEventListener("click", () => {
    state.first = state.last = null;
    load();
  });
  return h("div", { class: "controls" }, choice, back);
}

// Rank × phase of one window.
export async function phaseHeat({ run, attempt, suspects = [], window = null }) {
  const around = suspects.length ? Math.max(0, suspects[0] - WIDE / 2) : 0;
  const chart = await get(`/v1/runs/${quoted(run)}/charts/phases`, { attempt, window, rows: ROWS, first_rank: around, last_rank: around + WIDE - 1 });
  if (chart.note) return h("p", { class: "quiet" }, chart.note);
  if (!chart.phases.length) return h("p", { class: "quiet" }, "The job told no phases in this window.");
  const codes = unpacked(chart.codes);
  const columns = chart.phases.map((one) => ({
    tick: one.phase,
    label: `${one.phase}${one.is_comm ? " (communication)" : ", own work"}, usually ${one.median_s === null ? "not seen" : seconds(one.median_s)}`,
  }));
  return [
    h("p", { class: "quiet" }, `Steps ${digits(chart.first_step)}–${digits(chart.first_step + chart.num_steps - 1)}. In communication the last to come has the shortest time.`),
    heatMap({ chart, codes, columns, suspects, label: "Phases of ranks beside their peers" }),
  ];
}
