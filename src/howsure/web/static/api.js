// The API of this server, typed.

/** @typedef {"match" | "unknown" | "not_sure"} Kind */
/** @typedef {{kind: Kind, words: string, reason: string | null, why: string | null, probability: number | null, none: number | null}} Answer */
/** @typedef {{id: string, label: string | null, probability: number | null, distance: number}} Match */
/** @typedef {{picture: number, model: number}} Split */
/** @typedef {{name: string, query: string | null, picture: string | null, answer: Answer, uncertainty: number, rank: number | null, split: Split | null, novelty: number | null, matches: Match[], exact: boolean}} Result */
/** @typedef {{results: Result[], drifted: boolean | null, stale: string[]}} SearchReply */
/** @typedef {{at: number, spread: number}} Bell */
/** @typedef {{answer: Answer, probability: number, distance: number, uncertainty: number[], pictures: string[], bells: Bell[]}} VerifyReply */
/** @typedef {{id: string, label: string | null, uncertainty: number, rank: number, picture: boolean}} Item */
/** @typedef {{items: Item[], total: number, offset: number}} ItemPage */
/** @typedef {{edges: number[], counts: number[]}} Histogram */
/** @typedef {{name: string, items: number, labels: string[], labels_left_out: number, calibrated: boolean, method: string | null, uncertainty: Histogram | null, usual: number | null, pictures: number, bulk: number, upload: number}} Gallery */
/** @typedef {{probability: number, happened: number, cases: number}} Bin */
/** @typedef {{event: string, ece: number, brier: number, cases: number, reliability: Bin[]}} Honesty */
/** @typedef {{threshold: number, coverage: number, risk: number}} RiskPoint */
/** @typedef {{at_most: number, bound: number, confidence: number | null, events: number, n: number}} Promised */
/** @typedef {{error: Promised, false_unknown: Promised | null, false_match: Promised | null, false_match_rate: number | null, false_non_match_rate: number | null, max_error: number, confidence: number, error_bound: number, coverage: number, match_coverage: number, unknown_coverage: number, n: number, unknown_rate: number, gallery: number, identities: number, made: string, audit: Audited | null}} Certificate */
/** @typedef {{drawn: number, used: number, waiting: number, since: string, until: string, rates: number[]}} Audited */
/** @typedef {{id: string, drawn: string, answer: Kind, best: string | null, picture: boolean}} Waiting */
/** @typedef {{drawn: number, waiting: Waiting[]}} Audit */
/** @typedef {{label: string} | {unknown: true} | {unclear: true}} Verdict */
/** @typedef {{false_positive: number[], true_positive: number[], auroc: number}} Roc */
/** @typedef {{watches: string[], seen: number, evidence: number, drifted: boolean}} Drift */
/** @typedef {{calibrated: boolean, threshold: number | null, certificate: Certificate | null, stale: string[], honesty: Record<string, Honesty>, risk_coverage: RiskPoint[], drift: Drift | null, unknown_roc: Roc | null, unknown_roc_why: string | null}} Quality */
/** @typedef {{ids: string[], x: number[], y: number[], xx: number[], xy: number[], yy: number[], label: number[], labels: string[], uncertainty: number[], error: number[] | null, error_why: string | null, explained: number}} Plane */
/** @typedef {{a: string, b: string, probability: number | null}} Twins */
/** @typedef {{id: string, label: string, suggested: string, probability: number}} LabelError */
/** @typedef {{duplicates: Twins[], label_errors: LabelError[]}} Suspects */
/** @typedef {{ids: string[], why: string[]}} Best */
/** @typedef {{done: number, total: number, id?: string, problem?: string}} Step */
/** @typedef {{blur: number, occlusion: number, noise: number}} Harm */

/** What the server refused, and why. */
export class ProblemError extends Error {
  /**
   * @param {number} status
   * @param {string} detail
   */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{body?: BodyInit, json?: unknown, signal?: AbortSignal, token?: string}} [options]
 * @returns {Promise<Response>}
 */
async function send(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (options.json !== undefined) headers["Content-Type"] = "application/json";
  if (options.token) headers["Authorization"] = `Bearer ${options.token}`;
  const body = options.json === undefined ? options.body : JSON.stringify(options.json);
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { method, headers, body, signal: options.signal });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ProblemError(0, "The server does not answer. Is howsure serve still running?");
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => null);
    throw new ProblemError(response.status, problem?.detail ?? `The server answered ${response.status}.`);
  }
  return response;
}

/**
 * @template T
 * @param {string} method
 * @param {string} path
 * @param {{body?: BodyInit, json?: unknown, signal?: AbortSignal}} [options]
 * @returns {Promise<T>}
 */
async function ask(method, path, options) {
  return (await send(method, path, options)).json();
}

/** @param {string} token */
export const begin = (token) => send("POST", "session", { token });

/** @returns {Promise<Gallery>} */
export const gallery = () => ask("GET", "gallery");

/** @returns {Promise<Quality>} */
export const quality = () => ask("GET", "quality");

/** @returns {Promise<Plane>} */
export const plane = () => ask("GET", "map");

/**
 * @param {Blob[]} pictures
 * @param {Harm} harm
 * @param {{trial: boolean, signal: AbortSignal}} how a trial is not counted where drift is watched
 * @returns {Promise<SearchReply>}
 */
export function search(pictures, harm, { trial, signal }) {
  const form = new FormData();
  for (const picture of pictures) form.append("pictures", picture, nameOf(picture));
  for (const [name, severity] of Object.entries(harm)) form.append(name, String(severity));
  form.append("k", "8");
  form.append("trial", String(trial));
  return ask("POST", "search", { body: form, signal });
}

/**
 * @param {Blob} a
 * @param {Blob} b
 * @param {AbortSignal} signal
 * @returns {Promise<VerifyReply>}
 */
export function verify(a, b, signal) {
  const form = new FormData();
  form.append("a", a, nameOf(a));
  form.append("b", b, nameOf(b));
  return ask("POST", "verify", { body: form, signal });
}

/**
 * @param {Record<string, string>} query
 * @param {AbortSignal} signal
 * @returns {Promise<ItemPage>}
 */
export const items = (query, signal) => ask("GET", `items?${new URLSearchParams(query)}`, { signal });

/**
 * Add pictures; `onStep` is called as soon as each is on disk, or cannot be.
 * @param {Blob[]} pictures
 * @param {string} label
 * @param {(step: Step) => void} onStep
 */
export async function addAll(pictures, label, onStep) {
  const form = new FormData();
  for (const picture of pictures) form.append("pictures", picture, nameOf(picture));
  if (label) form.append("label", label);
  const response = await send("POST", "items/bulk", { body: form });
  await eachLine(response, (line) => onStep(JSON.parse(line)));
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<Suspects>}
 */
export const suspects = (signal) => ask("GET", "suspects?limit=40", { signal });

/**
 * @param {string} label
 * @param {number} count
 * @param {AbortSignal} signal
 * @returns {Promise<Best>}
 */
export const best = (label, count, signal) =>
  ask("GET", `identities/${encodeURIComponent(label)}/best?count=${count}`, { signal });

/**
 * @param {string} id
 * @returns {Promise<{id: string, undo: string}>}
 */
export const remove = (id) => ask("DELETE", `items/${encodeURIComponent(id)}`);

/**
 * @param {string} token
 * @returns {Promise<Item>}
 */
export const undo = (token) => ask("POST", "undo", { json: { undo: token } });

/**
 * @param {string} query
 * @param {string} item
 * @param {boolean} same
 */
export const feedback = (query, item, same) => ask("POST", "feedback", { json: { query, item, same } });

/** @returns {Promise<Audit>} */
export const audit = () => ask("GET", "audit");

/** @param {string} id */
export const auditPicture = (id) => `/api/v1/audit/${encodeURIComponent(id)}/picture`;

/**
 * @param {string} id
 * @param {Verdict} verdict
 */
export const judge = (id, verdict) => ask("POST", `audit/${encodeURIComponent(id)}`, { json: verdict });

/** All feedback as a table. */
export const FEEDBACK = "/api/v1/feedback.csv";

/** @param {string} id */
export const thumbnail = (id) => `/api/v1/thumbnails/${encodeURIComponent(id)}`;

/** @param {Blob} picture */
function nameOf(picture) {
  return picture instanceof File ? picture.name : "pasted picture";
}

/**
 * Lines as they come in, not when all of them have.
 * @param {Response} response
 * @param {(line: string) => void} onLine
 */
async function eachLine(response, onLine) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line) onLine(line);
  }
  if (rest) onLine(rest);
}
