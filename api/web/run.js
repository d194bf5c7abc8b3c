// One run: its attempts, step times, ranks, incidents, and what it loses.

import { get, quoted } from "./api.js";
import { chat } from "./chat.js";
import { add, badge, facts, fill, h, into, renew, section, table, viewed } from "./dom.js";
import { row as incidentRow } from "./incidents.js";
import { ago, digits, seconds, share, when } from "./format.js";
import { every } from "./live.js";
import { rankMap } from "./map.js";
import { dashboards } from "./perfetto.js";
import { phaseHeat, timeHeat } from "./ranks.js";
import { stepsChart } from "./steps.js";

const AGAIN_S = 15;

export async function show(place, name, { stillHere, mount }) {
  const path = `/v1/runs/${quoted(name)}`;
  const look = () => Promise.all([get(path), get("/v1/incidents", { run: name, limit: 20 }), get("/v1/page")]);
  const [run, incidents] = await look();
  const latest = run.attempts[0];
  const suspects = [...new Set(incidents.items.filter((one) => one.status === "open" && one.attempt === latest.attempt).flatMap((one) => one.suspects))].slice(0, 16);
  const about = { run: name, attempt: latest.attempt, suspects };
  const [steps, heat, phases, map, report, attempts, ask] = [["Step time", true], ["Ranks over time", true], ["Ranks by phase"], ["Where"], ["GPU-hours lost"], ["Attempts"], ["Ask", true]].map(([title, wide]) => {
    const part = section(title);
    part.element.classList.toggle("wide", Boolean(wide));
    return part;
  });
  const [top, list] = [h("div"), h("div", { class: "incidents" })];
  add(place, [h("h1", {}, name), top, list,
    h("div", { class: "grid" }, [steps, heat, phases, map, report, attempts, ask].map((part) => part.element))]);
  const tell = (now, found) => {
    renew(top, head(now.attempts[0]));
    renew(list, found.items.map(incidentRow));
    renew(attempts.body, attemptTable(now.attempts), dashboards(name, now.attempts[0].first_seen_s, now.attempts[0].last_seen_s));
  };
  tell(run, incidents);
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
  every(AGAIN_S, stillHere, async () => {
    const [now, found, service] = await look();
    window.argusPage = service;
    tell(now, found);
    if (now.attempts[0].attempt !== latest.attempt) offer(place);
  });
}

// The charts are of the attempt that they were drawn for, and stay under the reader's eyes.
function offer(place) {
  if (place.querySelector(".news")) return;
  const button = h("button", { type: "button", class: "news" }, "This run has begun anew: show its new attempt");
  button.addEventListener("click", () => dispatchEvent(new Event("hashchange")));
  place.prepend(button);
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
