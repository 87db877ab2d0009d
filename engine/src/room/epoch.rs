//! The name of a room's history.

/// One life of a room's history of changes. A new one begins when a room was made, loaded or copied, and with each
/// promotion of a node: as a function of the node's term, so that no room has to be visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    name: u64,
    /// The term in which it was begun.
    term: u64,
    nonce: u64,
}

impl Epoch {
    /// Of a room made in this term; `nonce` is random.
    pub(super) fn new(nonce: u64, term: Option<u64>) -> Self {
        let mut epoch = Self { name: nonce, term: 0, nonce };
        epoch.enter(term);
        epoch
    }

    /// Its name on a node of this term; on a replica (`None`), the name that the primary gave it.
    pub fn name(self, term: Option<u64>) -> u64 {
        if self.is_of(term) {
            self.name
        } else {
            mix(mix(self.name, self.nonce), term.unwrap_or_default())
        }
    }

    /// Whether it was begun in this term, or it is not this node that begins any.
    pub(super) fn is_of(self, term: Option<u64>) -> bool {
        term.is_none_or(|term| term == self.term)
    }

    /// A change is made in this term.
    pub(super) fn enter(&mut self, term: Option<u64>) {
        if let Some(term) = term {
            (self.name, self.term) = (self.name(Some(term)), term);
        }
    }

    /// The name that a payload gave it.
    pub(super) fn follow(&mut self, name: u64) {
        (self.name, self.term) = (name, 0);
    }

    /// Random, and the room's own.
    pub(super) fn nonce(self) -> u64 {
        self.nonce
    }
}

/// A bijection of `a` for each `b`, well mixed (the finalizer of splitmix64).
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
