// Questions to the agent: its steps as they happen, then the answer with what it rests on.

import { events, get } from "./api.js";
import { add, fill, h, say } from "./dom.js";
import { opener, showPage, withEvidence } from "./evidence.js";
import { count } from "./format.js";

const TOLD = new Set(["calling", "called", "asking", "repaired", "refused", "failed", "budget"]);

export function chat({ run = null, incident = null }) {
  const log = h("div", { class: "chat-log", role: "log", "aria-live": "polite" });
  const field = h("textarea", { rows: 2, id: "question", placeholder: "Why did it get slow? What should I do first?" });
  const send = h("button", { type: "submit" }, "Ask");
  const stop = h("button", { type: "button", class: "small" }, "Stop");
  stop.hidden = true;
  const form = h("form", { class: "chat-form" }, h("label", { for: "question" }, "Question"), field, h("div", { class: "controls" }, send, stop));
  const state = { conversation: null, running: null };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const question = field.value.trim();
    if (question && !state.running) ask(question);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { // else it ends a word of Chinese or Japanese
      event.preventDefault();
      form.requestSubmit();
    }
  });
  stop.addEventListener("click", () => state.running?.abort());

  async function ask(question) {
    const steps = h("ol", { class: "chat-steps" });
    const answer = h("div", { class: "chat-answer" }, h("p", { class: "loading" }, "Thinking…"));
    add(log, [h("p", { class: "chat-question" }, question), steps, answer]);
    field.value = "";
    state.running = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    try {
      const body = { question, run, incident, conversation: state.conversation, stream: true };
      let ended = false;
      for await (const { event, data } of events("/v1/chat", body, state.running.signal)) {
        if (event === "step") step(steps, data);
        if (event === "answer") {
          ended = true;
          state.conversation = data.conversation ?? state.conversation;
          await show(answer, data, { run, incident });
        }
        if (event === "error") throw new Error(data.detail ?? "The agent failed.");
      }
      if (!ended) throw new Error("The answer broke off; ask again.");
    } catch (error) {
      fill(answer, h("p", { class: "problem" }, error.name === "AbortError" ? "Stopped." : error.message));
    } finally {
      state.running = null;
      send.disabled = false;
      stop.hidden = true;
      if (document.activeElement === document.body) send.focus({ preventScroll: true }); // it was on one of the two
      log.scrollTop = log.scrollHeight;
    }
  }
  return [log, form];
}

function step(steps, data) {
  if (!TOLD.has(data.what)) return;
  const page = data.details?.evidence;
  add(steps, [h("li", {}, data.text, page ? [" → ", opener(page, () => showPage(page)), ` ${data.details.status ?? ""}`] : null)]);
  say(data.text);
}

async function show(place, data, about) {
  const answer = data.answer;
  const lines = answer.text ? [] : await triage(about);
  const unsure = (answer.num_unverified ?? 0) + (answer.unknown?.length ?? 0);
  fill(place,
    answer.text && answer.lead ? h("p", { class: "quiet" }, answer.lead) : null,
    answer.text && answer.doubt ? h("p", { class: "quiet" }, answer.doubt) : null,
    answer.text ? h("p", { class: "said" }, withEvidence(answer.text)) : null,
    answer.note ? h("p", { class: "quiet" }, answer.note) : null,
    lines.map((line) => h("p", { class: "said" }, withEvidence(line))),
    unsure ? h("p", { class: "quiet" }, `${count(unsure, "thing")} in it could not be verified and ${unsure === 1 ? "is" : "are"} marked.`) : null,
    answer.pages?.length ? h("p", { class: "quiet" }, "Rests on ", answer.pages.map((page) => [opener(page, () => showPage(page)), " "])) : null);
  say("The answer is there.");
}

// Where no model answers, the deterministic triage does.
async function triage(about) {
  try {
    return (await get("/v1/case", about)).why;
  } catch (error) {
    return [error.message];
  }
}
