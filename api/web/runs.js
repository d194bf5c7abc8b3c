// All runs, the one heard of last first.

import { get } from "./api.js";
import { badge, fill, h, link, table } from "./dom.js";
import { ago, digits, seconds, share } from "./format.js";

export async function show(place) {
  const page = await get("/v1/fleet", { limit: 100 });
  const rows = page.runs.map((run) => [
    link(`#/run/${encodeURIComponent(run.run)}`, run.run), String(run.attempt), badge(run.status, run.status),
    run.world_size ? digits(run.world_size) : "", digits(run.num_hosts), run.highest_step === null ? "" : digits(run.highest_step),
    run.step_s === null ? "" : seconds(run.step_s), run.coverage_ratio === null ? "" : share(run.coverage_ratio),
    run.open_incidents ? badge(digits(run.open_incidents), "open") : "0", ago(run.last_seen_s, page.now_s),
  ]);
  fill(place, h("h1", {}, "Runs"),
    table(["run", "attempt", "status", "ranks", "hosts", "step", "step time", "coverage", "open incidents", "heard of"], rows,
      { empty: "No run yet. Start one with: argus run -- torchrun …" }),
    page.num_runs > page.runs.length ? h("p", { class: "quiet" }, `${digits(page.num_runs - page.runs.length)} older runs are not shown.`) : null);
}
