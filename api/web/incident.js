// One incident: the verdict first, then everything it rests on, in the order a person would ask.

import { get, quoted } from "./api.js";
import { actions, cost, heading, story, verdict } from "./card.js";
import { chat } from "./chat.js";
import { add, facts, fill, h, into, section, table, viewed } from "./dom.js";
import { FINDING_HEADS, findingRow, numbers } from "./evidence.js";
import { flameGraph } from "./flame.js";
import { digits } from "./format.js";
import { every } from "./live.js";
import { kernelCurves } from "./kernels.js";
import { rankMap } from "./map.js";
import { captures, dashboards } from "./perfetto.js";
import { phaseHeat, timeHeat } from "./ranks.js";
import { stepsChart } from "./steps.js";

const MARGIN_WINDOWS = 20;
const AGAIN_S = 15;

export async function show(place, id, { stillHere, mount }) {
  const one = await get(`/v1/incidents/${encodeURIComponent(id)}`);
  const about = { run: one.run, attempt: one.attempt, suspects: one.suspects };
  const parts = sections();
  const { verdict: told, actions: todo, steps: course, ...others } = parts;
  const beside = h("div", { class: "column" }, todo.element, course.element);
  add(place, [heading(one), h("div", { class: "grid" }, told.element, beside, Object.values(others).map((part) => part.element))]);
  fill(parts.verdict.body, verdict(one, []));
  fill(parts.actions.body, actions(one));
  fill(parts.chat.body, chat({ incident: one.id }));
  fill(parts.story.body, story(one));
  mount();
  const planned = windowsOf(one);
  const upto = one.end_step === null ? null : (await planned).upto; // one that goes on reaches to the latest window
  const steps = into(parts.steps.body, stepsChart({ ...about, upto, since_step: one.onset_step }), (drawn) => drawn);
  const heat = timeHeat({ ...about, upto, onset: one.onset_step });
  fill(parts.heat.body, heat.element);
  const [plan] = await Promise.all([planned, steps, heat.done]);
  viewed("first");
  if (stillHere()) await rest(one, about, parts, plan);
  viewed("whole");
  every(AGAIN_S, stillHere, () => news(place, one));
}

// What changed is offered, not put under the reader's eyes.
async function news(place, one) {
  const now = await get(`/v1/incidents/${encodeURIComponent(one.id)}`);
  if (now.updated_s === one.updated_s || place.querySelector(".news")) return;
  const button = h("button", { type: "button", class: "news" }, "This incident has news: show it anew");
  button.addEventListener("click", () => dispatchEvent(new Event("hashchange")));
  place.prepend(button);
}

function sections() {
  const make = (title, wide) => {
    const part = section(title);
    part.element.classList.toggle("wide", Boolean(wide));
    return part;
  };
  return {
    verdict: make("Verdict"), actions: make("What to do"), steps: make("Step time"), heat: make("Ranks over time", true),
    phases: make("Ranks by phase"), map: make("Where"), kernels: make("Kernels", true), stacks: make("Stacks", true),
    cost: make("What it costs"), evidence: make("Evidence"), chat: make("Ask", true), findings: make("Findings", true),
    story: make("What happened to it"), links: make("Further"),
  };
}

// The windows around an incident: those up to its end, and some after. Where they cannot be had the verdict stands all the same.
async function windowsOf(one) {
  let last;
  try {
    last = (await get(`/v1/runs/${quoted(one.run)}/windows`, { attempt: one.attempt, status: "analysed", limit: 1 })).items[0];
  } catch (error) {
    if (!error.isProblem || error.status === 401) throw error;
  }
  if (!last) return { upto: null, window: null };
  const steps = Math.max(last.num_steps, 1);
  const end = one.end_step ?? last.first_step;
  const back = Math.max(0, Math.floor((last.first_step - end) / steps));
  const upto = Math.min(last.window, last.window - back + MARGIN_WINDOWS);
  const until = one.end_step === null ? last.window : Math.max(0, last.window - back - 1);
  return { upto, window: until };
}

async function rest(one, about, parts, plan) {
  const run = quoted(one.run);
  let world = Infinity;
  await Promise.all([
    into(parts.phases.body, phaseHeat({ ...about, window: plan.window }), (drawn) => drawn),
    into(parts.map.body, located(one, about, plan, parts), (drawn) => drawn),
    into(parts.kernels.body, kernelCurves({ ...about, upto: plan.window }), (drawn) => drawn),
    into(parts.stacks.body, flameGraph(about), (drawn) => drawn),
    into(parts.findings.body, get(`/v1/runs/${run}/findings`, { attempt: one.attempt, window: plan.window, limit: 50 }), (found) => table(FINDING_HEADS, found.items.map(findingRow), { empty: "No finding in its last window." })),
    into(parts.links.body, get(`/v1/runs/${run}`), (found) => {
      const attempt = found.attempts.find((each) => each.attempt === one.attempt);
      world = attempt?.world_size ?? Infinity;
      return [h("h3", {}, "Traces"), captures(one), h("h3", {}, "Dashboards"), dashboards(one.run, attempt?.first_seen_s, attempt?.last_seen_s)];
    }),
  ]);
  fill(parts.cost.body, cost(one, world));
  fill(parts.evidence.body, h("p", { class: "quiet" }, "The numbers the decision was taken on; what the agent looked up is beside its answers."),
    one.diagnosis ? numbers(one.diagnosis.evidence) : null,
    facts([["Findings behind it", digits(one.findings.length)], ["Fingerprint", h("code", {}, one.fingerprint)]]));
}

async function located(one, about, plan, parts) {
  const drawn = await rankMap({ ...about, victims: one.victims, window: plan.window });
  fill(parts.verdict.body, verdict(one, drawn.hosts));
  return drawn.nodes;
}
