// The fleet: what observing costs, what is not seen, which GPUs come back, which get worse day by day.

import { get } from "./api.js";
import { axis, colour, plot } from "./chart.js";
import { badge, fill, h, into, link, section, table } from "./dom.js";
import { digits, share, times, when } from "./format.js";

const DAY_S = 86400;
const LINES = ["line-1", "line-2", "line-3", "line-4", "line-5", "line-6", "line-7", "line-8"];

export async function show(place, _, { mount }) {
  const [costs, gaps, again, drift] = ["What observing costs", "What is not seen", "Repeat offenders", "Drift over days"].map((title) => section(title));
  for (const part of [costs, gaps, again, drift]) part.element.classList.add("wide");
  fill(place, h("h1", {}, "Fleet"), h("div", { class: "grid" }, [costs, gaps, again, drift].map((part) => part.element)));
  mount();
  const page = get("/v1/fleet", { limit: 30 });
  await Promise.all([
    into(costs.body, page, overhead),
    into(gaps.body, page, coverage),
    into(again.body, get("/v1/history/offenders", { limit: 20 }), offenders),
    into(drift.body, get("/v1/fleet/drift", { days: 28, limit: LINES.length }), drifts),
  ]);
}

const runLink = (run) => link(`#/run/${encodeURIComponent(run.run)}`, run.run);

// One row a run: its channels with the interval of what each adds to a step.
function overhead(page) {
  const rows = page.runs.filter((run) => run.overhead.length).map((run) => [
    runLink(run), run.overhead.map(added), run.channels_off.join(", ") || "none",
  ]);
  return table(["run", "what each channel adds to a step", "switched off"], rows, { empty: "No run has measured its overhead yet; that takes some hundred steps." });
}

const percent = (ratio) => `${ratio >= 1 ? "+" : ""}${((ratio - 1) * 100).toFixed(2)} %`;

const added = (one) => [badge(`${one.channel} ${percent(one.ratio)}`, one.low > 1.02 ? "slow" : ""), h("span", { class: "quiet" }, ` ${percent(one.low)} to ${percent(one.high)}, ${digits(one.n)} steps  `)];

function coverage(page) {
  const rows = page.runs.filter((run) => run.coverage_ratio !== null).map((run) => [
    runLink(run), badge(share(run.coverage_ratio), run.coverage_ratio < 0.95 ? "slow" : ""), digits(run.num_missing_ranks), digits(run.dropped), run.unseen.join("; "),
  ]);
  return table(["run", "rank-steps seen", "ranks missing", "records dropped", "not observed"], rows);
}

function offenders(found) {
  const rows = found.items.map((one) => [one.host, one.device, digits(one.runs), digits(one.bouts), digits(one.windows), when(one.since_s), when(one.until_s)]);
  return table(["host", "device", "runs", "bouts", "bad windows", "first", "last"], rows, { empty: "No GPU was bad so far." });
}

function drifts(found) {
  if (!found.units.length) return h("p", { class: "quiet" }, "A GPU needs windows on several days before a drift can be told.");
  const days = Array.from({ length: found.last_day - found.first_day + 1 }, (_, at) => (found.first_day + at) * DAY_S);
  const names = found.units.map((unit) => `${unit.host} ${unit.device}`);
  const data = [days, ...found.units.map((unit) => unit.ratio)];
  return [
    h("p", { class: "quiet" }, `Own work beside ranks that do the same, day by day; the ${names.length} that rose most of ${digits(found.num_compared)} GPUs and subjects compared.`),
    plot((width) => options(width, names), data, { label: "Own work of GPUs over days, beside their peers'" }),
    h("details", {}, h("summary", {}, "As a table"), table(["GPU", "first", "last"], found.units.map((unit, at) => {
      const seen = unit.ratio.filter((one) => one !== null);
      return [names[at], times(seen[0]), times(seen.at(-1))];
    }))),
  ];
}

function options(width, names) {
  return {
    height: 280,
    cursor: { y: false },
    axes: [axis(), axis({ size: 60, values: (_, ticks) => ticks.map((tick) => `${tick.toFixed(2)}×`) })],
    series: [{ label: "day", value: (_, day) => (day == null ? "—" : new Date(day * 1000).toISOString().slice(0, 10)) },
      ...names.map((label, at) => ({ label, stroke: colour(LINES[at]), width: 1.6, spanGaps: true, value: (_, one) => (one == null ? "—" : times(one)) }))],
  };
}
