//! The JSON of messages. Escaping is serde_json's; what is not UTF-8 goes as base64 under another name.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;

/// Writes one object into a buffer.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str, suffix: &str) {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(suffix.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    pub(super) fn number(mut self, name: &str, value: u64) -> Self {
        self.name(name, "");
        // Writing into memory does not fail.
        let _ = serde_json::to_writer(&mut *self.out, &value);
        self
    }

    pub(super) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name, "");
        let _ = serde_json::to_writer(&mut *self.out, value);
        self
    }

    pub(super) fn yes(mut self, name: &str) -> Self {
        self.name(name, "");
        self.out.extend_from_slice(b"true");
        self
    }

    /// Text if it is UTF-8, else base64 under `<name>64`.
    pub(super) fn bytes(mut self, name: &str, value: &[u8]) -> Self {
        match std::str::from_utf8(value) {
            Ok(text) => self.text(name, text),
            Err(_) => {
                self.name(name, "64");
                let _ = serde_json::to_writer(&mut *self.out, &STANDARD.encode(value));
                self
            }
        }
    }

    /// As [`Object::bytes`], left out if empty.
    pub(super) fn bytes_if_any(self, name: &str, value: &[u8]) -> Self {
        if value.is_empty() {
            self
        } else {
            self.bytes(name, value)
        }
    }

    /// An array of what is JSON already, with the commas in it.
    pub(super) fn array(mut self, name: &str, items: &[u8]) -> Self {
        self.name(name, "");
        self.out.push(b'[');
        self.out.extend_from_slice(items);
        self.out.push(b']');
        self
    }
}
