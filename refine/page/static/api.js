// Requests to the page's own server, with the page's key where it has one.

const BASE = "/page/api";
let key = sessionStorage.getItem("refine-page-key");

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function setKey(value) {
  key = value;
  sessionStorage.setItem("refine-page-key", value);
}

// Follow a one-time link, which the server printed at its start: its token is exchanged for the page's key.
const token = new URLSearchParams(location.hash.slice(1)).get("link");
if (token) history.replaceState(null, "", location.pathname + location.search);
const followed = token && fetch(`${BASE}/link`, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ link: token }),
}).then(async (response) => { if (response.ok) setKey((await response.json()).key); });

async function request(path, { query, body, signal, keepalive } = {}) {
  await followed;
  const parameters = new URLSearchParams(query ?? {});
  const response = await fetch(`${BASE}${path}${parameters.size ? `?${parameters}` : ""}`, {
    method: body ? "POST" : "GET",
    headers: { ...(key && { authorization: `Bearer ${key}` }), ...(body && { "content-type": "application/json" }) },
    body: body && JSON.stringify(body),
    signal,
    keepalive,
  });
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Refused(response.status, told.error ?? `the server answered ${response.status}`);
}

export const get = async (path, query, signal) => (await request(path, { query, signal })).json();
export const post = async (path, body, options) => (await request(path, { ...options, body })).json();
export const blob = async (path, query) => (await request(path, { query })).blob();

// Yield the JSON objects of a response that has one on each line, as they come.
export async function* lines(path, options) {
  const response = await request(path, options);
  let rest = "";
  for await (const chunk of chunks(response.body.pipeThrough(new TextDecoderStream()).getReader())) {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

async function* chunks(reader) {
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
