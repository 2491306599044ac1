// What is in the gallery: the most and the least certain, those whose label is unlikely.

import { addForm } from "./adding.js";
import * as api from "./api.js";
import { bar } from "./charts.js";
import { h, messageOf, patient, picture } from "./dom.js";
import { removals, removeButton } from "./removal.js";

const PAGE = 60;

/** @typedef {[string, string, Record<string, string>][]} Choices a name, a title, and what it asks for */

/** @type {Choices} */
const ORDERS = [
  ["unsure", "least certain first", { sort: "uncertainty", descending: "true" }],
  ["sure", "most certain first", { sort: "uncertainty", descending: "false" }],
  ["label", "by label", { sort: "label", descending: "false" }],
  ["last", "last added first", { sort: "added", descending: "true" }],
];

/** @type {Choices} */
const PARTS = [
  ["", "all", {}],
  ["unsure", "the least certain tenth", { least: "0.9" }],
  ["sure", "the most certain tenth", { most: "0.1" }],
];

/** @type {Choices} */
const LIKELY = [
  ["", "any", {}],
  ["likely", "90 % or more", { probability_from: "0.9" }],
  ["open", "10 to 90 %", { probability_from: "0.1", probability_to: "0.9" }],
  ["unlikely", "10 % or less", { probability_to: "0.1" }],
];

/** @type {import("./app.js").View} */
export function itemsView(root, query) {
  const problem = h("p", { class: "problem", role: "alert" });
  const count = h("p", { class: "soft", role: "status" });
  const list = h("ul", { class: "items" });
  const pages = h("nav", { class: "pages", "aria-label": "Pages" });
  const label = h("select", { name: "label" }, h("option", { value: "" }, "all"));
  const order = choice("order", ORDERS, query.get("order"));
  const part = choice("part", PARTS, query.get("part"));
  const likely = choice("likely", LIKELY, query.get("likely"));
  const text = h("input", { type: "search", name: "text", value: query.get("text") ?? "", placeholder: "part of a name" });
  const removal = removals(() => void look());
  let offset = Math.max(0, Number(query.get("offset")) || 0);
  let running = new AbortController();

  /** @param {number} from */
  function address(from) {
    const chosen = Object.fromEntries([order, part, likely, label, text].map((input) => [input.name, input.value]));
    const fields = { ...chosen, offset: from ? String(from) : "" };
    return `#/gallery?${new URLSearchParams(Object.entries(fields).filter(([, value]) => value))}`;
  }

  async function look() {
    running.abort();
    running = new AbortController();
    const mine = running;
    const asked = {
      ...asks(ORDERS, order.value),
      ...asks(PARTS, part.value),
      ...asks(LIKELY, likely.value),
      ...(query.get("label") ? { label: query.get("label") ?? "" } : {}),
      ...(text.value ? { text: text.value } : {}),
      offset: String(offset),
      limit: String(PAGE),
    };
    try {
      const page = await api.items(asked, mine.signal);
      problem.textContent = "";
      list.replaceChildren(...page.items.map((item) => card(item, removal.remove)));
      const upTo = offset + page.items.length;
      count.textContent = page.items.length
        ? `${offset + 1} to ${upTo} of ${page.total.toLocaleString("en")}`
        : "Nothing here is like that.";
      pages.replaceChildren(
        ...(offset > 0 ? [h("a", { href: address(Math.max(0, offset - PAGE)), rel: "prev" }, "← Back")] : []),
        ...(upTo < page.total ? [h("a", { href: address(upTo), rel: "next" }, "More →")] : []),
      );
    } catch (error) {
      if (!mine.signal.aborted) problem.textContent = messageOf(error);
    }
  }

  async function chooseLabels() {
    const found = await api.gallery();
    label.append(...found.labels.map((name) => h("option", { value: name }, name)));
    label.value = query.get("label") ?? "";
    part.disabled = !found.uncertainty;
    flat.hidden = found.uncertainty !== null;
    list.classList.toggle("alike", !found.uncertainty);
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
    h("label", {}, "P(label) by neighbour", likely),
    h("label", {}, "Label", label),
    h("label", {}, "Name", text),
  );
  for (const input of [order, part, likely, label]) input.addEventListener("change", () => (location.hash = address(0)));
  // Typing replaces the address, or the back button would go back letter by letter.
  const typed = patient(() => {
    history.replaceState(null, "", address(0));
    offset = 0;
    void look();
  }, 250);
  text.addEventListener("input", typed);
  filters.addEventListener("submit", (event) => event.preventDefault());
  root.append(filters, flat, addForm(() => void look()), removal.element, problem, count, list, pages);
  void chooseLabels().catch(() => {}); // look() shows the same problem
  void look();
  return () => running.abort();
}

/**
 * @param {string} name
 * @param {Choices} options
 * @param {string | null} chosen
 */
function choice(name, options, chosen) {
  const select = h("select", { name }, ...options.map(([value, title]) => h("option", { value }, title)));
  select.value = options.some(([value]) => value === chosen) ? (chosen ?? "") : (options[0]?.[0] ?? "");
  return select;
}

/**
 * @param {Choices} options
 * @param {string} chosen
 */
function asks(options, chosen) {
  return options.find(([value]) => value === chosen)?.[2] ?? {};
}

/**
 * @param {api.Item} item
 * @param {(id: string) => void} remove
 */
function card(item, remove) {
  const name = item.label ?? "no label";
  return h(
    "li",
    {},
    item.picture
      ? picture(api.thumbnail(item.id), `${name}, ${item.id}`, { loading: "lazy", width: 96, height: 96 })
      : h("span", { class: "blank" }, "no picture"),
    h("strong", {}, name),
    h("span", { class: "soft id", title: item.id }, item.id),
    bar(item.rank, "unsure"),
    h("span", { class: "soft rank" }, `less certain than ${Math.floor(100 * item.rank)}\u00a0%`),
    removeButton(item.id, remove),
  );
}
