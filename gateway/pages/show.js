// The event page: a badge, friends with dots, and who may see the user. Who that is the address says:
// /?user=asha&friends=bo,carl, and if you like &share=nobody and &room=…
import { Presence } from "./client.js";
import { drawSeats } from "./seats.js";

const WORDS = { online: "online", recent: "was here just now", offline: "not here" };
const CONNECTION = {
  connecting: "connecting…",
  here: "You are here.",
  refused: "The show takes nobody more at the moment. This page goes on trying.",
  left: "You have left.",
};
const SPEAK_EVERY = 30_000; // ms between badges that are read aloud: they may change each few seconds

const $ = (id) => document.getElementById(id);
const address = new URL(location);
const user = address.searchParams.get("user")?.trim();
const named = (address.searchParams.get("friends") ?? "").split(",").map((name) => name.trim());
const friends = [...new Set(named)].filter((name) => name && name !== user);
const room = address.searchParams.get("room") || "show:harbor-lights";

if (user) show();
else {
  document.body.dataset.state = "door";
  $("door").hidden = false;
}

function show() {
  const share = address.searchParams.get("share") === "nobody" ? "nobody" : "friends";
  const presence = new Presence({ token, room, share });
  const dots = new Map(friends.map((name) => [name, dot(name)]));
  let badge = null; // as the gateway told on this connection, or null
  let spokenAt = -Infinity;
  let spoken = null;

  $("show").hidden = false;
  $("user").textContent = user;
  $("no-friends").hidden = friends.length > 0;
  $("friends").append(...[...dots.values()].map(({ item }) => item));
  $("others").hidden = friends.length === 0;
  $("other-links").append(...friends.slice(0, 3).flatMap((name, n) => [n ? ", " : "", link(name)]));
  drawSeats($("seats"));

  function showBadge() {
    const here = presence.state === "here";
    const text = here && badge !== null ? looking(badge) : CONNECTION.connecting;
    if ($("badge-text").textContent !== text) $("badge-text").textContent = text;
    if (here && badge !== null && badge !== spoken && performance.now() - spokenAt > SPEAK_EVERY) {
      [spoken, spokenAt] = [badge, performance.now()];
      $("spoken").textContent = text;
    }
  }

  function showDot(member, state, status) {
    const shown = dots.get(member);
    if (!shown) return;
    if (shown.state && shown.state !== state) $("spoken").textContent = `${member}: ${WORDS[state]}`;
    shown.state = state;
    // What did not change is not touched, so that there is nothing to flicker.
    if (shown.item.dataset.state !== state) shown.item.dataset.state = state;
    const text = status && state === "online" ? `${WORDS[state]}, ${status}` : WORDS[state];
    if (shown.text.textContent !== text) shown.text.textContent = text;
  }

  presence.addEventListener("count", ({ detail }) => {
    if (detail.room !== room) return;
    badge = detail.badge;
    showBadge();
  });
  presence.addEventListener("member", ({ detail }) => showDot(detail.member, detail.state, detail.status));
  presence.addEventListener("state", ({ detail: { state, reason } }) => {
    document.body.dataset.state = state;
    $("connection").textContent = CONNECTION[state] ?? `The connection has ended: ${reason}.`;
    $("leave").hidden = state === "left" || state === "ended";
    $("return").hidden = !$("leave").hidden;
    if (state !== "here") {
      // What is not told any more is not shown as if it were; the dots keep their place and say that they do not know.
      badge = null;
      for (const { text } of dots.values()) text.textContent = "…";
    }
    showBadge();
  });

  $("share").querySelector(`[value=${share}]`).checked = true;
  $("share").addEventListener("change", ({ target }) => {
    presence.share(target.value);
    // A reload must not undo the choice.
    address.searchParams.set("share", target.value);
    history.replaceState(null, "", address);
  });
  $("leave").addEventListener("click", () => {
    presence.leave();
    $("return").focus();
  });
  $("return").addEventListener("click", () => {
    presence.open();
    $("leave").focus();
  });

  presence.watchRoom(room);
  presence.watch(friends);
  presence.open();
}

/** A token for this user. A real shop's page has one from its own service, for whoever is logged in there. */
async function token(signal) {
  const body = JSON.stringify({ user, friends });
  const reply = await fetch("/demo/token", { method: "POST", headers: { "content-type": "application/json" }, body, signal });
  if (reply.status >= 400 && reply.status < 500 && reply.status !== 429) return null;
  if (!reply.ok) throw new Error(`no token: ${reply.status}`);
  return (await reply.json()).token;
}

function looking(badge) {
  return badge === "1" ? "1 person is looking at this show" : `${badge} people are looking at this show`;
}

/** A friend's line in the list. */
function dot(name) {
  const item = document.createElement("li");
  item.dataset.member = name;
  item.dataset.state = "unknown";
  const face = element("span", "face", name.slice(0, 1).toUpperCase());
  face.dataset.colour = [...name].reduce((sum, letter) => sum + letter.codePointAt(0), 0) % 6;
  face.setAttribute("aria-hidden", "true");
  face.append(element("span", "dot", ""));
  const text = element("span", "state", "…");
  item.append(face, element("span", "name", name), " ", text);
  return { item, text, state: null };
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/** This page as a friend sees it. */
function link(name) {
  const theirs = new URL(address);
  theirs.searchParams.set("user", name);
  theirs.searchParams.set("friends", [user, ...friends.filter((other) => other !== name)].join(","));
  theirs.searchParams.delete("share");
  const made = element("a", "", name);
  made.href = theirs;
  made.target = "_blank";
  made.rel = "noopener";
  return made;
}
