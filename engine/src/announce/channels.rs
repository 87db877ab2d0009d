//! Names of channels. All of a room's hash to the slot of its key, and no two rooms or members share one.
//!
//! After the kind, and the number of a database other than 0, stands the room. A key without a closing brace is put into
//! braces whole: `{gig:42}`, which is its own hash tag. Any other key follows, with its length before it, the hash tag
//! that it has itself, `{a}4:{a}r`; and if it holds a closing brace but no tag, a tag made for its slot. What follows the
//! first closing brace tells the two forms apart, and the length where the room ends and a member's id begins.

use std::sync::OnceLock;

/// Slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// The channels of one room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    place: Vec<u8>,
}

impl Channels {
    /// Of the room at `key` in database `db`.
    pub fn new(db: i32, key: &[u8]) -> Self {
        let mut place = Vec::with_capacity(key.len() + 16);
        if db != 0 {
            place.extend_from_slice(format!("{db}:").as_bytes());
        }
        place.push(b'{');
        if !key.is_empty() && !key.contains(&b'}') {
            place.extend_from_slice(key);
            place.push(b'}');
        } else {
            match hash_tag(key) {
                Some(tag) => place.extend_from_slice(tag),
                None => place.extend_from_slice(&tag_of_slot(slot(key))),
            }
            place.extend_from_slice(format!("}}{}:", key.len()).as_bytes());
            place.extend_from_slice(key);
        }
        Self { place }
    }

    /// Where counts are published.
    pub fn count(&self) -> Vec<u8> {
        self.named(b"presence.count:", None)
    }

    /// Where the feed is published.
    pub fn feed(&self) -> Vec<u8> {
        self.named(b"presence.feed:", None)
    }

    /// Where the events of one member are published.
    pub fn member(&self, id: &[u8]) -> Vec<u8> {
        self.named(b"presence.member:", Some(id))
    }

    fn named(&self, kind: &[u8], id: Option<&[u8]>) -> Vec<u8> {
        let id_len = id.map_or(0, |id| id.len() + 1);
        let mut name = Vec::with_capacity(kind.len() + self.place.len() + id_len);
        name.extend_from_slice(kind);
        name.extend_from_slice(&self.place);
        if let Some(id) = id {
            name.push(b':');
            name.extend_from_slice(id);
        }
        name
    }
}

/// The slot of a key or channel in a cluster.
pub fn slot(name: &[u8]) -> u16 {
    crc16(hash_tag(name).unwrap_or(name)) % SLOTS
}

/// What of a name is hashed instead of all of it: what stands between the first `{` and the next `}`, if anything.
fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let open = name.iter().position(|&byte| byte == b'{')?;
    let inside = name.get(open + 1..)?;
    let close = inside.iter().position(|&byte| byte == b'}')?;
    inside.get(..close).filter(|tag| !tag.is_empty())
}

/// CRC-16/XMODEM: polynomial 0x1021, no reflection, initially 0; by which Redis Cluster spreads keys over slots.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc_step(crc, *byte))
}

fn crc_step(crc: u16, byte: u8) -> u16 {
    let index = (crc >> 8) as u8 ^ byte;
    (crc << 8) ^ CRC_OF_BYTE.get(usize::from(index)).copied().unwrap_or_default()
}

static CRC_OF_BYTE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    #[expect(clippy::indexing_slicing, reason = "computed while compiling")]
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Letters of the tags made for slots. Four of these sixteen in a row differ from `@@@@` by any 16 bits of a polynomial
/// that the CRC maps one to one, so that each slot has exactly four such tags.
const LETTERS: &[u8; 16] = b"@ABCDEFGHIJKLMNO";

/// Four letters that hash to `slot`.
fn tag_of_slot(slot: u16) -> [u8; 4] {
    static TAGS: OnceLock<Vec<u16>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags = vec![0; SLOTS.into()];
        for number in (0..=u16::MAX).rev() {
            if let Some(tag) = tags.get_mut(usize::from(crc16(&letters(number)) % SLOTS)) {
                *tag = number;
            }
        }
        tags
    });
    letters(tags.get(usize::from(slot)).copied().unwrap_or_default())
}

fn letters(number: u16) -> [u8; 4] {
    [12, 8, 4, 0].map(|shift| LETTERS.get(usize::from(number >> shift & 15)).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_tag() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for number in 0..SLOTS {
            assert_eq!(slot(&tag_of_slot(number)), number);
        }
    }

    #[test]
    fn names() {
        let name = |db, key: &[u8]| String::from_utf8(Channels::new(db, key).count()).unwrap_or_default();
        assert_eq!(name(0, b"gig:42"), "presence.count:{gig:42}");
        assert_eq!(name(1, b"gig:42"), "presence.count:1:{gig:42}");
        assert_eq!(name(0, b"{a}r"), "presence.count:{a}4:{a}r");
        assert_eq!(name(0, b"{"), "presence.count:{{}");
        assert_eq!(Channels::new(3, b"r").member(b"asha:1"), b"presence.member:3:{r}:asha:1");
    }

    #[test]
    fn all_channels_hash_to_the_keys_slot_and_none_is_shared() {
        // All keys of up to four of these bytes, and members whose ids look like the rest of a name.
        let alphabet = b"{}a:1";
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..4 {
            let until = keys.len();
            for at in from..until {
                for &byte in alphabet {
                    let mut key = keys.get(at).cloned().unwrap_or_default();
                    key.push(byte);
                    keys.push(key);
                }
            }
            from = until;
        }
        let mut seen = std::collections::HashMap::new();
        for key in &keys {
            for db in [0, 1, 11] {
                let channels = Channels::new(db, key);
                let mut names = vec![channels.count(), channels.feed()];
                names.extend(keys.iter().filter(|id| id.len() < 3).map(|id| channels.member(id)));
                for name in names {
                    assert_eq!(slot(&name), slot(key), "{key:?}");
                    if let Some(other) = seen.insert(name, (db, key)) {
                        panic!("{key:?} in {db} shares a channel with {other:?}");
                    }
                }
            }
        }
    }
}
