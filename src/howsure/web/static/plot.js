// A canvas with many ellipses. While it moves, the last drawing is moved; once it rests, a new one is made bit by bit.

/** @typedef {import("./api.js").Plane} Plane */
/** @typedef {{hover: (item: number | null, x: number, y: number) => void, select: (items: number[]) => void}} Listeners */

/** @typedef {"label" | "uncertainty" | "error"} Colouring */

// Neither pale nor dark: they must hold on white and on black.
export const LABELS = ["#4a90d9", "#e07b39", "#3fa45b", "#c95fb0", "#b8942b", "#2fa5a5", "#d9534f", "#8f7be0", "#7d8c3c", "#a0705a"];
export const RAMP = ["#4a90d9", "#6a86dd", "#8f7be0", "#b16dbd", "#d25f9a", "#dd6982", "#e8733a"];
export const ERRORS = ["#7d8590", "#e0452f"]; // the nearest other picture agrees; it does not
const COLOURS = { label: LABELS, uncertainty: RAMP, error: ERRORS };
const REST = 120; // milliseconds without a move
const NEAR = 12; // pixels
const BUDGET = 12; // milliseconds of a frame for drawing
const PART = 32; // ellipses in a path

export class Plot {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Plane} plane
   * @param {Listeners} listeners
   */
  constructor(canvas, plane, listeners) {
    this.canvas = canvas;
    this.plane = plane;
    this.listeners = listeners;
    this.count = plane.ids.length;
    this.axes = ellipses(plane);
    /** @type {Colouring} */
    this.by = "label";
    this.view = { scale: 1, x: 0, y: 0 };
    this.drawn = { scale: 1, x: 0, y: 0 };
    this.picture = document.createElement("canvas");
    /** @type {{x: number, y: number, brush: boolean} | null} */
    this.from = null;
    this.timer = 0;
    this.frame = 0;
    this.step = 0;
    this.groups = this.byColour();
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(canvas);
    this.listen();
  }

  close() {
    this.sizes.disconnect();
    window.clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    cancelAnimationFrame(this.step);
  }

  /** @param {Colouring} by */
  colourBy(by) {
    this.by = by;
    this.groups = this.byColour();
    this.draw();
  }

  /** Items by colour: one path a colour is what makes a canvas quick. */
  byColour() {
    const { label, uncertainty, error } = this.plane;
    const colours = COLOURS[this.by];
    /** @type {{colour: string, items: number[]}[]} */
    const groups = colours.map((colour) => ({ colour, items: [] }));
    const order = [...uncertainty.keys()].sort((a, b) => (uncertainty[a] ?? 0) - (uncertainty[b] ?? 0));
    const code = {
      label: (/** @type {number} */ item) => Math.max(0, label[item] ?? 0) % colours.length,
      uncertainty: (/** @type {number} */ _, /** @type {number} */ rank) => Math.floor((rank * colours.length) / this.count),
      error: (/** @type {number} */ item) => error?.[item] ?? 0,
    }[this.by];
    order.forEach((item, rank) => groups[code(item, rank)]?.items.push(item));
    return groups;
  }

  /** Show everything. */
  fit() {
    const { x, y } = this.plane;
    const [left, right, low, high] = [least(x), most(x), least(y), most(y)];
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = 0.9 * Math.min(width / (right - left || 1), height / (high - low || 1));
    this.view = { scale, x: width / 2 - (scale * (left + right)) / 2, y: height / 2 + (scale * (low + high)) / 2 };
    this.draw();
  }

  /** Everything anew, at the resolution of the screen: all dots at once, then ellipses, as many as a frame allows. */
  draw() {
    cancelAnimationFrame(this.step);
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return; // not on the page, or no longer
    for (const canvas of [this.canvas, this.picture]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = this.picture.getContext("2d", { willReadFrequently: true });
    if (!pen) return;
    pen.scale(ratio, ratio);
    this.drawn = { ...this.view };
    this.drawDots(pen);
    this.show();
    const parts = this.parts();
    let count = 4; // parts that a frame has time for
    const go = () => {
      const begun = performance.now();
      let part = parts.next();
      for (let left = count; !part.done; part = parts.next()) {
        this.drawEllipses(pen, part.value.colour, part.value.items);
        if (--left <= 0) break;
      }
      pen.getImageData(0, 0, 1, 1); // what was only noted down is drawn now, so that the time is what it takes
      count = Math.ceil((count * BUDGET) / Math.max(1, performance.now() - begun));
      if (part.done) this.drawDots(pen);
      else this.step = requestAnimationFrame(go);
      this.show();
    };
    this.step = requestAnimationFrame(go);
  }

  /** A few ellipses of each colour in turn: short paths are quick, and no colour waits for the others. */
  *parts() {
    const longest = Math.max(...this.groups.map(({ items }) => items.length));
    for (let start = 0; start < longest; start += PART) {
      for (const { colour, items } of this.groups) {
        if (start < items.length) yield { colour, items: items.slice(start, start + PART) };
      }
    }
  }

  /** @param {CanvasRenderingContext2D} pen */
  drawDots(pen) {
    const { scale, x, y } = this.drawn;
    const half = this.count > 5000 ? 1 : 2; // few can be larger
    pen.globalAlpha = 1;
    for (const { colour, items } of this.groups) {
      pen.fillStyle = colour;
      for (const item of items) {
        pen.fillRect(x + scale * (this.plane.x[item] ?? 0) - half, y - scale * (this.plane.y[item] ?? 0) - half, 2 * half, 2 * half);
      }
    }
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {string} colour
   * @param {number[]} items
   */
  drawEllipses(pen, colour, items) {
    const { scale, x: dx, y: dy } = this.drawn;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const { a, b, angle } = this.axes;
    pen.beginPath();
    for (const item of items) {
      const x = dx + scale * (this.plane.x[item] ?? 0);
      const y = dy - scale * (this.plane.y[item] ?? 0);
      const wide = scale * (a[item] ?? 0);
      if (wide < 1.5 || x + wide < 0 || y + wide < 0 || x - wide > width || y - wide > height) continue;
      const turn = -(angle[item] ?? 0); // y points down here
      pen.moveTo(x + wide * Math.cos(turn), y + wide * Math.sin(turn));
      pen.ellipse(x, y, wide, scale * (b[item] ?? 0), turn, 0, 2 * Math.PI);
    }
    pen.strokeStyle = colour;
    pen.globalAlpha = this.count > 5000 ? 0.25 : 0.55;
    pen.stroke();
  }

  /** The last drawing, moved to where the view is now. */
  show() {
    const pen = this.canvas.getContext("2d");
    if (!pen || !this.picture.width || !this.picture.height) return;
    const ratio = window.devicePixelRatio || 1;
    const grown = this.view.scale / this.drawn.scale;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const [x, y] = [this.view.x - grown * this.drawn.x, this.view.y - grown * this.drawn.y];
    pen.setTransform(grown, 0, 0, grown, ratio * x, ratio * y);
    pen.drawImage(this.picture, 0, 0);
  }

  /** The view has changed: show it at the next frame, draw it when it rests. */
  moved() {
    cancelAnimationFrame(this.step);
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.show());
    window.clearTimeout(this.timer);
    if (!this.from) this.timer = window.setTimeout(() => this.draw(), REST);
  }

  /**
   * @param {number} factor
   * @param {number} x
   * @param {number} y
   */
  zoom(factor, x, y) {
    this.view.scale *= factor;
    this.view.x = x - factor * (x - this.view.x);
    this.view.y = y - factor * (y - this.view.y);
    this.moved();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-0.0015 * event.deltaY), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.from = { x: event.offsetX, y: event.offsetY, brush: event.shiftKey };
      this.listeners.hover(null, 0, 0);
    });
    canvas.addEventListener("pointermove", (event) => this.pointed(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerup", (event) => {
      const from = this.from;
      this.from = null;
      if (!from?.brush) {
        this.moved();
        return;
      }
      this.show();
      this.listeners.select(this.within(from.x, from.y, event.offsetX, event.offsetY));
    });
    canvas.addEventListener("pointercancel", () => {
      this.from = null;
      this.moved();
    });
    canvas.addEventListener("pointerleave", () => this.listeners.hover(null, 0, 0));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  pointed(x, y) {
    if (!this.from) {
      this.listeners.hover(this.nearest(x, y), x, y);
    } else if (this.from.brush) {
      this.show();
      const pen = this.canvas.getContext("2d");
      const ratio = window.devicePixelRatio || 1;
      if (!pen) return;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.strokeStyle = "#888";
      pen.setLineDash([4, 4]);
      pen.strokeRect(this.from.x, this.from.y, x - this.from.x, y - this.from.y);
    } else {
      this.view.x += x - this.from.x;
      this.view.y += y - this.from.y;
      this.from = { x, y, brush: false };
      this.moved();
    }
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    /** @type {Record<string, [number, number]>} */
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const step = steps[event.key];
    if (step) {
      this.view.x += step[0];
      this.view.y += step[1];
      this.moved();
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25, width / 2, height / 2);
    else if (event.key === "-") this.zoom(0.8, width / 2, height / 2);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /**
   * The item whose mean is nearest, if it is near.
   * @param {number} x
   * @param {number} y
   */
  nearest(x, y) {
    const [px, py] = [(x - this.view.x) / this.view.scale, (this.view.y - y) / this.view.scale];
    let best = (NEAR / this.view.scale) ** 2;
    let found = null;
    for (let item = 0; item < this.count; item++) {
      const [dx, dy] = [(this.plane.x[item] ?? 0) - px, (this.plane.y[item] ?? 0) - py];
      const gap = dx * dx + dy * dy;
      if (gap < best) [best, found] = [gap, item];
    }
    return found;
  }

  /**
   * The items in a rectangle.
   * @param {number} x1
   * @param {number} y1
   * @param {number} x2
   * @param {number} y2
   */
  within(x1, y1, x2, y2) {
    const [left, right, top, foot] = [Math.min(x1, x2), Math.max(x1, x2), Math.min(y1, y2), Math.max(y1, y2)];
    return [...this.plane.ids.keys()].filter((item) => {
      const x = this.view.x + this.view.scale * (this.plane.x[item] ?? 0);
      const y = this.view.y - this.view.scale * (this.plane.y[item] ?? 0);
      return left <= x && x <= right && top <= y && y <= foot;
    });
  }
}

/**
 * Half axes and angle of each ellipse, from the covariance.
 * @param {Plane} plane
 */
function ellipses(plane) {
  const count = plane.ids.length;
  const [a, b, angle] = [new Float32Array(count), new Float32Array(count), new Float32Array(count)];
  for (let item = 0; item < count; item++) {
    const [xx, xy, yy] = [plane.xx[item] ?? 0, plane.xy[item] ?? 0, plane.yy[item] ?? 0];
    const middle = (xx + yy) / 2;
    const reach = Math.hypot((xx - yy) / 2, xy);
    a[item] = Math.sqrt(middle + reach);
    b[item] = Math.sqrt(Math.max(0, middle - reach));
    angle[item] = 0.5 * Math.atan2(2 * xy, xx - yy);
  }
  return { a, b, angle };
}

/** @param {number[]} values */
function least(values) {
  return values.reduce((one, other) => Math.min(one, other), Infinity);
}

/** @param {number[]} values */
function most(values) {
  return values.reduce((one, other) => Math.max(one, other), -Infinity);
}
