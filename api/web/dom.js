// Building the page: everything that comes from data goes in as text, never as markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "style") for (const [key, set] of Object.entries(value)) element.style.setProperty(key, set);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

// The same for what is told again: where nothing changed, what is selected stays so, and a link keeps the focus.
export function renew(element, ...children) {
  const told = add(element.cloneNode(false), children);
  if (told.isEqualNode(element)) return;
  const held = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  element.replaceChildren(...told.childNodes);
  if (held) [...element.querySelectorAll("a")].find((one) => one.getAttribute("href") === held)?.focus({ preventScroll: true });
}

// Telling those who cannot see it that something changed.
export function say(text) {
  document.getElementById("said").textContent = text;
}

// How far the page is, for whoever measures or waits: "first" = what one looks at first, "whole" = everything.
export function viewed(part) {
  performance.mark(`argus-${part}-view`);
  document.documentElement.dataset.view = part;
}

export function link(href, ...children) {
  return h("a", { href }, ...children);
}

// A link to another place than this service: only what is http(s) may be one.
export function away(url, ...children) {
  if (!/^https?:\/\//i.test(url)) return h("span", {}, ...children);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, ...children);
}

export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

export function section(title, ...children) {
  const body = h("div", { class: "body" }, ...children);
  const id = `s-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  const element = h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), body);
  return { element, body };
}

export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export function table(heads, rows, { empty = "Nothing yet.", caption = "" } = {}) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  return h("div", { class: "scroll" }, h("table", {},
    caption ? h("caption", {}, caption) : null,
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));
}

export function copyable(command) {
  const button = h("button", { type: "button", class: "small" }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(command)) ? "Copied" : "Select it by hand";
    say(button.textContent);
  });
  return h("div", { class: "command" }, h("code", {}, command), button);
}

// The clipboard is only there on loopback and under TLS.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (error) {
    console.info("the clipboard is closed:", error.name);
    return false;
  }
}

const latest = new WeakMap();

// Show what a promise brings in `body`, or in one sentence why there is nothing; of several, what was asked for last.
export async function into(body, promise, draw) {
  latest.set(body, promise);
  let shown;
  try {
    shown = await draw(await promise);
  } catch (error) {
    if (!error.isProblem) console.error(error);
    if (error.status === 401) throw error;
    shown = h("p", { class: error.status === 404 ? "quiet" : "problem" }, error.message);
  }
  if (latest.get(body) === promise) fill(body, shown);
}
