// All incidents, the open ones first.

import { get } from "./api.js";
import { badge, fill, h, renew, say } from "./dom.js";
import { every } from "./live.js";
import { ago, count, digits, share } from "./format.js";

const PAGE = 50;
const AGAIN_S = 15;

export async function show(place, _, { stillHere }) {
  const list = h("div", { class: "incidents" });
  const more = h("button", { type: "button" }, "Show more");
  const state = h("select", { "aria-label": "Status" }, ["all", "open", "resolved"].map((one) => h("option", {}, one)));
  const text = h("input", { type: "search", placeholder: "run, class or host", "aria-label": "Filter what is shown" });
  const trouble = h("p", { class: "problem", role: "alert" });
  let items = [];
  let total = 0;
  let numRuns = null;
  let turn = 0;

  const draw = () => {
    const wanted = text.value.trim().toLowerCase();
    const seen = items.filter((one) => !wanted || haystack(one).includes(wanted));
    more.hidden = items.length >= total;
    renew(list, seen.map(row), seen.length ? null : h("p", { class: "quiet" }, items.length ? "None of those shown." : calm(state.value, numRuns)));
  };
  const status = () => (state.value === "all" ? null : state.value);
  const countRuns = async (page) => {
    if (!page.total && !status()) numRuns = (await get("/v1/fleet", { limit: 1 })).num_runs;
  };
  const load = async (anew) => {
    const mine = ++turn;
    const page = await get("/v1/incidents", { limit: PAGE, offset: anew ? 0 : items.length, status: status() });
    await countRuns(page);
    if (mine !== turn) return;
    const known = new Set(anew ? [] : items.map((one) => one.id)); // a new incident moved all others down by one
    items = [...(anew ? [] : items), ...page.items.filter((one) => !known.has(one.id))];
    total = page.total;
    draw();
    say(count(list.querySelectorAll("a").length, "incident"));
  };
  const again = async () => {
    const mine = turn;
    const asked = { limit: Math.min(Math.max(items.length, PAGE), 1000), status: status() };
    const [page, service] = await Promise.all([get("/v1/incidents", asked), get("/v1/page")]);
    await countRuns(page);
    if (mine !== turn) return;
    window.argusPage = service;
    ({ items, total } = page);
    draw();
  };
  const tried = async (anew) => {
    trouble.textContent = "";
    try {
      await load(anew);
    } catch (error) {
      if (!error.isProblem) throw error;
      trouble.textContent = error.message;
    }
  };
  state.addEventListener("change", () => tried(true));
  text.addEventListener("input", () => {
    draw();
    say(count(list.querySelectorAll("a").length, "incident"));
  });
  more.addEventListener("click", () => tried(false));
  await load(true);
  fill(place, h("div", { class: "title" }, h("h1", {}, "Incidents"), state, text), trouble, list, more);
  every(AGAIN_S, stillHere, again);
}

function calm(state, numRuns) {
  if (state !== "all") return `No ${state} incident.`;
  return numRuns ? `No incident in ${count(numRuns, "run")}.` : "No run yet, so nothing is watched. Start one with: argus run -- torchrun …";
}

function haystack(one) {
  return [one.run, one.class, one.scope, one.verdict, one.diagnosis?.headline].join(" ").toLowerCase();
}

function row(one) {
  const cost = one.cost?.share_of_step ? `${share(one.cost.share_of_step)} of each step` : "";
  const hours = one.cost?.gpu_hours_so_far >= 0.05 ? `${digits(one.cost.gpu_hours_so_far)} GPU-hours so far` : "";
  return h("a", { class: `incident ${one.status} ${one.severity}`, href: `#/incident/${encodeURIComponent(one.id)}` },
    h("span", { class: "badges" }, badge(one.verdict, one.verdict), badge(one.class), badge(one.status, one.status)),
    h("strong", {}, one.diagnosis?.headline ?? `${one.class} at ${one.scope}`),
    h("span", { class: "quiet" }, [one.run, `since step ${digits(one.onset_step)}`, ago(one.opened_s, window.argusPage.now_s), cost, hours].filter(Boolean).join(" · ")));
}

export { row };
