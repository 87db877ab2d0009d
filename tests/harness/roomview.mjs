/** Lets a test drive the JavaScript RoomView: a line of JSON in for each thing to do, a line out for what comes of it. */
import { createInterface } from "node:readline";
import { RoomView } from "../../clients/js/roomview.mjs";

let view;
let answer; // takes the reply to the call that is under way
let reading = false;
const lines = createInterface({ input: process.stdin });
const tell = (word) => process.stdout.write(JSON.stringify(word, wrapped) + "\n");

/** Bytes travel as base64, both ways. */
function wrapped(_, value) {
  return value?.type === "Buffer" ? { bytes: Buffer.from(value.data).toString("base64") } : value;
}
function unwrapped(_, value) {
  return value?.bytes === undefined ? value : Buffer.from(value.bytes, "base64");
}

function call(...words) {
  tell({ call: words });
  return new Promise((resolve, reject) => (answer = { resolve, reject }));
}

async function read() {
  reading = true;
  try {
    await view.read(call);
    tell({ done: true });
  } catch (error) {
    tell({ failed: error.message });
  }
  reading = false;
}

lines.on("line", (line) => {
  const todo = JSON.parse(line, unwrapped);
  if (todo.begin) view = new RoomView(todo.begin);
  else if (todo.hear) {
    view.hear(todo.hear);
    // As listeners do, which know of nothing: one read at a time is made of it.
    if (reading) view.read(call).catch(() => {});
  } else if (todo.catchUp) view.catchUp();
  else if (todo.reply !== undefined) answer.resolve(todo.reply);
  else if (todo.error) answer.reject(new Error(todo.error));
  else if (todo.read) read();
  else tell({ needs: view.needs, epoch: view.epoch, seq: view.seq, count: view.count, list: view.list });
});
