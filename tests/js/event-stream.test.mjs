// The framing of server-sent events, and what is left of a message that was damaged.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EventStreamParser, readMessage } from "../../fsm_engine/server/static/tool-stream.js";

const WIRE =
  "\uFEFFevent: tool_call\r\nid: 1\r\ndata: {\"a\":1}\r\n\r\n" +
  ": ping\n\n" +
  "data: one\ndata:two\ndata\n\n" +
  "id: 2\rdata: three\r\r" +
  "event: nothing\nid: 3\n\n" +
  "data: four\nid: x\0y\nretry: 250\nretry: soon\nunknown: field\n\n" +
  "data: never finished\n";

const MESSAGES = [
  { event: "tool_call", data: '{"a":1}', id: "1" },
  { event: "message", data: "one\ntwo\n", id: "1" },
  { event: "message", data: "three", id: "2" },
  { event: "message", data: "four", id: "3" },
];

test("the standard's framing: three kinds of line ends, comments, several data lines, ids that stay in force", () => {
  const parser = new EventStreamParser();
  assert.deepEqual(parser.push(WIRE), MESSAGES);
  assert.equal(parser.retry, 250);
});

test("however the text is cut into two or into single characters, the messages are the same", () => {
  for (let cut = 0; cut <= WIRE.length; cut += 1) {
    const parser = new EventStreamParser();
    assert.deepEqual([...parser.push(WIRE.slice(0, cut)), ...parser.push(WIRE.slice(cut))], MESSAGES, `cut at ${cut}`);
  }
  const parser = new EventStreamParser();
  assert.deepEqual([...WIRE].flatMap((letter) => parser.push(letter)), MESSAGES);
});

const RESULT = {
  type: "tool_result", seq: 9, at: 1.5, id: "call_1", uid: "inv_1",
  result: { status: "success", text: "a \"quoted\" \u00e9\n\\ \ud83d\ude00", data: [1, -2.5e3, true, null, {}, []] }, status: "success",
};
const TEXT = JSON.stringify(RESULT);
const read = (data) => readMessage({ event: "tool_result", data, id: "9" });

test("a sound message is read as it is", () => {
  assert.deepEqual(read(TEXT), { event: RESULT, damage: "none" });
});

test("a message cut off anywhere keeps all that came before the cut, and finds its place by its frame", () => {
  const idEnd = TEXT.indexOf('"call_1"') + 8;
  for (let cut = 0; cut < TEXT.length; cut += 1) {
    const { event, damage } = read(TEXT.slice(0, cut));
    assert.equal(damage, "cut", `cut at ${cut}`);
    assert.equal(event.type ?? "tool_result", cut < 21 ? event.type : "tool_result");
    assert.equal(event.seq, 9);
    if (cut >= idEnd) assert.equal(event.id, "call_1");
    const said = event.result?.text;
    if (said !== undefined) assert.ok(RESULT.result.text.startsWith(said), `cut at ${cut}: ${said}`);
  }
  assert.equal(read(TEXT.slice(0, -12)).event.result.data.length, 6);
});

const DAMAGED = [
  ["raw line ends and control characters in a text", '{"id":"c","text":"a\nb\u0001"}', { id: "c", text: "a\nb\u0001" }, "repaired"],
  ["NaN and Infinity, which are no JSON", '{"id":"c","data":[NaN,-Infinity,1]}', { id: "c", data: [null, null, 1] }, "repaired"],
  ["something before and after it", 'xx{"id":"c"}yy', { id: "c" }, "repaired"],
  ["a quotation mark too many", '{"id":"c","text":"a"b","uid":"u"}', { id: "c", text: "a", uid: "u" }, "cut"],
  ["rubbish before the result", '{"id":"c",###,"result":{"text":"42"},"uid":"u"}', { id: "c", uid: "u", result: { text: "42" } }, "cut"],
  ["no JSON at all", "<html>", {}, "cut"],
  ["nothing", "", {}, "cut"],
  ["a list", "[1,2]", {}, "cut"],
  ["a number", "7", {}, "cut"],
];

for (const [what, data, recovered, damage] of DAMAGED) {
  test(`damage: ${what}`, () => {
    const reading = read(data);
    assert.equal(reading.damage, damage);
    assert.deepEqual(reading.event, { ...recovered, type: "tool_result", seq: 9 });
  });
}

test("depth does not exhaust the stack, and __proto__ is a field like any other", () => {
  assert.equal(read(`{"id":"c","data":${"[".repeat(100_000)}`).event.id, "c");
  const { event } = read('{"__proto__":{"polluted":true},"id":"c",');
  assert.equal(event.polluted, undefined);
  assert.equal({}.polluted, undefined);
});
