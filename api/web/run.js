// One run: its attempts, step times, ranks, incidents, and what it loses.

import { get, quoted } from "./api.js";
import { chat } from "./chat.js";
import { add, badge, facts, fill, h, into, section, table, viewed } from "./dom.js";
import { row as incidentRow } from "./incidents.js";
import { ago, digits, seconds, share, when } from "./format.js";
import { rankMap } from "./map.js";
import { dashboards } from "./perfetto.js";
import { phaseHeat, timeHeat } from "./ranks.js";
import { stepsChart } from "./steps.js";

export async function show(place, name, { stillHere, mount }) {
  const path = `/v1/runs/${quoted(name)}`;
  const [run, incidents] = await Promise.all([get(path), get("/v1/incidents", { run: name, limit: 20 })]);
  const latest = run.attempts[0];
  const suspects = [...new Set(incidents.items.filter((one) => one.status === "open" && one.attempt === latest.attempt).flatMap((one) => one.suspects))].slice(0, 16);
  const about = { run: name, attempt: latest.attempt, suspects };
  const [steps, heat, phases, map, report, attempts, ask] = [["Step time", true], ["Ranks over time", true], ["Ranks by phase"], ["Where"], ["GPU-hours lost"], ["Attempts"], ["Ask", true]].map(([title, wide]) => {
    const part = section(title);
    part.element.classList.toggle("wide", Boolean(wide));
    return part;
  });
  add(place, [h("h1", {}, name), head(latest), h("div", { class: "incidents" }, incidents.items.map(incidentRow)),
    h("div", { class: "grid" }, [steps, heat, phases, map, report, attempts, ask].map((part) => part.element))]);
  fill(attempts.body, attemptTable(run.attempts), dashboards(name, latest.first_seen_s, latest.last_seen_s));
  fill(ask.body, chat({ run: name }));
  mount();
  const time = timeHeat(about);
  fill(heat.body, time.element);
  await Promise.all([into(steps.body, stepsChart(about), (drawn) => drawn), time.done]);
  viewed("first");
  if (!stillHere()) return;
  await Promise.all([
    into(phases.body, phaseHeat(about), (drawn) => drawn),
    into(map.body, rankMap(about), (drawn) => drawn.nodes),
    run.attempts.some((one) => one.windows) ? into(report.body, get(`${path}/report`), losses) : fill(report.body, h("p", { class: "quiet" }, "No window was analysed yet.")),
  ]);
  viewed("whole");
}

function head(latest) {
  return facts([
    ["Status", badge(latest.status, latest.status)],
    ["Ranks", latest.world_size ? digits(latest.world_size) : ""],
    ["Step", latest.highest_step === null ? "" : digits(latest.highest_step)],
    ["Heard of", ago(latest.last_seen_s, window.argusPage.now_s)],
    ["Windows analysed", digits(latest.windows)],
  ]);
}

function attemptTable(attempts) {
  return table(["attempt", "status", "began", "ended", "step", "windows"], attempts.map((one) => [
    String(one.attempt), badge(one.status, one.status), when(one.first_seen_s), one.ended_s ? `${when(one.ended_s)} ${one.end_reason ?? ""}` : "",
    one.highest_step === null ? "" : digits(one.highest_step), digits(one.windows),
  ]));
}

function losses(found) {
  const causes = Object.entries(found.by_class).map(([name, loss]) => [name, digits(loss.hours), share(loss.share)]);
  return [h("p", {}, found.paragraph), table(["cause", "GPU-hours", "of the run"], [...causes, ["unexplained", digits(found.unexplained.hours), share(found.unexplained.share)]]),
    facts([["Usual step", seconds(found.baseline_s)], ["Steps told", digits(found.num_steps)]])];
}
