// Keeps the page as it is on the server: parts come by /v1/events, and change what has changed.
"use strict";

const RETRY_MS = 3000;
const SILENT_MS = 10000;
const TOKEN = "pystreams-token";
const at = (id) => document.getElementById(id);
const known = {};
let heardMs = Date.now();  // When something has come from the application.
let askedMs = heardMs;
let lost = "";  // Why nothing comes any more.
let watching = null;

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

function say(text) {
  at("connection").textContent = text;
  at("connection").hidden = text === "";
}

function lasted(ms) {
  const seconds = Math.floor(ms / 1000);
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
}

// Tells, second by second, for how long what is shown is what was last known.
function tellWhetherLost() {
  const now = Date.now();
  const silentMs = now - heardMs;
  if (watching !== null && now - Math.max(heardMs, askedMs) > SILENT_MS) watching.abort();
  if (lost === "") return;
  const since = new Date(heardMs).toISOString().slice(11, 19);
  say(`Connection lost: ${lost}. Nothing has come since ${since}Z, ${lasted(silentMs)} ago: ` +
    "below is what was last known. Trying again.");
  showTitle();
}

function showTitle() {
  document.body.classList.toggle("lost", lost !== "");
  if (known.title !== undefined) document.title = lost ? `Not live · ${known.title}` : known.title;
}

function heard() {
  heardMs = Date.now();
  if (lost === "") return;
  lost = "";
  say("");
  showTitle();
}

// Makes `old` like `fresh` where they differ, so that selections and scrolled places stay.
function morph(old, fresh) {
  const before = [...old.childNodes];
  const after = [...fresh.childNodes];
  const alike = before.length === after.length &&
    before.every((node, index) => node.nodeName === after[index].nodeName);
  if (!alike) {
    const opened = [...old.querySelectorAll("details[open]")].map((each) => each.dataset.of);
    old.replaceChildren(...after);
    for (const each of old.querySelectorAll("details")) each.open = opened.includes(each.dataset.of);
    return;
  }
  before.forEach((node, index) => {
    const other = after[index];
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.nodeValue !== other.nodeValue) node.nodeValue = other.nodeValue;
      return;
    }
    for (const { name } of [...node.attributes]) {
      // What was folded open stays so, if it is still of the same.
      const keeps = name === "open" && node.dataset.of === other.dataset.of;
      if (!keeps && !other.hasAttribute(name)) node.removeAttribute(name);
    }
    for (const { name, value } of [...other.attributes]) {
      if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    morph(node, other);
  });
}

function show(parts) {
  for (const [id, html] of Object.entries(parts)) {
    if (known[id] === html) continue;
    known[id] = html;
    if (id === "title") {
      showTitle();
      continue;
    }
    const fresh = document.createElement("template");
    fresh.innerHTML = html;
    morph(at(id), fresh.content);
  }
  at("shown").hidden = false;
  if (at("token")) at("token").hidden = true;
}

function askForToken(text) {
  sessionStorage.removeItem(TOKEN);
  if (!at("token")) {
    say("A token is asked for now: load the page again.");
    return;
  }
  at("shown").hidden = true;
  at("token").hidden = false;
  at("refused").textContent = text;
}

async function watch() {
  askedMs = Date.now();
  watching = new AbortController();
  const signal = watching.signal;
  const answer = await fetch("v1/events", { headers: headers(), cache: "no-store", signal });
  if (answer.status === 401) {
    askForToken(sessionStorage.getItem(TOKEN) === null ? "" : "That is not the token.");
    return false;
  }
  if (!answer.ok) throw new Error((await answer.json()).detail);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    heard();
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) show(JSON.parse(event.slice("data: ".length)));
  }
}

async function keepWatching() {
  for (;;) {
    try {
      if (!(await watch())) return;
    } catch (error) {
      // Those of the browser say nothing to people.
      const isRefused = error.constructor === Error;
      lost = isRefused ? error.message : "the application can't be reached";
    } finally {
      watching = null;
    }
    tellWhetherLost();
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function ask(form) {
  const store = encodeURIComponent(form.elements.store.value);
  const key = form.elements.key.value;
  const path = key === "" ? "?limit=20" : `/${encodeURIComponent(key)}`;
  const shown = at("answer");
  try {
    const answer = await fetch(`v1/stores/${store}${path}`, { headers: headers() });
    const told = await answer.json();
    shown.className = answer.ok ? "" : "refusal";
    shown.textContent = answer.ok ? JSON.stringify(told, null, 2) : told.detail;
  } catch (error) {
    shown.className = "refusal";
    shown.textContent = `No answer: ${error.message}`;
  }
  shown.hidden = false;
}

document.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.id === "ask") {
    ask(event.target);
  } else {
    sessionStorage.setItem(TOKEN, event.target.elements.token.value);
    keepWatching();
  }
});

keepWatching();
setInterval(tellWhetherLost, 1000);
