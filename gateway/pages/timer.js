// Timers for client.js, in a worker, because browsers slow those of hidden tabs down to one a minute.
// Gets { name, after } and posts the name back after that many ms; a name has one timer, and without `after` none.
const timers = new Map();
onmessage = ({ data: { name, after } }) => {
  clearTimeout(timers.get(name));
  if (after !== undefined) timers.set(name, setTimeout(postMessage, after, name));
};
