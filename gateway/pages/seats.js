// Draws the hall: a stage, rows in arcs around it, an aisle. A picture only; who has which seat is made up, but stays.
const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return parent.appendChild(element);
}

/** Numbers from 0 to 1, the same each time. */
function* numbers(seed) {
  for (;;) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    yield seed / 2 ** 32;
  }
}

export function drawSeats(svg) {
  const [x0, y0] = [360, -110]; // the middle of the arcs
  const random = numbers(20);
  shape("path", { class: "stage", d: "M 190 12 H 530 L 494 70 Q 360 98 226 70 Z" }, svg);
  for (let lamp = 0; lamp < 7; lamp++)
    shape("circle", { class: "lamp", cx: 270 + 30 * lamp, cy: 36 - 8 * Math.sin((Math.PI * lamp) / 6), r: 3 }, svg);
  for (const [across, down, of] of [[0, 55, "far"], [7, 64, "near"]])
    shape("path", { class: `wave ${of}`, d: wave(261 + across, down, 14) }, svg);
  for (let row = 0; row < 12; row++) {
    const balcony = row > 8;
    const radius = 232 + row * 26 + (balcony ? 24 : 0);
    const half = 0.56 + 0.008 * row; // half the arc, in radians
    const count = 2 * Math.floor((half * radius) / 21);
    const group = shape("g", { class: balcony ? "row balcony" : "row" }, svg);
    for (let seat = 0; seat < count; seat++) {
      const side = seat < count / 2 ? -1 : 1;
      const angle = ((seat + 0.5) / count - 0.5) * 2 * half + side * (9 / radius);
      const [x, y] = [x0 + radius * Math.sin(angle), y0 + radius * Math.cos(angle)];
      const wanted = 0.84 - 0.05 * row - Math.abs(angle) * 0.35; // the best seats go first
      shape(
        "rect",
        {
          class: random.next().value < wanted ? "seat taken" : "seat",
          ...{ x: -7.5, y: -6.5, width: 15, height: 13, rx: 4.5 },
          transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${((-angle * 180) / Math.PI).toFixed(1)})`,
        },
        group,
      );
    }
  }
}

function wave(x, y, halves) {
  return `M ${x} ${y} q 6 -9 12 0 ${"t 12 0 ".repeat(halves)}`;
}
