//! The pages, which are inside the program.

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Kind and text of a page or of a part of one.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "index.html" => (HTML, include_str!("../pages/index.html")),
        "playground.html" => (HTML, include_str!("../pages/playground.html")),
        "playground.css" => (CSS, include_str!("../pages/playground.css")),
        "playground.js" => (JS, include_str!("../pages/playground.js")),
        _ => return None,
    })
}
