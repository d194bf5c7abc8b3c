// The page's frame: which page is shown, the theme, the way in where the service asks for a key.

import { enter, get, leave, session } from "./api.js";
import { fill, h, say } from "./dom.js";
import { showLogin } from "./login.js";
import { fresh } from "./live.js";
import * as fleet from "./fleet.js";
import * as incident from "./incident.js";
import * as incidents from "./incidents.js";
import * as run from "./run.js";
import * as runs from "./runs.js";

const PAGES = { incidents, incident, runs, run, fleet };
const THEMES = ["auto", "light", "dark"];
const main = document.getElementById("main");
let shown = 0;

// A link typed by hand may hold a bare %.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function show() {
  const [, asked, ...rest] = location.hash.slice(1).split("/");
  const name = Object.hasOwn(PAGES, asked) ? asked : "incidents";
  const page = PAGES[name];
  const turn = ++shown;
  delete document.documentElement.dataset.view;
  for (const tab of document.querySelectorAll("nav a")) {
    if (tab.dataset.page.startsWith(name.replace(/s$/, ""))) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  fill(main, h("p", { class: "loading" }, "Loading…"));
  const place = h("div", { class: "page" });
  const stillHere = () => turn === shown;
  fresh();
  try {
    await service();
    await page.show(place, rest.map(decoded).join("/"), { stillHere, mount: () => mount(place, turn) });
  } catch (error) {
    if (!stillHere()) return;
    if (error.status === 401) return showLogin(main, show);
    if (!error.isProblem) console.error(error);
    fill(main, h("p", { class: "problem", role: "alert" }, error.message));
    return;
  }
  mount(place, turn);
}

function mount(place, turn) {
  if (turn !== shown || place.isConnected) return;
  fill(main, place);
  const title = place.querySelector("h1")?.textContent ?? "Argus";
  document.title = `${title} · Argus`;
  say(title);
}

// Asked anew for each page: it holds the service's time, by which ages are told, and another tab may have logged in
// as somebody else: all tabs have one cookie.
async function service() {
  const [, page] = await Promise.all([enter(), get("/v1/page")]);
  document.getElementById("who").textContent = session.via === "open" ? "" : [session.name, session.project === "default" ? "" : session.project].filter(Boolean).join(" · ");
  document.getElementById("leave").hidden = session.via !== "session";
  window.argusPage = page;
  const notice = document.getElementById("notice");
  notice.textContent = page.notice;
  notice.hidden = !page.notice;
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${theme}`;
  button.dataset.theme = theme;
  localStorage.setItem("argus-theme", theme);
  dispatchEvent(new Event("argus-theme"));
}

// A link's own way would change the address, and with it the page that is shown.
document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("theme").addEventListener("click", (event) => {
  const next = (THEMES.indexOf(event.target.dataset.theme) + 1) % THEMES.length;
  setTheme(THEMES[next]);
});
document.getElementById("leave").addEventListener("click", async () => {
  await leave();
  await show();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("argus-theme")));
addEventListener("hashchange", () => show().then(() => main.focus({ preventScroll: true })));
setTheme(THEMES.includes(localStorage.getItem("argus-theme")) ? localStorage.getItem("argus-theme") : "auto");
show();
