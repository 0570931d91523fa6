// Every page works without this script. It refreshes pages, searches while the visitor types, and copies text. It uses
// no framework, because a framework would be larger than all pages together, and would need a build step.

const PAUSE_MS = 250; // one refresh for a group of events
const CALLS_PAUSE_MS = 1000; // one refresh for the calls of a second: a busy gateway sends such events all the time
const PENDING_MS = 1000; // time until values that were still being computed are requested again
const THEMES = ["", "dark", "light"];

function theme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const showName = () => {
    const name = root.dataset.theme || "system";
    button.textContent = `◐ ${name}`;
    button.setAttribute("aria-label", `Theme: ${name}`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
    // a cookie, not local storage: the server writes the theme into the page, so that no other theme flashes up
    document.cookie = `fairlead_theme=${root.dataset.theme}; path=/console; max-age=31536000; samesite=strict`;
    showName();
  });
  showName();
}

// Requests the page again, and replaces the elements that have an id and `data-live`.
async function refresh(url = location.href) {
  const answer = await fetch(url, { headers: { accept: "text/html" } });
  if (answer.redirected && new URL(answer.url).pathname.startsWith("/console/sign-in")) {
    location.assign(answer.url);
    return;
  }
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const fresh = page.getElementById(old.id);
    if (!fresh || fresh.innerHTML === old.innerHTML || old.contains(document.activeElement)) continue;
    old.replaceChildren(...fresh.childNodes);
    if (!fresh.hasAttribute("data-live")) old.removeAttribute("data-live"); // the element will not change any more
  }
  document.dispatchEvent(new CustomEvent("fairlead:refreshed"));
}

function live() {
  const shown = document.querySelectorAll("[data-live][id]");
  if (!shown.length) return;
  const sign = document.getElementById("live");
  let waiting = 0;
  // an event does not postpone a refresh that is due: on a busy gateway, the pause between events may never be long enough
  const soon = (pause) => {
    waiting ||= setTimeout(() => { waiting = 0; refresh().catch(() => {}); }, pause);
  };
  let source = null;
  let followed = "";
  const follow = () => {
    const own = document.querySelector("[data-live-events]");
    const url = own ? own.dataset.liveEvents : "/console/events";
    if (url === followed) return;
    source?.close();
    followed = url;
    source = new EventSource(url);
    source.onopen = () => { sign.hidden = false; sign.className = "live"; sign.textContent = "live"; };
    source.onerror = () => {
      sign.className = "live lost";
      sign.textContent = "reconnecting";
      // browsers do not reopen a stream whose session has ended; the refresh then leads to the sign-in
      if (source.readyState === EventSource.CLOSED) soon(PAUSE_MS);
    };
    for (const type of ["server.connected", "server.disconnected", "tools.changed", "catalog.swapped"]) {
      source.addEventListener(type, () => soon(PAUSE_MS));
    }
    source.addEventListener("calls.ended", () => soon(CALLS_PAUSE_MS));
  };
  follow();
  document.addEventListener("fairlead:refreshed", follow); // other filters need another stream
  const seconds = Number([...shown].find((one) => one.dataset.liveSeconds)?.dataset.liveSeconds ?? 0);
  if (seconds) setInterval(() => { if (!document.hidden) refresh().catch(() => {}); }, seconds * 1000);
  const pending = () => {
    if (document.querySelector("[data-pending]")) setTimeout(() => refresh().catch(() => {}), PENDING_MS);
  };
  document.addEventListener("fairlead:refreshed", pending);
  pending();
  addEventListener("pagehide", () => source?.close());
}

// Sends a form with `data-search` while the visitor types, and replaces the list by that of the response.
function search() {
  const form = document.querySelector("form[data-search]");
  const field = document.querySelector("input[type=search]");
  if (field) {
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "")) return;
      event.preventDefault();
      field.focus();
      field.select();
    });
  }
  if (!form) return;
  let waiting = 0;
  const send = () => {
    const words = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const url = `${form.getAttribute("action")}?${words}`;
    history.replaceState(null, "", url);
    refresh(url).catch(() => {});
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(send, PAUSE_MS); });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); send(); });
}

function copying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  });
}

// On a phone, the navigation is wider than the window: scroll to the entry of the current page.
function navigation() {
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

theme();
navigation();
live();
search();
copying();
