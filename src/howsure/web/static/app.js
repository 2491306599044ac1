// Which view is shown: the part of the address after #, so that reload and the back button work.

import * as api from "./api.js";
import { announce, byId, h, messageOf } from "./dom.js";
import { auditView } from "./audit.js";
import { compareView } from "./compare.js";
import { galleryView } from "./gallery.js";
import { mapView } from "./map.js";
import { qualityView } from "./quality.js";
import { searchView } from "./search.js";

/**
 * A view fills an element, by the query after `?` of the address; what it returns is called when the view is left.
 * @typedef {(root: HTMLElement, query: URLSearchParams) => (() => void) | void} View
 */

/** @type {Record<string, {title: string, view: View}>} */
const VIEWS = {
  search: { title: "Search", view: searchView },
  compare: { title: "Compare", view: compareView },
  gallery: { title: "Gallery", view: galleryView },
  map: { title: "Map", view: mapView },
  quality: { title: "Quality", view: qualityView },
  audit: { title: "Audit", view: auditView },
};

let leave = () => {};
let shown = "";

/** @returns {{name: string, query: URLSearchParams}} */
function route() {
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const name = path && Object.hasOwn(VIEWS, path) ? path : "search";
  return { name, query: new URLSearchParams(search ?? "") };
}

function show() {
  const { name, query } = route();
  const entry = VIEWS[name];
  if (!entry) return;
  leave();
  const main = byId("main");
  const held = focusIn(main);
  main.replaceChildren();
  document.title = `${entry.title} · howsure`;
  for (const link of byId("views").querySelectorAll("a")) {
    if (link.dataset["view"] === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave = entry.view(main, query) ?? (() => {});
  if (shown && shown !== name) {
    main.focus();
    window.scrollTo(0, 0);
    announce(entry.title);
  } else if (held) (/** @type {HTMLElement | null} */ (main.querySelector(held)) ?? main).focus();
  shown = name;
}

/**
 * How to find what has the focus once the view is filled anew; null if that is elsewhere.
 * @param {HTMLElement} root
 */
function focusIn(root) {
  const element = document.activeElement;
  if (!element || element === root || !root.contains(element)) return null;
  if (element.id) return `#${element.id}`;
  return element.getAttribute("name") ? `[name="${element.getAttribute("name")}"]` : "main";
}

async function showAbout() {
  const found = await api.gallery();
  const count = `${found.items.toLocaleString("en")} item${found.items === 1 ? "" : "s"}`;
  byId("about").textContent = `${found.name} · ${count}${found.calibrated ? "" : " · not calibrated"}`;
}

/** A token in the address is used once, and taken out of it. */
async function useToken() {
  const { name, query } = route();
  const token = query.get("token");
  if (!token) return;
  query.delete("token");
  const rest = query.toString();
  history.replaceState(null, "", `#/${name}${rest ? `?${rest}` : ""}`);
  await api.begin(token);
}

function askForToken() {
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", required: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h("form", { class: "panel" }, h("label", {}, "Token", input), h("button", {}, "Open"), problem);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await api.begin(input.value);
      await start();
    } catch (error) {
      problem.textContent = messageOf(error);
    }
  });
  byId("main").replaceChildren(h("h1", {}, "This server needs a token"), form);
  input.focus();
}

async function start() {
  try {
    await useToken();
    await showAbout();
  } catch (error) {
    if (error instanceof api.ProblemError && error.status === 401) {
      askForToken();
      return;
    }
    byId("about").textContent = messageOf(error);
  }
  window.addEventListener("hashchange", show);
  window.addEventListener("gallery-changed", () => void showAbout());
  show();
}

for (const [name, { title }] of Object.entries(VIEWS)) {
  byId("views").append(h("li", {}, h("a", { href: `#/${name}`, "data-view": name }, title)));
}
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is for views
  byId("main").focus();
});
void start();
