// The gallery, looked at in three ways: its items, those that look wrong, and the best of an identity.

import { bestView } from "./best.js";
import { h } from "./dom.js";
import { itemsView } from "./items.js";
import { suspectsView } from "./suspects.js";

/** @type {[string, string, import("./app.js").View][]} */
const LOOKS = [
  ["items", "Items", itemsView],
  ["suspects", "Suspects", suspectsView],
  ["best", "Best pictures", bestView],
];

/** @type {import("./app.js").View} */
export function galleryView(root, query) {
  const asked = query.get("look") ?? "items";
  const [look, , view] = LOOKS.find(([name]) => name === asked) ?? /** @type {typeof LOOKS[0]} */ (LOOKS[0]);
  const links = LOOKS.map(([name, title]) => {
    const address = name === "items" ? "#/gallery" : `#/gallery?look=${name}`;
    return h("li", {}, h("a", { href: address, id: `look-${name}`, "aria-current": name === look && "true" }, title));
  });
  const rest = h("div", {});
  root.append(h("h1", {}, "Gallery"), h("nav", { class: "looks", "aria-label": "Ways to look" }, h("ul", {}, ...links)), rest);
  return view(rest, query);
}
