// Asking the service: JSON, problems as errors, events as they come.

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
    this.isProblem = true;
  }
}

// What the service knows of who asks; a cookie's requests that change something must name its token.
export const session = { name: "", project: "", via: "open", csrf: null, scopes: [] };

export async function enter(key) {
  const told = key === undefined ? await get("/v1/session") : await post("/v1/session", { key });
  return Object.assign(session, told);
}

export async function leave() {
  await request("DELETE", "/v1/session");
  Object.assign(session, { name: "", via: "open", csrf: null });
}

// What the API has of a run: a run may be called x/report, and an encoded slash is part of its name. Other slashes go as
// they are: some proxies let no encoded one through.
const PART = /\/(?=(burst|charts|facts|findings|heartbeats|report|series|stacks|status|switch|topology|windows)(\/|$))/g;

export const quoted = (name) => name.split("/").map(encodeURIComponent).join("/").replace(PART, "%2F");

function query(params) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(params))
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") found.append(name, one);
  const text = found.toString();
  return text ? `?${text}` : "";
}

export function get(path, params = {}) {
  return request("GET", path + query(params)).then((answer) => answer.json());
}

export function post(path, body) {
  return request("POST", path, body).then((answer) => answer.json());
}

export function bytes(path) {
  return request("GET", path).then((answer) => answer.arrayBuffer());
}

async function request(method, path, body, { accept = "application/json", signal } = {}) {
  const headers = { accept };
  if (method !== "GET" && session.csrf) headers["argus-csrf"] = session.csrf;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path.replace(/^\//, ""), {
      method, headers, signal, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service does not answer. Is argus serve up?");
  }
  if (answer.ok) return answer;
  throw new Problem(answer.status, await detail(answer));
}

async function detail(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).detail || `The service answers ${answer.status}.`;
  } catch {
    return `The service answers ${answer.status}.`;
  }
}

// Server-sent events of an answer, each as {event, data}.
export async function* events(path, body, signal) {
  const answer = await request("POST", path, body, { accept: "text/event-stream", signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    kept += value ?? "";
    const parts = kept.split(/\r?\n\r?\n/);
    kept = parts.pop();
    for (const part of parts) {
      const told = parsed(part);
      if (told) yield told;
    }
    if (done) return;
  }
}

function parsed(part) {
  let event = "message";
  const data = [];
  for (const line of part.split(/\r?\n/)) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? { event, data: JSON.parse(data.join("\n")) } : null;
}
