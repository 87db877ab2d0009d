/**
 * Keeps the list of a room from what the server sends: who is present of those that share with everyone.
 *
 * Subscribe to the room's feed, then `catchUp` and `read`; pass each message to `hear`, and `read` when it needs something.
 */
import { isUtf8 } from "node:buffer";

export const NO_ROOM = "0".repeat(16);

export class RoomView {
  /** What has to be read before the list is right: "pages" (all of MEMBERS), "changes", or null. */
  needs = "pages";
  /** The list is the server's at (epoch, seq). */
  epoch = NO_ROOM;
  seq = 0;
  /** Members present, named or not, as the last message said. */
  count = null;
  #members = null;
  #held = [];
  #missed = false;
  #reading = null;

  constructor(key) {
    this.key = key;
  }

  /** Of each member `{ member, status, data }`; null where the feed names nobody. What is not UTF-8 is a Buffer. */
  get list() {
    return this.#members && [...this.#members.values()];
  }

  /** When the subscription stands, when it stands again, and now and then: the last message before a silence may be lost,
   * and nothing tells of it. */
  catchUp() {
    this.#missed = true;
    this.needs ??= "changes";
  }

  /** Takes in a message of the feed, JSON or parsed. Answers what is needed now. */
  hear(message) {
    this.#held.push(typeof message === "string" || Buffer.isBuffer(message) ? JSON.parse(message) : message);
    return this.#settle();
  }

  /** The replies of MEMBERS, from the first page to the last. Answers what is needed now. */
  takePages(pages) {
    const epochs = new Set(pages.map((page) => text(page[1])));
    if (epochs.size > 1) return this.needs; // another room by now
    // Events after the first page may be in the later ones already: they say the same again.
    [[this.epoch], this.seq, this.count, this.#members] = [[...epochs], Number(pages[0][2]), null, new Map()];
    for (const entry of pages.flatMap((page) => page[3])) this.#show(fields(entry));
    this.needs = null;
    return this.#settle();
  }

  /** The reply of CHANGES; null if that was an error. Answers what is needed now. */
  takeChanges(reply) {
    if (reply === null) return this.#startOver();
    const { seq, events } = fields(reply);
    const moved = Number(seq) > this.seq;
    if (moved && !this.#members) return this.#startOver();
    for (const event of events) this.#apply(fields(event));
    // Told once more of what it knows, it has them all.
    this.needs = moved ? "changes" : null;
    this.seq = Number(seq);
    return this.#settle();
  }

  /** Reads what is needed until nothing is. `await call(...words)` sends a command to the primary (without a cluster, to the
   * replica that is subscribed to) and gives the reply or throws. Better as Buffers, for not every id is text. */
  read(call) {
    return (this.#reading ??= this.#readAll(call));
  }

  async #readAll(call) {
    await null; // until `#reading` is set
    try {
      while (this.needs) {
        this.#missed = false;
        if (this.needs === "pages") {
          const pages = [];
          do {
            const cursor = pages.at(-1)?.[0] ?? "0";
            pages.push(await call("PRESENCE.MEMBERS", this.key, "CURSOR", cursor, "COUNT", "1000"));
          } while (text(pages.at(-1)[0]) !== "0");
          this.takePages(pages);
        } else {
          const changes = call("PRESENCE.CHANGES", this.key, this.epoch, String(this.seq));
          this.takeChanges(await changes.catch((error) => (error.message.startsWith("RESYNC") ? null : Promise.reject(error))));
        }
        if (this.#missed) this.catchUp(); // that was called in the middle of the read
      }
    } finally {
      this.#reading = null;
    }
  }

  #settle() {
    while (this.#held.length > 0 && !this.needs) this.#hear(this.#held.shift());
    return this.needs;
  }

  #startOver() {
    this.#held = []; // what has arrived by now will be in what is read
    return (this.needs = "pages");
  }

  #hear(message) {
    const { epoch, from, seq, count, events } = message;
    const known = epoch === this.epoch;
    if (message.gone) {
      // The room of that name may be a new one already.
      if (!known && this.epoch !== NO_ROOM) this.#startOver();
      else [this.epoch, this.seq, this.count, this.#members] = [NO_ROOM, 0, 0, new Map()];
    } else if (known && seq <= this.seq && this.#members) {
      if (seq === this.seq) this.count = count;
    } else if (message.mode === "interval") {
      [this.epoch, this.seq, this.count, this.#members] = [epoch, seq, count, null];
    } else if (!known || message.resync || !this.#members) {
      this.#startOver();
    } else if (from > this.seq + 1) {
      this.#held.unshift(message);
      this.needs = "changes";
    } else {
      for (const event of events) if (event.seq > this.seq) this.#apply(event);
      [this.seq, this.count] = [seq, count];
    }
  }

  #apply(event) {
    if (text(event.event) === "offline") this.#members.delete(keyOf(shown(event).member));
    else this.#show(event);
  }

  #show(entry) {
    const { member, status, data } = shown(entry);
    this.#members.set(keyOf(member), { member, status, data });
  }
}

/** A map of a reply, RESP2 or RESP3, as an object. */
export function fields(reply) {
  if (reply instanceof Map) reply = [...reply].flat();
  if (!Array.isArray(reply)) return reply;
  return Object.fromEntries(reply.flatMap((name, i) => (i % 2 ? [] : [[text(name), reply[i + 1]]])));
}

/** Subscribes (a client of node-redis or alike) to the channel of that kind ("count", "feed", "member") in a reply of
 * CHANNELS, with the verb that it says. */
export function subscribe(client, reply, kind, listener) {
  const channels = fields(reply);
  const sharded = text(channels.verb) === "SSUBSCRIBE";
  return client[sharded ? "sSubscribe" : "subscribe"](text(channels[kind]), listener);
}

/** Member, status and data of an event or a reply, as text or Buffer. */
function shown({ member, member64, status = "", data = "", data64 }) {
  const decoded = (plain, base64) => (base64 === undefined ? text(plain) : Buffer.from(base64, "base64"));
  return { member: decoded(member, member64), status: text(status), data: decoded(data, data64) };
}

function text(value) {
  return Buffer.isBuffer(value) && isUtf8(value) ? value.toString() : value;
}

/** Equal for equal bytes, which Buffers are not. */
function keyOf(member) {
  return Buffer.from(member).toString("latin1");
}
