// The verdict: who, why, what it is not, what it costs, what to do; every number read from its evidence.

import { post } from "./api.js";
import { badge, copyable, facts, h, into, link } from "./dom.js";
import { opener, showNumbers } from "./evidence.js";
import { ago, digits, quantity, ranks, seconds, share, when } from "./format.js";

const SMALL_WORLD = 2048;

export function heading(one) {
  return h("div", { class: "heading" },
    h("p", { class: "badges" }, badge(one.verdict, one.verdict), badge(one.class), badge(one.severity, one.severity), badge(one.status, one.status)),
    h("h1", {}, one.diagnosis?.headline ?? `${one.class} at ${one.scope}`));
}

export function verdict(one, hosts) {
  const told = one.diagnosis;
  const against = new Set((told?.ruled_out ?? []).flatMap((item) => item.claim_ids));
  const claims = (told?.claims ?? []).filter((claim) => !against.has(claim.id));
  return [
    facts([
      ["Suspect", one.suspects.length ? ranks(one.suspects) : one.scope],
      ["Where", hosts.slice(0, 4).join(", ") + (hosts.length > 4 ? ", …" : "")],
      ["Scope", one.scope],
      ["Steps", one.end_step === null ? `since ${digits(one.onset_step)}` : `${digits(one.onset_step)} to ${digits(one.end_step)}`],
      ["Run", link(`#/run/${encodeURIComponent(one.run)}`, `${one.run} · attempt ${one.attempt}`)],
      ["Victims", one.victims.length ? ranks(one.victims) : ""],
      ["Opened", one.opened_s ? `${when(one.opened_s)} (${ago(one.opened_s, window.argusPage.now_s)})` : ""],
      ["Confidence", told ? share(told.confidence) : ""],
    ]),
    claims.length ? h("h3", {}, "Why") : null,
    h("ul", {}, claims.map((claim) => h("li", {}, sentence(claim, told)))),
    told?.evidence.length ? opener("All numbers behind the decision", () => showNumbers("Numbers behind the decision", told.evidence)) : null,
    notIt(told), unseen(told), secondBest(told), before(told),
  ];
}

// A claim's text with its numbers looked up where they point to.
export function sentence(claim, told) {
  return claim.text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = claim.values[name];
    return value ? quantity(pointed(value, told), value.unit) : whole;
  });
}

function pointed(value, told) {
  if (value.evidence !== "cause") return NaN;
  return value.path.split("/").slice(1).reduce((at, key) => at?.[key], { evidence: told.evidence }) ?? NaN;
}

function notIt(told) {
  if (!told?.ruled_out.length) return null;
  const byId = new Map(told.claims.map((claim) => [claim.id, claim]));
  return [h("h3", {}, "What it is not"), h("ul", {}, told.ruled_out.map((item) => h("li", {}, h("strong", {}, item.fault_class), `: ${item.why}`,
    item.claim_ids.filter((id) => byId.has(id)).map((id) => h("span", { class: "quiet" }, ` ${sentence(byId.get(id), told)}`)))))];
}

function unseen(told) {
  if (!told?.missing_evidence.length) return null;
  return [h("h3", {}, "What was not seen"), h("ul", {}, told.missing_evidence.map((text) => h("li", {}, text)))];
}

function before(told) {
  if (!told?.past?.length) return null;
  return [h("h3", {}, "Before"), h("ul", {}, told.past.map((item) => h("li", {}, item.text)))];
}

function secondBest(told) {
  if (!told?.second_best) return null;
  const apart = told.separation;
  return [h("h3", {}, "Second best"), h("p", {}, h("strong", {}, told.second_best), apart ? `, if ${apart.second_if}; ${apart.first_if ? `the first, if ${apart.first_if}` : ""}` : ""),
    apart?.command ? copyable(apart.command) : null];
}

// A command with what is known put in, as words that a shell takes for nothing else: runs are named by others.
function filled(command, one) {
  const known = { INCIDENT: one.id, RUN: one.run, RANK: one.suspects[0] };
  return command.replace(/\$(INCIDENT|RUN|RANK)\b/g, (whole, name) => (known[name] === undefined ? whole : shellWord(String(known[name]))));
}

function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

export function actions(one) {
  const found = one.diagnosis?.remediation ?? [];
  if (!found.length) return h("p", { class: "quiet" }, "Nothing to do.");
  return [h("ol", { class: "actions" }, found.map((action) => h("li", {},
    h("p", {}, action.action),
    action.command ? copyable(filled(action.command, one)) : null,
    h("p", { class: "quiet" }, [action.owner, action.is_read_only ? "only looks" : `risk ${action.risk}`, action.target, action.verify_by && `verify: ${action.verify_by}`].filter(Boolean).join(" · "))))),
  h("p", { class: "quiet" }, "Proposals: Argus changes nothing on a cluster by itself.")];
}

export function cost(one, world) {
  const lost = one.cost;
  const result = h("div", {});
  const ask = h("button", { type: "button" }, "What if it were healthy?");
  const compute = () => into(result, post("/v1/tools/what_if:call", { arguments: { run: `${one.run}#${one.attempt}`, ranks: one.suspects } }), whatIf);
  ask.addEventListener("click", compute);
  if (!one.suspects.length) ask.hidden = true;
  else if (world <= SMALL_WORLD) {
    ask.hidden = true;
    compute();
  }
  return [facts([
    ["A step", `${seconds(lost.s_per_step)} (${share(lost.share_of_step)})`],
    ["So far", `${digits(lost.gpu_hours_so_far)} GPU-hours`],
    ["A day, if it lasts", `${digits(lost.gpu_hours_per_day)} GPU-hours`],
    ["Estimated by", lost.method],
    ["Ranks concerned", one.diagnosis?.impact ? digits(one.diagnosis.impact.affected_ranks) : ""],
  ]), ask, result];
}

function whatIf(page) {
  if (page.status !== "ok") return h("p", { class: "quiet" }, page.note || page.status);
  const gain = page.data;
  return [h("h3", {}, "If the suspects were healthy"), facts([
    ["Step", `${seconds(gain.step_s)} → ${seconds(gain.healthy_step_s)}`],
    ["Gain", `${seconds(gain.gain_s_per_step)} a step (${share(gain.gain_share)})`],
    ["A day", `${digits(gain.gpu_hours_per_day)} GPU-hours`],
    ["By", gain.method],
  ])];
}

export function story(one) {
  return h("ol", { class: "story" }, (one.events ?? []).map((event) => h("li", {}, `${when(event.at_s)} ${event.what}: ${event.verdict} ${event.fault_class}, ${event.severity}`)));
}

