// Drop, paste or choose pictures.

import { h } from "./dom.js";

/**
 * An input for pictures. `take` gets them, one or more; `alone` says that one is enough.
 * @param {{label: string, hint: string | Node, alone?: boolean, take: (pictures: Blob[]) => void}} options
 * @returns {{element: HTMLElement, paste: (event: ClipboardEvent) => void}}
 */
export function pictureInput({ label, hint, alone = false, take }) {
  const input = h("input", { type: "file", accept: "image/*", multiple: !alone, class: "unseen" });
  const element = h("label", { class: "drop" }, input, h("strong", {}, label), h("span", { class: "soft" }, hint));
  /** @param {Iterable<File> | null | undefined} files */
  const use = (files) => {
    const pictures = [...(files ?? [])].slice(0, alone ? 1 : undefined);
    if (pictures.length) take(pictures);
  };
  input.addEventListener("change", () => {
    use(input.files);
    input.value = ""; // the same file may be chosen again
  });
  for (const type of ["dragenter", "dragover"]) {
    element.addEventListener(type, (event) => {
      event.preventDefault();
      element.classList.add("over");
    });
  }
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    element.classList.remove("over");
    use(event.dataTransfer?.files);
  });
  return { element, paste: (event) => use(event.clipboardData?.files) };
}

/**
 * Why a request with these pictures would be refused; nothing if it would not.
 * @param {Blob[]} pictures
 * @param {{pictures: number, upload: number}} limits of the server
 */
export function tooMuch(pictures, limits) {
  const bytes = pictures.reduce((sum, picture) => sum + sizeOf(picture), 0);
  if (pictures.length > limits.pictures) return `These are ${pictures.length} pictures; ${limits.pictures} can be asked about at once.`;
  if (bytes > limits.upload) return `These are ${megabytes(bytes)}; a request may have ${megabytes(limits.upload)}.`;
  return "";
}

/**
 * What a picture takes in a request, with its name and the form around it.
 * @param {Blob} picture
 */
export const sizeOf = (picture) => picture.size + 1024;

/** @param {number} bytes */
export const megabytes = (bytes) => `${Math.ceil(bytes / 2 ** 20).toLocaleString("en")}\u00a0MB`;

/** A drop elsewhere must not make the browser leave the page. */
for (const type of ["dragover", "drop"]) {
  window.addEventListener(type, (event) => event.preventDefault());
}
