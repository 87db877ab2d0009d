// The browser's side of docs/gateway.md: a connection that proves that its user is present, is made anew as often as it is
// lost, and hears of badges and dots. Needs no package; timer.js lies beside it.
//
//   const presence = new Presence({ token: async () => …, room: "gig:42", share: "friends" });
//   presence.addEventListener("count", ({ detail }) => show(detail.badge));
//   presence.addEventListener("member", ({ detail }) => dot(detail.member, detail.state));
//   presence.addEventListener("state", ({ detail }) => grey(detail.state !== "here"));
//   presence.watchRoom("gig:42");
//   presence.watch(["bo", "carl"]); // the dots on the screen now, no others
//   presence.open();
//
// Events: `count`, `member`, `refused` and `error` with the gateway's message as `detail`, and `state`, whose
// `detail.state` is one of
//   connecting   not connected, now or yet: what was shown before may be wrong by now
//   here         the gateway has said welcome; all that is watched is told again after it or was just before it
//   refused      connected, but the room takes nobody now; the gateway goes on trying
//   left         the user has left, or the gateway has closed; `open` comes back
//   ended        coming back would be of no use: `detail.reason` says why

// ms that a token, and then a welcome, may take: little at first, since the browser may ask on a line that is dead
const PATIENCE = { first: 4_000, most: 15_000 };
const RETRY = { first: 500, most: 30_000 }; // ms: bounds of the delay before the first retry, and before any
const RESTART = 300; // ms over which those spread whose gateway went down: another one is there already
const FULL = 10_000; // ms that a gateway with too much to do is left alone, at least
const QUIET = 30_000; // ms between looks at the line, if there is no room to beat for
const SLEPT = 5_000; // ms by which a beat is late if the machine slept rather than was busy, at least
const ANEW = 4000; // status of our own closes that are no goodbye

export class Presence extends EventTarget {
  #options;
  #url;
  #share;
  #members = new Set();
  #rooms = new Set();
  #timer = new Worker(new URL("./timer.js", import.meta.url));
  #state = "left";
  #error = null; // the last one that the gateway told
  #attempt = null; // an object for each attempt to connect, null while none is under way or stands
  #socket = null;
  #failures = 0; // since a connection last stood for a beat
  #every = QUIET; // ms between beats
  #beats = false; // whether there is a room to beat for
  #due = Infinity; // when the next beat is, by Date.now(), which goes on while the machine sleeps
  #heard = 0; // when the gateway last said something

  /**
   * `token(signal)` resolves to a fresh token, for each connection; to null if the user may not connect at all. If it
   * rejects it is asked again later. `url` is the gateway's. `room`, `share` and `status` are those of the hello.
   * `signal`, an AbortSignal, takes leave and ends all that the object does.
   */
  constructor({ token, url = "/ws", room, share, status, signal }) {
    super();
    this.#options = { token, room, status };
    this.#url = new URL(url, location.href);
    this.#url.protocol = this.#url.protocol.replace("http", "ws");
    this.#share = share;
    this.#timer.onmessage = ({ data }) => this.#ring(data);
    addEventListener("pagehide", () => this.#hide(), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && this.#anew(), { signal });
    // Whichever it is, the line may not be the one that the socket was made on.
    addEventListener("online", () => this.#anew(), { signal });
    addEventListener("offline", () => this.#anew(), { signal });
    document.addEventListener("visibilitychange", () => document.hidden || this.#wake(), { signal });
    document.addEventListener("resume", () => this.#wake(), { signal });
    signal?.addEventListener("abort", () => (this.leave(), this.#timer.terminate()));
  }

  /** One of the states above. */
  get state() {
    return this.#state;
  }

  /** Connects, and connects again, until `leave` or a reason to end. */
  open() {
    if (this.#open) return;
    this.#failures = 0;
    this.#connect();
  }

  /** Says goodbye: others see it at once. */
  leave() {
    if (!this.#open) return;
    this.#say({ type: "bye" });
    this.#drop(1000);
    this.#tell("left");
  }

  /** Changes who may see the user: `nobody`, `friends` or `everyone`. */
  share(share) {
    this.#share = share;
    this.#say({ type: "share", share });
  }

  /** Asks for the dots of these members, who are on the screen from now on. */
  watch(members) {
    const added = members.filter((member) => !this.#members.has(member));
    for (const member of added) this.#members.add(member);
    if (added.length) this.#say({ type: "watch", members: added });
  }

  /** These members are not on the screen any more. */
  unwatch(members) {
    const gone = members.filter((member) => this.#members.delete(member));
    if (gone.length) this.#say({ type: "unwatch", members: gone });
  }

  /** Asks for the badge of a room. */
  watchRoom(room) {
    this.#rooms.add(room);
    this.#say({ type: "watch_room", room });
  }

  /** The room's badge is not on the screen any more. */
  unwatchRoom(room) {
    if (this.#rooms.delete(room)) this.#say({ type: "unwatch_room", room });
  }

  get #open() {
    return this.#state !== "left" && this.#state !== "ended";
  }

  async #connect() {
    this.#drop(ANEW);
    const attempt = (this.#attempt = {});
    this.#tell("connecting");
    const patience = Math.min(PATIENCE.most, PATIENCE.first * 2 ** this.#failures);
    this.#after("late", 2 * patience);
    let token;
    try {
      token = await this.#options.token(AbortSignal.timeout(patience));
    } catch {
      if (attempt === this.#attempt) this.#retry();
      return;
    }
    if (attempt !== this.#attempt) return;
    if (token === null) return this.#end("the user may not connect");
    this.#error = null;
    const socket = (this.#socket = new WebSocket(this.#url));
    socket.onopen = () => {
      const { room, status } = this.#options;
      this.#say({ type: "hello", token, room, share: this.#share, status });
      for (const room of this.#rooms) this.#say({ type: "watch_room", room });
      if (this.#members.size) this.#say({ type: "watch", members: [...this.#members] });
    };
    socket.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    socket.onclose = ({ code }) => this.#closed(code);
  }

  #hear(message) {
    this.#heard = Date.now();
    switch (message.type) {
      case "welcome":
        this.#after("late");
        this.#beats = message.beat !== undefined;
        this.#every = message.beat ?? QUIET;
        this.#beatLater();
        this.#tell("here");
        break;
      case "refused":
        this.#after("late");
        this.#beats = true; // the gateway tries with each beat
        this.#beatLater();
        this.#tell("refused");
        break;
      case "error":
        if (message.code !== "ignored") this.#error = message.message;
        break;
    }
    this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
  }

  #closed(status) {
    this.#socket = null;
    if (status === 1000) {
      this.#drop();
      this.#tell("left");
    } else if (status === 1008 || status === 1009) {
      this.#end(this.#error ?? `the gateway closed with ${status}`);
    } else if (status === 1012 && this.#failures === 0) {
      this.#retry(0, RESTART);
    } else if (status === 1013) {
      this.#retry(FULL);
    } else {
      this.#retry();
    }
  }

  #ring(name) {
    if (name === "again") this.#connect();
    else if (name === "late") this.#retry();
    else if (name === "beat") this.#beat();
  }

  #beat() {
    if (this.#asleep()) return this.#anew();
    // A line can die without a word, and a beat has no answer: after a silence ask for one, then believe no longer in it.
    const silence = (Date.now() - this.#heard) / this.#every;
    const [room] = this.#rooms;
    const [member] = this.#members;
    const question = room ? { type: "watch_room", room } : member && { type: "watch", members: [member] };
    if (silence > 4.5 && question) return this.#anew();
    if (this.#beats) this.#say({ type: "beat" });
    if (silence > 1.5 && question) this.#say(question);
    this.#failures = 0;
    this.#beatLater();
  }

  #beatLater() {
    this.#due = Date.now() + this.#every;
    this.#after("beat", this.#every);
  }

  #asleep() {
    return Date.now() - this.#due > Math.max(2 * this.#every, SLEPT);
  }

  /** Somebody looks at the page again, or it may run again. */
  #wake() {
    if (this.#open && (!this.#attempt || this.#asleep())) this.#anew();
  }

  /** The page goes, perhaps into the browser's cache of pages; the user may be back in a moment. */
  #hide() {
    if (!this.#open) return;
    this.#say({ type: "bye", soft: true });
    this.#drop(ANEW);
    this.#tell("connecting");
  }

  #anew() {
    if (!this.#open) return;
    this.#failures = 0;
    this.#connect();
  }

  /** Connects after a random time below a bound that doubles with each failure, or between `least` and `most` ms. */
  #retry(least = 0, most = least + Math.min(RETRY.most, RETRY.first * 2 ** this.#failures)) {
    this.#drop(ANEW);
    this.#failures += 1;
    this.#tell("connecting");
    this.#after("again", least + Math.random() * (most - least));
  }

  #end(reason) {
    this.#drop(ANEW);
    this.#tell("ended", reason);
  }

  /** Forgets the connection and all that is due. */
  #drop(status) {
    for (const name of ["again", "late", "beat"]) this.#after(name);
    this.#attempt = null;
    this.#due = Infinity;
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(status);
  }

  #say(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #tell(state, reason) {
    if (state === this.#state) return;
    this.#state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: { state, reason } }));
  }

  #after(name, after) {
    this.#timer.postMessage({ name, after });
  }
}
