//! The pages, which are inside the program.

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Kind and text of a page or of a part of one.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "index.html" => (HTML, include_str!("../pages/index.html")),
        "show.css" => (CSS, include_str!("../pages/show.css")),
        "show.js" => (JS, include_str!("../pages/show.js")),
        "seats.js" => (JS, include_str!("../pages/seats.js")),
        "client.js" => (JS, include_str!("../pages/client.js")),
        "timer.js" => (JS, include_str!("../pages/timer.js")),
        "icon.svg" => (SVG, include_str!("../pages/icon.svg")),
        "playground.html" => (HTML, include_str!("../pages/playground.html")),
        "playground.css" => (CSS, include_str!("../pages/playground.css")),
        "playground.js" => (JS, include_str!("../pages/playground.js")),
        _ => return None,
    })
}
