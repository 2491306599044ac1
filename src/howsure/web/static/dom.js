// Elements, and text for people and screen readers.

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | EventListener | null | undefined>} Attributes */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Attributes by name; a function is a listener, `false` and `null` leave one out.
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {Child[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child instanceof Node) element.append(child);
    else if (child !== false && child != null) element.append(String(child));
  }
}

/**
 * An HTML element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  fill(element, attributes, children);
  return element;
}

/**
 * The element with this id, which is always there.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element #${id}`);
  return found;
}

/**
 * Say something to a screen reader.
 * @param {string} text
 */
export function announce(text) {
  byId("status").textContent = text;
}

/**
 * What went wrong, as text.
 * @param {unknown} error
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * A probability as a person reads it; never a certainty that it is not.
 * @param {number} p
 */
export function percent(p) {
  if (p > 0 && p < 0.001) return "<\u202f0.1\u00a0%";
  if (p < 1 && p > 0.999) return ">\u202f99.9\u00a0%";
  return `${(100 * p).toFixed(p === 0 || p === 1 ? 0 : 1)}\u00a0%`;
}

/**
 * A picture. A tiny one is shown pixel by pixel, a photo smoothly.
 * @param {string} src
 * @param {string} alt
 * @param {Attributes} [attributes]
 */
export function picture(src, alt, attributes = {}) {
  const image = h("img", { ...attributes, src, alt });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 64));
  return image;
}

/**
 * Three digits.
 * @param {number} value
 */
export function digits(value) {
  return value === 0 ? "0" : Number(value.toPrecision(3)).toString();
}

/**
 * A function that waits until calls pause.
 * @template {unknown[]} A
 * @param {(...args: A) => void} work
 * @param {number} milliseconds
 * @returns {(...args: A) => void}
 */
export function patient(work, milliseconds) {
  let timer = 0;
  return (...args) => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => work(...args), milliseconds);
  };
}
