// What is in the gallery: the most and the least certain, added and removed.

import * as api from "./api.js";
import { bar } from "./charts.js";
import { announce, h, patient, picture } from "./dom.js";
import { picturePlace } from "./pictures.js";

const PAGE = 60;

/** @type {[string, string, Record<string, string>][]} */
const ORDERS = [
  ["unsure", "least certain first", { sort: "uncertainty", descending: "true" }],
  ["sure", "most certain first", { sort: "uncertainty", descending: "false" }],
  ["label", "by label", { sort: "label", descending: "false" }],
  ["last", "last added first", { sort: "added", descending: "true" }],
];

/** @type {[string, string, Record<string, string>][]} */
const PARTS = [
  ["", "all", {}],
  ["unsure", "the least certain tenth", { least: "0.9" }],
  ["sure", "the most certain tenth", { most: "0.1" }],
];

/** @type {import("./app.js").View} */
export function galleryView(place, query) {
  const problem = h("p", { class: "problem", role: "alert" });
  const count = h("p", { class: "soft", role: "status" });
  const list = h("ul", { class: "items" });
  const pages = h("nav", { class: "pages", "aria-label": "Pages" });
  const undone = h("p", { class: "undo", role: "status" });
  const label = h("select", { name: "label" }, h("option", { value: "" }, "all"));
  const order = choice("order", ORDERS, query.get("order") ?? "unsure");
  const part = choice("part", PARTS, query.get("part") ?? "");
  const text = h("input", { type: "search", name: "text", value: query.get("text") ?? "", placeholder: "part of a name" });
  let offset = Math.max(0, Number(query.get("offset")) || 0);
  let running = new AbortController();

  /** @param {number} from */
  function address(from) {
    const words = { order: order.value, part: part.value, label: label.value, text: text.value, offset: String(from) };
    const kept = Object.entries(words).filter(([name, value]) => value && !(name === "offset" && value === "0"));
    return `#/gallery?${new URLSearchParams(kept)}`;
  }

  async function look() {
    running.abort();
    running = new AbortController();
    const mine = running;
    const asked = {
      ...(ORDERS.find(([name]) => name === order.value)?.[2] ?? {}),
      ...(PARTS.find(([name]) => name === part.value)?.[2] ?? {}),
      ...(query.get("label") ? { label: query.get("label") ?? "" } : {}),
      ...(text.value ? { text: text.value } : {}),
      offset: String(offset),
      limit: String(PAGE),
    };
    try {
      const page = await api.items(asked, mine.signal);
      problem.textContent = "";
      list.replaceChildren(...page.items.map((item) => card(item, removed)));
      const upTo = offset + page.items.length;
      count.textContent = page.items.length
        ? `${offset + 1} to ${upTo} of ${page.total.toLocaleString("en")}`
        : "Nothing here is like that.";
      pages.replaceChildren(
        ...(offset > 0 ? [h("a", { href: address(Math.max(0, offset - PAGE)), rel: "prev" }, "← Back")] : []),
        ...(upTo < page.total ? [h("a", { href: address(upTo), rel: "next" }, "More →")] : []),
      );
    } catch (error) {
      if (!mine.signal.aborted) problem.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** @param {api.Item} item */
  async function removed(item) {
    try {
      const { undo } = await api.remove(item.id);
      const button = h("button", { type: "button" }, "Undo");
      button.addEventListener("click", async () => {
        try {
          await api.undo(undo);
          undone.replaceChildren(`${item.id} is back.`);
          changed();
        } catch (error) {
          undone.replaceChildren(error instanceof Error ? error.message : String(error));
        }
      });
      undone.replaceChildren(`${item.id} is removed. `, button);
      button.focus();
      changed();
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  function changed() {
    window.dispatchEvent(new Event("gallery-changed"));
    void look();
  }

  async function chooseLabels() {
    const found = await api.gallery();
    label.append(...found.labels.map((name) => h("option", { value: name }, name)));
    label.value = query.get("label") ?? "";
    if (!found.uncertainty) {
      part.disabled = true;
      flat.hidden = false;
    }
  }

  const flat = h(
    "p",
    { class: "warning", hidden: true },
    "This model gives every picture the same uncertainty; howsure laplace adds one to a model that is trained.",
  );
  const filters = h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filter the gallery" },
    h("label", {}, "Order", order),
    h("label", {}, "Show", part),
    h("label", {}, "Label", label),
    h("label", {}, "Name", text),
  );
  const go = () => {
    location.hash = address(0);
  };
  for (const input of [order, part, label]) input.addEventListener("change", go);
  // Typing replaces the address, or the back button would go back letter by letter.
  const typed = patient(() => {
    history.replaceState(null, "", address(0));
    offset = 0;
    void look();
  }, 250);
  text.addEventListener("input", typed);
  filters.addEventListener("submit", (event) => event.preventDefault());
  place.append(h("h1", {}, "Gallery"), filters, flat, addForm(changed), undone, problem, count, list, pages);
  void chooseLabels().catch(() => {}); // look() tells the same problem
  void look();
  return () => running.abort();
}

/**
 * @param {string} name
 * @param {[string, string, Record<string, string>][]} options
 * @param {string} chosen
 */
function choice(name, options, chosen) {
  const select = h("select", { name }, ...options.map(([value, title]) => h("option", { value }, title)));
  select.value = options.some(([value]) => value === chosen) ? chosen : (options[0]?.[0] ?? "");
  return select;
}

/**
 * @param {api.Item} item
 * @param {(item: api.Item) => void} remove
 */
function card(item, remove) {
  const name = item.label ?? "no label";
  const button = h("button", { type: "button", "aria-label": `Remove ${item.id}`, title: "Remove" }, "×");
  button.addEventListener("click", () => {
    button.disabled = true;
    remove(item);
  });
  return h(
    "li",
    {},
    item.picture
      ? picture(api.thumbnail(item.id), `${name}, ${item.id}`, { loading: "lazy", width: 96, height: 96 })
      : h("span", { class: "blank" }, "no picture"),
    h("strong", {}, name),
    h("span", { class: "soft id", title: item.id }, item.id),
    bar(item.rank, "doubt"),
    h("span", { class: "soft" }, `less certain than ${Math.floor(100 * item.rank)}\u00a0%`),
    button,
  );
}

/** @param {() => void} changed */
function addForm(changed) {
  const label = h("input", { name: "label", maxlength: 256, placeholder: "what they show" });
  const told = h("p", { role: "status" });
  const chosen = picturePlace({
    label: "Add pictures",
    hint: "Choose them, or drop them here. Only their pixels are kept.",
    take: async (pictures) => {
      told.textContent = "Adding…";
      try {
        const { items } = await api.add(pictures, label.value.trim());
        told.textContent = `Added ${items.length}. They are on disk.`;
        announce(told.textContent);
        changed();
      } catch (error) {
        told.textContent = error instanceof Error ? error.message : String(error);
      }
    },
  });
  return h(
    "details",
    { class: "panel" },
    h("summary", {}, "Add pictures"),
    h("label", {}, "Label", label),
    chosen.element,
    told,
  );
}
