// Keeps a page live, and knows its keys. Pages work without it.
(() => {
  "use strict";
  const EVERY_MS = 2000, SLOWEST_MS = 60000, CHORD_MS = 1500;
  const PAGES = { o: "/", t: "/tasks", l: "/limits", w: "/workers", d: "/dead-letters", a: "/apps", u: "/audit" };
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const kept = {
    get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
    set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* it lasts for this page */ } },
  };

  root.classList.add("js");
  if (kept.get("theme")) root.dataset.theme = kept.get("theme");

  let isLive = kept.get("live") !== "off", waitMs = EVERY_MS, timer = 0, isAsking = false;

  const isChanged = (field) =>
    field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
    : field.tagName === "SELECT"
      ? field.selectedIndex !== Math.max(0, [...field.options].findIndex((each) => each.defaultSelected))
    : field.type !== "hidden" && field.value !== field.defaultValue;

  const isEdited = () =>
    Boolean(document.activeElement?.closest("#main :is(input, select, textarea)")) ||
    [...document.querySelectorAll("#main :is(input, select, textarea)")].some(isChanged);

  const morph = (fresh) => {
    for (const id of ["main", "foot"]) {
      const [old, made] = [byId(id), fresh.getElementById(id)];
      if (old && made) Idiomorph.morph(old, made, { callbacks: { // what a person has opened stays open
        beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
      } });
    }
  };

  const update = async () => {
    if (isAsking || !isLive || document.hidden || isEdited() || !byId("main")?.hasAttribute("data-live")) return;
    isAsking = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Part": "main" } });
      if (answer.status === 401) {
        byId("live").lastChild.data = "Signed out";
        return setLive(false);
      }
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (isLive && !isEdited()) morph(fresh);
      waitMs = EVERY_MS;
      byId("live").lastChild.data = "Live";
    } catch {
      waitMs = Math.min(SLOWEST_MS, waitMs * 2);
      byId("main").classList.add("stale");
      byId("live").lastChild.data = `Old, of ${byId("foot").firstElementChild.textContent}`;
    } finally {
      isAsking = false;
    }
  };

  const again = async () => {
    clearTimeout(timer);
    await update();
    clearTimeout(timer);
    if (isLive && !document.hidden) timer = setTimeout(again, waitMs);
  };

  const setLive = (on) => {
    isLive = on;
    byId("live")?.setAttribute("aria-pressed", String(on));
    if (on) again(); else clearTimeout(timer);
  };

  document.addEventListener("visibilitychange", again);
  document.addEventListener("DOMContentLoaded", () => {
    byId("live")?.setAttribute("aria-pressed", String(isLive));
    if (isLive) timer = setTimeout(again, waitMs);
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.id === "live") {
      kept.set("live", isLive ? "off" : "on");
      setLive(!isLive);
    } else if (button?.id === "theme") {
      const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      kept.set("theme", root.dataset.theme);
    } else if (button?.hasAttribute("data-keys")) byId("keys").showModal();
  });

  let sent = new WeakSet();  // forms: of a double click the first one counts
  addEventListener("submit", (event) => {
    if (event.target.method === "post") sent.has(event.target) ? event.preventDefault() : sent.add(event.target);
  });
  addEventListener("pageshow", () => { sent = new WeakSet(); });
  const step = (by) => {
    const rows = [...document.querySelectorAll("#main tbody tr")].filter((row) => row.querySelector("a[href]"));
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.querySelector("a[href]").focus();
  };

  let chordUntilMs = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !byId("keys") || byId("keys").open) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const key = event.key, isChord = performance.now() < chordUntilMs;
    chordUntilMs = key === "g" ? performance.now() + CHORD_MS : 0;
    if (isChord && PAGES[key]) location.assign(PAGES[key]);
    else if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
    else if (key === "?") byId("keys").showModal();
    else if (key === "/") document.querySelector(".search input").focus();
    else return;
    event.preventDefault();
  });
})();
