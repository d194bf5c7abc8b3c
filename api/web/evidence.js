// The drawer that shows what a number or a sentence rests on.

import { get, post } from "./api.js";
import { badge, copyable, facts, fill, h, into, table } from "./dom.js";
import { digits, quantity, ranks, seconds, share, times } from "./format.js";

const EVIDENCE = /\bev-[0-9a-f]{8,32}\b/g;
const MAX_DEPTH = 6;
let drawer = null;

function open(title) {
  if (!drawer) {
    drawer = h("dialog", { class: "drawer", "aria-labelledby": "drawer-title" });
    drawer.addEventListener("click", (event) => event.target === drawer && drawer.close());
    document.body.append(drawer);
  }
  const body = h("div", { class: "drawer-body" }, h("p", { class: "loading" }, "Loading…"));
  const close = h("button", { type: "button", class: "small" }, "Close");
  close.addEventListener("click", () => drawer.close());
  fill(drawer, h("div", { class: "title" }, h("h2", { id: "drawer-title" }, title), close), body);
  if (!drawer.open) drawer.showModal();
  return body;
}

export function opener(text, show) {
  const button = h("button", { type: "button", class: "evidence" }, text);
  button.addEventListener("click", show);
  return button;
}

// Text of the agent with every id of evidence turned into a button that opens it.
export function withEvidence(text) {
  const parts = [];
  let last = 0;
  for (const match of text.matchAll(EVIDENCE)) {
    parts.push(text.slice(last, match.index), opener(match[0], () => showPage(match[0])));
    last = match.index + match[0].length;
  }
  return [...parts, text.slice(last)];
}

export function showPage(id) {
  const body = open(`Evidence ${id}`);
  into(body, get(`/v1/evidence/${encodeURIComponent(id)}`), (page) => [
    facts([["Tool", page.tool], ["Status", badge(page.status)], ["Note", page.note], ["As of", asOf(page.as_of)], ["Arguments", json(page.args)]]),
    json(page.data), copyable(`argus tools evidence ${id}`),
  ]);
}

export function showFinding(id) {
  const body = open(`Finding ${id}`);
  into(body, post("/v1/tools/get_finding:call", { arguments: { finding: id } }), (page) => {
    if (page.status !== "ok" && page.status !== "gap") return h("p", { class: "quiet" }, page.note || page.status);
    return json(page.data);
  });
}

// The numbers that the decision itself rests on.
export function showNumbers(title, items) {
  fill(open(title), numbers(items));
}

export function numbers(items) {
  return table(["what", "value", "beside", "note"], items.map((item) => [
    item.name.replace(/_(s|us|ratio)$/, "").replaceAll("_", " "), quantity(item.value, unitOf(item)), item.baseline === null ? "" : quantity(item.baseline, unitOf(item)), item.note,
  ]), { empty: "No numbers." });
}

const unitOf = (item) => (item.name.endsWith("share") ? "share" : item.unit || (item.name.endsWith("_s") ? "s" : ""));

export function findingRow(one) {
  const who = one.ranks.length ? ranks(one.ranks, 4) : one.nodes.slice(0, 2).join(", ");
  return [
    opener(one.level, () => showFinding(one.id)), one.detector, one.kind, one.role, who, [one.phase, one.kernel, one.group].filter(Boolean).join(" · "),
    one.start_step === null ? "" : digits(one.start_step), one.ratio === null ? "" : times(one.ratio),
    one.effect_s_per_step === null ? "" : seconds(one.effect_s_per_step), one.share_of_step === null ? "" : share(one.share_of_step),
  ];
}

export const FINDING_HEADS = ["level", "detector", "kind", "role", "who", "where", "from step", "ratio", "a step", "of the step"];

function asOf(as) {
  if (!as) return "";
  return [as.run && `${as.run}#${as.attempt ?? ""}`, as.window !== null && `window ${as.window}`, as.step !== null && `step ${as.step}`].filter(Boolean).join(" · ");
}

// Any JSON as nested lists; long texts stay texts.
export function json(value, depth = 0) {
  if (value === null || value === undefined) return h("span", { class: "quiet" }, "—");
  if (typeof value !== "object") return String(value);
  if (depth >= MAX_DEPTH) return h("code", {}, JSON.stringify(value));
  if (Array.isArray(value)) {
    if (!value.length) return h("span", { class: "quiet" }, "none");
    if (value.every((one) => one === null || typeof one !== "object")) return value.join(", ");
    return h("ol", { class: "json" }, value.map((one) => h("li", {}, json(one, depth + 1))));
  }
  return h("dl", { class: "facts" }, Object.entries(value).map(([name, one]) => [h("dt", {}, name), h("dd", {}, json(one, depth + 1))]));
}
