// Watch the tool calls of a run from a browser: no build step, no dependency.
//
//   import { ToolStream } from "./tool-stream.js";
//
//   const stream = new ToolStream({ onChange: (state, call) => draw(state, call) });
//   stream.start({ messages: [{ role: "user", content: "Is SKU-200 in stock?" }] });
//   await stream.finished;
//
// The stream is read by `fetch`, which can post; `resume` can read it by `EventSource` instead. When the connection is
// lost it comes back with the number of the last event, so that nothing is missed and nothing is taken twice.

import { EventStreamParser, readMessage } from "./event-stream.js";
import { RunState } from "./run-state.js";

export { EventStreamParser, readMessage } from "./event-stream.js";
export { RunState, seconds } from "./run-state.js";

/** @typedef {import("./run-state.js").CallState} CallState */

/**
 * "lost": it was tried often enough, or the server does not know the run (any more), or refuses it.
 *
 * @typedef {"idle" | "connecting" | "open" | "waiting" | "ended" | "lost" | "closed"} Connection
 */

/**
 * @typedef {object} Options
 * @property {string} [base]           where the router is mounted; "" is the page's own folder
 * @property {Record<string, string>} [headers]  sent with every request
 * @property {boolean} [eventSource]   `resume` reads by EventSource, which sends no headers of its own
 * @property {number} [resultTimeout]  milliseconds of silence after which a call is marked as late
 * @property {number} [silence]        milliseconds without a byte, pings included, after which a connection is given up
 * @property {number} [attempts]       connections in a row that may fail
 * @property {number} [firstDelay]     milliseconds before the first new attempt; the next ones wait twice as long each
 * @property {number} [longestDelay]   milliseconds
 * @property {(state: RunState, call: CallState | null, event: Record<string, any> | null) => void} [onChange]
 *   is called after every event with the call that it changed, and when calls become late
 * @property {(connection: Connection, why: string) => void} [onConnection]
 * @property {(damage: { text: string, event: Record<string, any>, isWhole: boolean }) => void} [onDamage]
 *   a message was damaged; `isWhole`: all of the event could be recovered
 */

/** @type {Required<Options>} */
const DEFAULTS = {
  base: "",
  headers: {},
  eventSource: false,
  resultTimeout: 60_000,
  silence: 45_000,
  attempts: 8,
  firstDelay: 500,
  longestDelay: 15_000,
  onChange: () => {},
  onConnection: () => {},
  onDamage: () => {},
};

/** A refusal that no further attempt would change. */
export class Refused extends Error {
  /** What is wrong with arguments, each with its `path` and `message`. @type {{ path: string, message: string }[]} */
  issues = [];
  /** The HTTP status. */
  status = 0;
}

/** One run, watched. For another run make another one. */
export class ToolStream {
  /** @type {Connection} */
  connection = "idle";
  /** @type {string | null} */
  runId = null;
  /** @type {RunState} */
  state;
  /** Is settled, never rejected, when the run is over or the stream is lost or closed. @type {Promise<RunState>} */
  finished;

  #options;
  #abort = new AbortController();
  #failures = 0;
  #retry = /** @type {number | null} */ (null);
  /** @type {(state: RunState) => void} */
  #settle = () => {};
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #watch;

  /** @param {Options} [options] */
  constructor(options = {}) {
    this.#options = { ...DEFAULTS, ...options };
    this.state = new RunState(this.#options);
    this.finished = new Promise((resolve) => (this.#settle = resolve));
  }

  /**
   * Begin a run and watch it. A request that fails before the run has a name is not repeated: it may have begun.
   *
   * @param {object} body  what `POST /chat/stream` takes: `{ messages: [...] }`
   */
  start(body) {
    this.#begin();
    void this.#readAll(() => this.#request("chat/stream", { method: "POST", body: JSON.stringify(body) }));
    return this;
  }

  /**
   * Watch a run that somebody has begun.
   *
   * @param {string} runId
   * @param {number} [after]  the number of the last event that is known already
   */
  resume(runId, after = 0) {
    this.runId = runId;
    this.state = new RunState({ ...this.#options, after });
    this.#begin();
    if (this.#options.eventSource) this.#readByEventSource();
    else void this.#readAll(() => this.#reconnect());
    return this;
  }

  /** Stop watching. The run goes on. */
  close() {
    this.#end("closed", "");
  }

  /**
   * @param {string} uid
   * @param {{ arguments?: Record<string, unknown> } | string} [body]  other arguments to run it with; as JSON text, if its
   *   numbers are to stay what they are
   */
  approve(uid, body = {}) {
    return this.#decide(uid, "approve", body);
  }

  /**
   * What the call would run with if it were approved with these arguments; nothing is decided.
   *
   * @param {string} uid @param {{ arguments: Record<string, unknown> } | string} body  likewise
   * @returns {Promise<{ arguments_json: string }>}
   */
  check(uid, body) {
    return this.#decide(uid, "check", body);
  }

  /** @param {string} uid @param {string} [reason]  told to the model */
  deny(uid, reason = "") {
    return this.#decide(uid, "deny", { reason });
  }

  /** @param {string} uid @param {string} [reason] */
  cancel(uid, reason = "") {
    return this.#decide(uid, "cancel", { reason });
  }

  /** Cancel the whole run. @param {string} [reason] */
  cancelRun(reason = "") {
    return this.#post(`runs/${this.runId}/cancel`, { reason });
  }

  // -- decisions -----------------------------------------------------------------------------------------------------

  /** @param {string} uid @param {string} verb @param {object | string} body */
  #decide(uid, verb, body) {
    return this.#post(`runs/${this.runId}/calls/${encodeURIComponent(uid)}/${verb}`, body);
  }

  /** @param {string} path @param {object | string} body @returns {Promise<any>} */
  async #post(path, body) {
    const response = await fetch(this.#url(path), this.#init({ method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) }));
    if (!response.ok) throw await refusal(response);
    return response.json();
  }

  // -- reading -------------------------------------------------------------------------------------------------------

  #begin() {
    if (this.connection !== "idle") throw new Error("a ToolStream watches one run; make another one");
    const { onChange } = this.#options;
    const period = Math.max(20, Math.min(1000, this.#options.resultTimeout / 4));
    this.#watch = setInterval(() => {
      for (const call of this.state.markLate(performance.now())) onChange(this.state, call, null);
    }, period);
    this.#set("connecting", "");
  }

  /** @param {() => Promise<Response>} connect  the first connection; the next ones are reconnections */
  async #readAll(connect) {
    while (!this.#abort.signal.aborted) {
      try {
        const response = await connect();
        if (response.status === 204) return this.#end("ended", ""); // all of it has been read already
        await this.#read(response);
        if (this.state.end !== null) return this.#end("ended", "");
        throw new Error("the stream broke off");
      } catch (error) {
        if (this.#abort.signal.aborted) return undefined;
        const why = error instanceof Error ? error.message : String(error);
        if (error instanceof Refused || this.runId === null) return this.#end("lost", why);
        this.#failures += 1;
        if (this.#failures >= this.#options.attempts) return this.#end("lost", why);
        this.#set("waiting", why);
        await this.#pause(this.#delay());
      }
      connect = () => this.#reconnect();
    }
    return undefined;
  }

  #reconnect() {
    const headers = { "Last-Event-ID": String(this.state.lastSeq) };
    return this.#request(`runs/${this.runId}/events`, { headers });
  }

  /** @param {string} path @param {RequestInit} init @returns {Promise<Response>} */
  async #request(path, init) {
    const response = await fetch(this.#url(path), this.#init({ ...init, signal: this.#abort.signal }));
    if (response.ok) {
      this.runId = response.headers.get("X-Run-ID") ?? this.runId;
      return response;
    }
    const refused = await refusal(response);
    const after = Number(response.headers.get("Retry-After"));
    if (after > 0) this.#retry = after * 1000;
    // What the server may answer otherwise in a moment: it is busy, or something before it is out of order.
    if ([408, 425, 429].includes(response.status) || response.status >= 500) throw new Error(refused.message);
    throw refused;
  }

  /** @param {Response} response */
  async #read(response) {
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    const decoder = new TextDecoder();
    const parser = new EventStreamParser();
    this.#set("open", "");
    try {
      while (this.state.end === null) {
        const { done, value } = await this.#orSilence(reader.read());
        if (done) break;
        for (const message of parser.push(decoder.decode(value, { stream: true }))) this.#take(message);
        this.#retry = parser.retry ?? this.#retry;
      }
    } finally {
      reader.cancel().catch(() => {}); // it is gone, or about to be
    }
  }

  #readByEventSource() {
    const source = new EventSource(this.#url(`runs/${this.runId}/events?after=${this.state.lastSeq}`), {
      withCredentials: true,
    });
    const take = (/** @type {MessageEvent} */ message) => {
      this.#take({ event: message.type, data: message.data, id: message.lastEventId });
      if (this.state.end !== null) this.#end("ended", "");
    };
    for (const type of EVENT_TYPES) source.addEventListener(type, take);
    source.onopen = () => this.#set("open", "");
    source.onerror = () => {
      this.#failures += 1;
      if (source.readyState === EventSource.CLOSED || this.#failures >= this.#options.attempts) {
        this.#end("lost", "the server refused the stream, or could not be reached");
      } else {
        this.#set("waiting", "the connection was lost"); // it reconnects by itself, with the last id
      }
    };
    this.#abort.signal.addEventListener("abort", () => source.close());
  }

  /** @param {import("./event-stream.js").Message} message */
  #take(message) {
    const { event, damage } = readMessage(message);
    this.#failures = 0;
    if (damage !== "none") this.#options.onDamage({ text: message.data, event, isWhole: damage === "repaired" });
    const call = this.state.take(event, performance.now(), damage, message.data);
    this.#options.onChange(this.state, call, event);
  }

  /** @template T @param {Promise<T>} reading @returns {Promise<T>} */
  async #orSilence(reading) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const silence = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the connection has gone silent")), this.#options.silence);
    });
    try {
      return /** @type {T} */ (await Promise.race([reading, silence]));
    } finally {
      clearTimeout(timer);
    }
  }

  #delay() {
    const { firstDelay, longestDelay } = this.#options;
    const base = Math.min(longestDelay, firstDelay * 2 ** (this.#failures - 1));
    // Readers that were cut off together should not all come back together.
    return Math.max(this.#retry ?? 0, base * (0.5 + Math.random() / 2));
  }

  /** @param {number} milliseconds */
  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#abort.signal.addEventListener("abort", () => (clearTimeout(timer), resolve(undefined)), { once: true });
    });
  }

  /** @param {string} path */
  #url(path) {
    const { base } = this.#options;
    return base === "" || base.endsWith("/") ? base + path : `${base}/${path}`;
  }

  /** @param {RequestInit} init @returns {RequestInit} */
  #init(init) {
    const type = init.body === undefined ? {} : { "Content-Type": "application/json" };
    return { cache: "no-store", ...init, headers: { ...this.#options.headers, ...type, .../** @type {any} */ (init.headers) } };
  }

  /** @param {Connection} connection @param {string} why */
  #set(connection, why) {
    if (connection === this.connection && why === "") return;
    this.connection = connection;
    this.#options.onConnection(connection, why);
  }

  /** @param {Connection} connection @param {string} why */
  #end(connection, why) {
    if (["ended", "lost", "closed"].includes(this.connection)) return;
    clearInterval(this.#watch);
    this.#abort.abort();
    if (connection === "lost") {
      for (const call of this.state.lose()) this.#options.onChange(this.state, call, null);
    }
    this.#set(connection, why);
    this.#settle(this.state);
  }
}

/** The names of the events; EventSource wants a listener for each. */
const EVENT_TYPES = [
  "thinking", "tool_arguments", "tool_call", "tool_execution", "tool_fallback", "tool_result", "tool_error",
  "final_answer", "gap", "run_ended",
];

/** What a refusal says of itself. @param {Response} response @returns {Promise<Refused>} */
export async function refusal(response) {
  const text = await response.text().catch(() => "");
  const { status } = response;
  let said = `the server answered ${status} ${response.statusText ?? ""}`.trim();
  let issues = [];
  try {
    const body = JSON.parse(text);
    if (typeof body.detail === "string") said = body.detail;
    if (Array.isArray(body.issues)) issues = body.issues;
  } catch {
    // No JSON: a proxy's page, perhaps.
  }
  if (status === 401) said = `you are not signed in, or no longer (401): ${said}`;
  return Object.assign(new Refused(said), { status, issues });
}
