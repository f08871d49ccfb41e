// What is known of a run, gathered from its events. No network, no page, no clock: times are handed in.

import { membersOf } from "./exact-json.js";

/**
 * One state that a call has entered.
 *
 * @typedef {object} Step
 * @property {string} state
 * @property {number} at        seconds since the epoch, by the server's clock
 * @property {number} attempt   0 before the first
 * @property {string} remark    why, or how long: "circuit_breaker_open", "retry in 0.4 s"
 */

/**
 * One tool call.
 *
 * @typedef {object} CallState
 * @property {string} key         what it is filed under: `uid`, or `id` until the engine has named it
 * @property {string} id          the model's id; may come again in a later turn
 * @property {string | null} uid  the engine's own, unique
 * @property {string} name        of the tool; "" until it is known
 * @property {Record<string, unknown> | null} arguments
 * @property {() => Map<string, string>} argumentTexts  the same by name, each as exact JSON text; read when it is asked for
 * @property {string} written     the text of the arguments as far as the model has written it
 * @property {string} state       where it is: "WRITING", then the states of its lifecycle
 * @property {number} attempt     0 before the first
 * @property {number | null} progress
 * @property {string} message     the tool's own words for its progress
 * @property {unknown[]} chunks   pieces of the present attempt's output
 * @property {Step[]} path        the states that it has entered
 * @property {number} startedAt   seconds since the epoch
 * @property {number | null} endedAt
 * @property {"success" | "partial" | "error" | null} status  null before the end
 * @property {Record<string, any> | null} result  the whole response of a success or partial
 * @property {Record<string, any> | null} error   code, message, ... of a failure
 * @property {string | null} fallback   why something else answers in the tool's place
 * @property {Record<string, unknown> | null} question  the arguments that a person is asked to agree to
 * @property {string | null} questionText  the same as exact JSON text, every character of it visible
 * @property {Record<string, any> | null} approval  what was decided: verdict, by whom, what was changed
 * @property {[string, string | null, string | null][]} changes  what that has changed: name, and JSON text before and after
 * @property {"late" | "never" | "unknown" | null} missing  no result: in time; at all, since the run is over; or none that
 *   could be heard of, since the run was lost
 * @property {boolean} isDamaged   a message about it arrived damaged; what is shown may lack something
 * @property {number} heardAt      when it was last heard of, in the reader's own milliseconds
 */

/**
 * What a person reads, in order: what the model says, and the calls that it makes.
 *
 * @typedef {{ kind: "thinking" | "answer", text: string } | { kind: "call", call: CallState }} Entry
 */

/** Pieces of output that are kept of one call. */
const CHUNKS_KEPT = 500;

/** Everything that is known of one run. */
export class RunState {
  /** Its calls in the order in which they began. @type {Map<string, CallState>} */
  calls = new Map();
  /** @type {Entry[]} */
  entries = [];
  /** The number of the newest event. */
  lastSeq = 0;
  /** How many events the server left out because they were out of date: progress, pieces of text. */
  coalesced = 0;
  /** How many events never came that would have mattered. */
  lost = 0;
  /** How many messages arrived damaged. */
  damaged = 0;
  /** How it ended: the terminal event; null before. @type {Record<string, any> | null} */
  end = null;

  /** The newest call of each id. @type {Map<string, CallState>} */
  #byId = new Map();
  /** What the model is saying: pieces until the whole of it comes. @type {{ kind: "thinking" | "answer", text: string } | null} */
  #draft = null;

  /**
   * @param {object} [options]
   * @param {number} [options.resultTimeout]  milliseconds of silence after which a call is marked as late
   * @param {number} [options.after]  the number of the last event that need not be known
   */
  constructor({ resultTimeout = 60_000, after = 0 } = {}) {
    this.resultTimeout = resultTimeout;
    this.lastSeq = after;
  }

  /** The final answer; "" until it is there. */
  get answer() {
    const entry = this.entries.findLast((each) => each.kind === "answer");
    return entry?.kind === "answer" ? entry.text : "";
  }

  /**
   * Take an event in.
   *
   * @param {Record<string, any>} event
   * @param {number} now     the reader's own milliseconds
   * @param {import("./event-stream.js").Reading["damage"]} [damage]
   * @param {string} [text]  the JSON of the event: numbers that this language would round are read from it
   * @returns {CallState | null}  the call that it changed
   */
  take(event, now, damage = "none", text = "") {
    if (damage !== "none") this.damaged += 1;
    if (!this.#isNew(event)) return null;
    if (event.type === "thinking" && event.piece === true) this.#sayPiece(event.content);
    else if (event.type === "thinking") this.#sayWhole("thinking", event.content);
    else if (event.type === "final_answer") this.#sayWhole("answer", event.content);
    else if (event.type === "run_ended") this.#finish(event);
    else if (typeof event.id === "string" || typeof event.uid === "string") return this.#takeCallEvent(event, now, damage, text);
    return null;
  }

  /**
   * Mark the calls that have not been heard of for too long. One that waits for a person is not late.
   *
   * @param {number} now  the reader's own milliseconds
   * @returns {CallState[]}  those that are late since this moment
   */
  markLate(now) {
    const late = [...this.calls.values()].filter(
      (call) =>
        call.endedAt === null &&
        call.missing === null &&
        call.state !== "AWAITING_APPROVAL" &&
        now - call.heardAt >= this.resultTimeout,
    );
    for (const call of late) call.missing = "late";
    return late;
  }

  /**
   * Nothing more will be heard of the run: what has not ended may have, and nobody can decide anything.
   *
   * @returns {CallState[]}  the calls of which that is so
   */
  lose() {
    const open = [...this.calls.values()].filter((call) => call.endedAt === null && call.missing !== "never");
    for (const call of open) call.missing = "unknown";
    return open;
  }

  /**
   * Events come again after a reconnection; the numbers tell. A number that is left out without a word is a loss.
   *
   * @param {Record<string, any>} event
   */
  #isNew(event) {
    if (!Number.isInteger(event.seq)) return true;
    if (event.type === "gap") {
      this.#takeGap(event);
      return false;
    }
    if (event.seq <= this.lastSeq) return false;
    this.lost += event.seq - this.lastSeq - 1;
    this.lastSeq = event.seq;
    return true;
  }

  /** @param {Record<string, any>} gap */
  #takeGap(gap) {
    const missed = Number.isInteger(gap.missed) ? gap.missed : 0;
    if (gap.reason === "unknown_id") {
      // The server has never heard of the number that this reader had come to, and tells everything from the start.
      this.lastSeq = 0;
      this.calls.clear();
      this.#byId.clear();
      this.entries.length = 0;
      this.#draft = null;
    } else if (gap.seq > this.lastSeq) {
      if (gap.reason === "lost") this.lost += missed;
      else this.coalesced += missed;
      this.lastSeq = gap.seq + Math.max(missed, 1) - 1;
    }
  }

  /** @param {unknown} content */
  #sayPiece(content) {
    if (typeof content !== "string") return;
    if (this.#draft === null) {
      this.#draft = { kind: "thinking", text: "" };
      this.entries.push(this.#draft);
    }
    this.#draft.text += content;
  }

  /** The whole stands in the place of its pieces. @param {"thinking" | "answer"} kind @param {unknown} content */
  #sayWhole(kind, content) {
    if (typeof content !== "string") return;
    if (this.#draft === null) this.entries.push({ kind, text: content });
    else Object.assign(this.#draft, { kind, text: content });
    this.#draft = null;
  }

  /** @param {Record<string, any>} event */
  #finish(event) {
    this.end = event;
    this.#draft = null;
    for (const call of this.calls.values()) if (call.endedAt === null) call.missing = "never";
  }

  /** @param {Record<string, any>} event @param {number} now @param {string} damage @param {string} text */
  #takeCallEvent(event, now, damage, text) {
    const call = this.#callOf(event, now);
    if (damage !== "none") call.isDamaged = true;
    if (call.endedAt !== null) return call; // nothing follows a result
    call.heardAt = now;
    call.missing = null;
    const take = HANDLERS[event.type];
    if (take !== undefined) take(call, event, damage === "none" ? text : "");
    return call;
  }

  /** @param {Record<string, any>} event @param {number} now @returns {CallState} */
  #callOf(event, now) {
    const known = typeof event.uid === "string" ? this.calls.get(event.uid) : undefined;
    if (known !== undefined) return known;
    const sameId = this.#byId.get(event.id);
    // The engine names a call when it starts; until then the model's id is all there is. An id that comes again after
    // its call has ended is another call's.
    if (sameId !== undefined && sameId.endedAt === null && (sameId.uid === null || typeof event.uid !== "string")) {
      if (typeof event.uid === "string") this.#rename(sameId, event.uid);
      return sameId;
    }
    if (sameId !== undefined && typeof event.uid !== "string" && event.type !== "tool_arguments" && event.type !== "tool_call") {
      return sameId;
    }
    return this.#begin(event, now);
  }

  /** @param {CallState} call @param {string} uid */
  #rename(call, uid) {
    // A map keeps the order of its keys, so a new key for an old place means making it anew; calls are few when it
    // happens, since it happens at their start.
    const all = [...this.calls];
    this.calls.clear();
    for (const [key, each] of all) this.calls.set(each === call ? uid : key, each);
    call.key = call.uid = uid;
  }

  /** @param {Record<string, any>} event @param {number} now @returns {CallState} */
  #begin(event, now) {
    const uid = typeof event.uid === "string" ? event.uid : null;
    const id = typeof event.id === "string" ? event.id : "";
    /** @type {CallState} */
    const call = {
      key: uid ?? (this.calls.has(id) ? `${id}#${this.calls.size}` : id),
      id, uid,
      name: "", arguments: null, argumentTexts: () => new Map(), written: "",
      state: "WRITING", attempt: 0, progress: null, message: "", chunks: [], path: [],
      startedAt: typeof event.at === "number" ? event.at : 0,
      endedAt: null, status: null, result: null, error: null, fallback: null, question: null, questionText: null, approval: null, changes: [],
      missing: null, isDamaged: false, heardAt: now,
    };
    this.calls.set(call.key, call);
    if (id !== "") this.#byId.set(id, call);
    this.entries.push({ kind: "call", call });
    return call;
  }
}

/** @type {Record<string, (call: CallState, event: Record<string, any>, text: string) => void>} */
const HANDLERS = {
  tool_arguments(call, event) {
    if (typeof event.name === "string" && event.name !== "") call.name = event.name;
    if (typeof event.delta === "string") call.written += event.delta;
  },
  tool_call(call, event, text) {
    call.name = String(event.name ?? call.name);
    if (isObject(event.arguments)) call.arguments = event.arguments;
    call.argumentTexts = () => membersOf(membersOf(text).get("arguments") ?? "");
    if (typeof event.at === "number") call.startedAt = event.at;
    enter(call, "PENDING", event);
  },
  tool_execution(call, event, text) {
    if (event.chunk !== undefined) {
      if ((event.attempt ?? 0) > call.attempt) call.chunks = []; // a later attempt voids what an earlier one said
      call.chunks.push(event.chunk);
      if (call.chunks.length > CHUNKS_KEPT) call.chunks.shift();
    }
    if (typeof event.progress === "number") call.progress = event.progress;
    if (typeof event.message === "string") call.message = event.message;
    if (Number.isInteger(event.attempt) && event.attempt > call.attempt) {
      call.attempt = event.attempt;
      if (event.chunk === undefined) call.chunks = [];
    }
    if (event.chunk !== undefined || event.progress !== undefined || event.message !== undefined) return;
    if (typeof event.status !== "string") return;
    call.progress = null;
    call.message = "";
    if (isObject(event.arguments)) call.question = event.arguments;
    if (event.status === "AWAITING_APPROVAL") call.questionText = typeof event.arguments_json === "string" ? event.arguments_json : null;
    if (isObject(event.approval)) takeDecision(call, event.approval, text);
    const remark = typeof event.delay === "number" ? `next attempt in ${seconds(event.delay)}` : "";
    enter(call, event.status, event, event.status === "FALLING_BACK" ? (call.fallback ?? "") : remark);
  },
  tool_fallback(call, event) {
    call.fallback = String(event.reason ?? "");
    if (call.name === "" && typeof event.tool_name === "string") call.name = event.tool_name;
  },
  tool_result(call, event) {
    call.result = isObject(event.result) ? event.result : { text: event.result === undefined ? "" : String(event.result) };
    call.status = event.status === "partial" || call.result?.status === "partial" ? "partial" : "success";
    close(call, "COMPLETED", event);
  },
  tool_error(call, event, text) {
    if (call.name === "" && typeof event.tool_name === "string") call.name = event.tool_name;
    call.error = isObject(event.error) ? event.error : { code: "UNKNOWN", message: String(event.error ?? "") };
    call.status = "error";
    if (isObject(event.approval)) takeDecision(call, event.approval, text);
    close(call, call.error?.code === "CANCELLED" ? "CANCELLED" : "FAILED", event);
  },
};

/** @param {CallState} call @param {Record<string, any>} approval @param {string} text */
function takeDecision(call, approval, text) {
  call.approval = approval;
  const exact = membersOf(membersOf(text).get("approval") ?? "");
  if (isObject(approval.arguments)) {
    call.arguments = approval.arguments;
    call.argumentTexts = () => membersOf(exact.get("arguments") ?? "");
  }
  call.changes = [...membersOf(exact.get("changed") ?? "")].map(([name, change]) => {
    const sides = membersOf(change);
    return [name, sides.get("from") ?? null, sides.get("to") ?? null];
  });
}

/** @param {CallState} call @param {string} state @param {Record<string, any>} event @param {string} [remark] */
function enter(call, state, event, remark = "") {
  call.state = state;
  call.path.push({ state, at: event.at ?? call.path.at(-1)?.at ?? call.startedAt, attempt: call.attempt, remark });
}

/** @param {CallState} call @param {string} state @param {Record<string, any>} event */
function close(call, state, event) {
  enter(call, state, event);
  call.endedAt = call.path.at(-1)?.at ?? call.startedAt;
  call.progress = null;
  call.missing = null;
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/**
 * A length of time as people write it.
 *
 * @param {number} length  seconds
 */
export function seconds(length) {
  if (length < 0.0005) return "<1 ms";
  if (length < 0.0995) return `${Math.round(length * 1000)} ms`;
  if (length < 9.995) return `${length.toFixed(2)} s`;
  return length < 119.5 ? `${length.toFixed(1)} s` : `${Math.round(length / 60)} min`;
}
