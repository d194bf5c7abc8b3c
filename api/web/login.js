// The way in: a key is sent once and stays in a cookie that no script can read.

import { enter } from "./api.js";
import { fill, h } from "./dom.js";

export function showLogin(main, onIn) {
  const field = h("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", required: true });
  const told = h("p", { class: "problem", role: "alert" });
  const form = h("form", { class: "login card" },
    h("h1", {}, "This service needs a key"),
    h("p", {}, "Ask whoever runs it for one that may read. The browser gets a cookie for half a day; the key itself is not kept."),
    h("label", { for: "key" }, "Key"), field, h("button", { type: "submit" }, "Log in"), told);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    told.textContent = "";
    try {
      await enter(field.value);
      field.value = "";
      await onIn();
    } catch (error) {
      told.textContent = error.status === 401 || error.status === 403 ? "That key is not known here, or may not read." : error.message;
    }
  });
  fill(main, form);
  field.focus();
}
