// The playground: settings out, the story of the engine back, a picture and figures of it. Nothing is computed here that
// the engine could tell.

const STOPS = userStops(1e3, 1e9);
const AGAIN_MS = 2000;
const QUIET_MS = 400;

const byId = (id) => document.getElementById(id);
const form = byId("settings");
const results = byId("results");
const page = byId("story");

// Settings: the controls hold them, the fragment repeats them, so that a story can be linked.

/** Round numbers up to `most`, six for each power of ten. */
function userStops(least, most) {
  const stops = [];
  for (let power = least; power < most; power *= 10) {
    stops.push(...[1, 1.5, 2, 3, 5, 7].map((times) => times * power));
  }
  return [...stops, most];
}

function readControls() {
  return {
    heartbeat: Number(byId("heartbeat").value),
    grace: Number(byId("grace").value),
    goodbye: byId("goodbye").checked,
    audience: form.elements.audience.value,
    users: STOPS[Number(byId("users").value)],
  };
}

function writeControls(settings) {
  byId("heartbeat").value = settings.heartbeat;
  byId("grace").value = settings.grace;
  byId("goodbye").checked = settings.goodbye;
  form.elements.audience.value = settings.audience;
  const far = (stop) => Math.abs(Math.log(stop / settings.users));
  byId("users").value = STOPS.reduce((best, stop, at) => (far(stop) < far(STOPS[best]) ? at : best), 0);
}

const DEFAULTS = { heartbeat: 5, grace: 0, goodbye: false, audience: "friends", users: 1e7 };

/** What a fragment says; what it does not, or not well, is as by default. */
function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => {
    const value = Number(given.get(name) ?? NaN);
    return Number.isFinite(value) && (name === "grace" ? value >= 0 : value > 0) ? value : DEFAULTS[name];
  };
  return {
    heartbeat: number("heartbeat"),
    grace: number("grace"),
    goodbye: given.get("goodbye") === "yes",
    audience: given.get("audience") === "screen" ? "screen" : "friends",
    users: number("users"),
  };
}

function fragment({ heartbeat, grace, goodbye, audience, users }) {
  return `heartbeat=${heartbeat}&grace=${grace}&goodbye=${goodbye ? "yes" : "no"}&audience=${audience}&users=${users}`;
}

function labelControls(settings) {
  const say = (id, text, spoken) => {
    byId(`${id}-text`).textContent = text;
    byId(id).setAttribute("aria-valuetext", spoken);
  };
  const timeout = 2 * settings.heartbeat;
  say("heartbeat", `${settings.heartbeat} s`, `${settings.heartbeat} seconds, timeout ${timeout} seconds`);
  say("grace", `${settings.grace} s`, `${settings.grace} seconds`);
  say("users", short(settings.users), settings.users.toLocaleString("en"));
  byId("timeout-text").textContent = `${timeout} s`;
  for (const button of form.querySelectorAll("button")) {
    const { heartbeat, grace } = button.dataset;
    const chosen = heartbeat == settings.heartbeat && grace == settings.grace && !settings.goodbye;
    button.setAttribute("aria-pressed", String(chosen));
  }
}

// Words.

/** `2 M`, `167 K`: three digits, as far as it is long. */
function short(number) {
  if (number < 1e4) return number.toLocaleString("en", { maximumFractionDigits: 1 });
  const [power, unit] = [[1e9, " G"], [1e6, " M"], [1e3, " K"]].find(([power]) => number >= power) ?? [1, ""];
  return `${Number((number / power).toPrecision(3))}${unit}`;
}

/** Kept on one line. */
const whole = (text) => text.replaceAll(" ", "\u00a0");

const seconds = (ms) => `${Number((ms / 1000).toFixed(1))} s`;

/** `7:47` */
function clock(ms) {
  const whole = Math.floor(ms / 1000);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

const times = (number) => (number === 1 ? "once" : `${number} times`);

/** The picture in words. */
function describe({ figures, settings, drops }) {
  const { false_departures: wrong, flickers_hidden: hidden, delay } = figures;
  const shown =
    wrong === 0
      ? `None of the ${drops.length} drops was shown as a departure.`
      : `Friends were told ${times(wrong)} that the phone had left, and then that it was back.`;
  const grace = hidden > 0 ? ` The grace hid ${hidden === 1 ? "one flicker" : `${hidden} flickers`}.` : "";
  const end = settings.goodbye
    ? " It said goodbye, and was shown gone at once."
    : ` When it left without a word, that was seen ${seconds(delay)} later.`;
  return shown + grace + end;
}

// The picture.

const NS = "http://www.w3.org/2000/svg";

function draw(parent, name, attributes, title) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (title !== undefined) {
    const text = document.createElementNS(NS, name === "text" ? "tspan" : "title");
    text.textContent = title;
    element.append(text);
  }
  parent.append(element);
  return element;
}

const BAND = 34;
const ABOVE = { y: 22, label: 14 };
const BELOW = { y: 92, label: 76 };
const AXIS = 146;

function drawStory(story) {
  const picture = byId("picture");
  const width = picture.clientWidth || 600;
  const x = (ms) => (ms / story.length) * width;
  picture.replaceChildren();
  picture.setAttribute("viewBox", `0 0 ${width} ${AXIS + 20}`);

  const stripes = draw(draw(picture, "defs", {}), "pattern", {
    id: "stripes",
    width: 6,
    height: 6,
    patternUnits: "userSpaceOnUse",
  });
  draw(stripes, "rect", { width: 6, height: 6, class: "online" });
  draw(stripes, "rect", { x: 3, width: 3, height: 6, class: "stripe" });

  const axis = draw(picture, "g", {});
  for (let minute = 0; minute <= story.length / 60_000; minute += 5) {
    const at = x(minute * 60_000);
    draw(axis, "line", { x1: at, x2: at, y1: ABOVE.y, y2: AXIS, class: "tick" });
    const anchor = minute === 0 ? "start" : at > width - 1 ? "end" : "middle";
    const text = at > width - 1 && width > 480 ? `${minute} min` : `${minute}`;
    draw(axis, "text", { x: at, y: AXIS + 16, "text-anchor": anchor, class: "quiet" }, text);
  }
  draw(picture, "text", { x: 0, y: ABOVE.label }, "What happened");
  draw(picture, "text", { x: 0, y: BELOW.label }, "What friends were shown");

  /** A part of a band, at least two pixels wide, its height as a share of the band's. */
  const part = (band, span, kind, title, height = 1, attributes = {}) => {
    const from = x(span.from);
    const wide = Math.max(x(Math.min(span.to, story.length)) - from, 2);
    const y = band.y + BAND * (1 - height);
    return draw(picture, "rect", { x: from, y, width: wide, height: BAND * height, class: kind, ...attributes }, title);
  };
  const when = (span) => `${clock(span.from)} to ${clock(span.to)}`;
  const all = { from: 0, to: story.length };

  part(ABOVE, all, "track", "not there", 0.12);
  for (const span of story.signal) part(ABOVE, span, "there", `there, with a signal: ${when(span)}`);
  for (const span of story.drops) {
    part(ABOVE, span, "drop", `no signal for ${seconds(span.to - span.from)}: ${when(span)}`, 0.5);
  }

  part(BELOW, all, "track", "shown offline", 0.12);
  for (const span of story.shown) part(BELOW, span, "online", `shown online: ${when(span)}`);
  for (const span of story.waiting) {
    const striped = { fill: "url(#stripes)" };
    part(BELOW, span, "", `lost, and waited for, shown online: ${when(span)}`, 1, striped);
  }
  const late = { from: story.left, to: story.left + (story.figures.delay ?? story.length - story.left) };
  if (late.to > late.from) part(BELOW, late, "late", `gone, but still shown: ${seconds(late.to - late.from)}`);
  for (const span of story.mistakes) {
    part(BELOW, span, "mistake", `a false departure: shown offline ${when(span)}`, 0.25);
    const [cx, cy] = [(x(span.from) + x(span.to)) / 2, BELOW.y - 7];
    draw(picture, "path", { d: `M${cx - 4} ${cy - 4}l8 8m0-8l-8 8`, class: "cross" });
  }

  const leaving = x(story.left);
  draw(picture, "line", { x1: leaving, x2: leaving, y1: ABOVE.y - 4, y2: AXIS, class: "leaving" });
  draw(picture, "text", { x: leaving, y: ABOVE.label, "text-anchor": "middle" }, "leaves");
  const delay = story.figures.delay;
  if (delay !== null) {
    const room = width - x(late.to) - 6;
    const text = delay === 0 ? "at once" : room > 70 ? `${seconds(delay)} late` : `+${seconds(delay)}`;
    const beside = { x: x(late.to) + 6, y: BELOW.y + 20 };
    const above = { x: width, y: BELOW.label, "text-anchor": "end" };
    draw(picture, "text", room > 48 ? beside : above, text);
  }
}

// Figures and the table.

function figure(id, value, text) {
  const element = byId(id);
  element.textContent = text;
  element.dataset.value = value;
}

function showFigures({ figures, settings }) {
  figure("false-departures", figures.false_departures, `${figures.false_departures}`);
  byId("false-departures").classList.toggle("some", figures.false_departures > 0);
  figure("flickers-hidden", figures.flickers_hidden, `${figures.flickers_hidden}`);
  figure("delay", figures.delay ?? "", figures.delay === null ? "never" : seconds(figures.delay));
  figure("beats-per-second", figures.beats_per_second, short(figures.beats_per_second));
  figure("broadcasts", figures.broadcasts, `${figures.broadcasts}`);
  figure("messages-per-change", figures.messages_per_change, `${figures.messages_per_change}`);
  const users = whole(short(settings.users));
  byId("beats-note").textContent = `of ${users} users, one each ${whole(seconds(settings.heartbeat))}`;
  const mistaken = figures.mistaken_broadcasts;
  byId("broadcasts-note").textContent = `in the half hour, ${mistaken || "none"} of them for false departures`;
  byId("messages-note").textContent =
    `${whole(short(figures.messages))} in the half hour; ` +
    `from ${users} such users ${whole(short(figures.messages_per_second))} a second`;
}

function truth(story, told) {
  const dropped = story.drops.some(({ from, to }) => from <= told.at && told.at < to);
  if (told.mistaken && !told.online) return dropped ? "there, without a signal" : "there, with a signal again";
  if (told.mistaken) return "was there all the time";
  if (told.online) return "came";
  return told.at === story.left ? "left at this moment" : `had left ${seconds(told.at - story.left)} before`;
}

function showBroadcasts(story) {
  const rows = story.broadcasts.map((told) => {
    const row = document.createElement("tr");
    const why = told.reason ? ` (${told.reason})` : "";
    for (const text of [clock(told.at), (told.online ? "online" : "offline") + why, truth(story, told)]) {
      row.insertCell().textContent = text;
    }
    const message = document.createElement("code");
    message.textContent = told.message;
    row.insertCell().append(message);
    return row;
  });
  byId("broadcast-rows").replaceChildren(...rows);
}

// Questions and answers. Only the answer to the last question is shown.

let asked = 0;
let question = new AbortController();
let shown = null;
let settling;

async function ask() {
  const number = ++asked;
  const settings = readControls();
  labelControls(settings);
  question.abort();
  question = new AbortController();
  page.dataset.state = "asked";
  try {
    const body = { ...settings, heartbeat: settings.heartbeat * 1000, grace: settings.grace * 1000 };
    const response = await fetch("/playground/story", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: question.signal,
    });
    if (!response.ok) throw new Error(await response.text());
    const story = await response.json();
    if (number === asked) show(story, fragment(settings));
  } catch (error) {
    if (number === asked) fail(error);
  }
}

function show(story, settings) {
  shown = story;
  drawStory(story);
  showFigures(story);
  showBroadcasts(story);
  byId("told").textContent = describe(story);
  byId("trouble").hidden = true;
  page.dataset.state = "told";
  results.dataset.settings = settings;
  // A slider on the move is not read out, nor written into the address: some browsers take few changes a second.
  clearTimeout(settling);
  settling = setTimeout(() => {
    byId("announcer").textContent = describe(story);
    if (location.hash.slice(1) !== settings) history.replaceState(null, "", `#${settings}`);
  }, QUIET_MS);
}

function fail(error) {
  const number = asked;
  const network = error instanceof TypeError;
  byId("trouble").textContent = network
    ? "The gateway does not answer. The page goes on trying."
    : `The gateway has no story for these settings: ${error.message}`;
  byId("trouble").hidden = false;
  page.dataset.state = "stale";
  if (network) setTimeout(() => number === asked && ask(), AGAIN_MS);
}

let planned = false;

/** At most one question for each picture that the browser draws. */
function askSoon() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    ask();
  });
}

byId("users").max = STOPS.length - 1;
form.addEventListener("input", askSoon);
form.addEventListener("submit", (event) => event.preventDefault());
for (const button of form.querySelectorAll("button")) {
  button.addEventListener("click", () => {
    const { heartbeat, grace } = button.dataset;
    writeControls({ ...readControls(), heartbeat: Number(heartbeat), grace: Number(grace), goodbye: false });
    ask();
  });
}
addEventListener("hashchange", () => {
  writeControls(readFragment());
  ask();
});
new ResizeObserver(() => shown && drawStory(shown)).observe(byId("picture"));
writeControls(readFragment());
ask();
