//! The pages, which are inside the program.

const HTML: &str = "text/html; charset=utf-8";

/// Kind and text of a page or of a part of one.
pub fn find(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "index.html" => (HTML, include_str!("../pages/index.html")),
        _ => return None,
    })
}
