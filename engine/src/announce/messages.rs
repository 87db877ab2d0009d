//! The messages of a step, finished as JSON, for whoever publishes them.

use super::epoch_text;
use super::json::Object;
use super::sight::Told;
use crate::badge::badge;

/// Longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// What a feed message has beside its events, in bytes at most.
const FEED_FRAME: usize = 256;
/// Bytes for which memory is kept between steps.
const KEPT: usize = 4 * 1024;

/// Which of a room's channels a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To<'a> {
    /// Of counts.
    Count,
    /// Of the feed.
    Feed,
    /// Of the member with this id.
    Member(&'a [u8]),
}

/// A message to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Where.
    pub to: To<'a>,
    /// JSON.
    pub body: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Count,
    Feed,
    Member,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    kind: Kind,
    id_end: usize,
    end: usize,
}

/// An event of the feed that waits for the end of the step.
#[derive(Clone, Copy, Debug)]
struct Piece {
    seq: u64,
    count: u32,
    end: usize,
}

/// What an event of a member tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) told: Told,
    pub(crate) id: &'a [u8],
    pub(crate) seq: u64,
    pub(crate) status: &'a [u8],
    pub(crate) data: &'a [u8],
}

impl Event<'_> {
    fn write(&self, out: &mut Vec<u8>, epoch: Option<u64>) {
        let mut object = Object::begin(out).text("event", self.told.as_str()).bytes("member", self.id);
        if let Some(epoch) = epoch {
            object = object.text("epoch", &epoch_text(epoch));
        }
        object = object.number("seq", self.seq);
        object = match self.told {
            Told::Offline(reason) => object.text("reason", reason.as_str()),
            Told::Online | Told::Update => object.bytes_if_any("status", self.status).bytes_if_any("data", self.data),
        };
        object.end();
    }
}

/// What a feed message says of the room, beside its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) epoch: u64,
    pub(crate) from: u64,
    pub(crate) seq: u64,
    pub(crate) count: u32,
}

impl Range {
    fn begin(self, out: &mut Vec<u8>) -> Object<'_> {
        Object::begin(out)
            .text("epoch", &epoch_text(self.epoch))
            .number("from", self.from)
            .number("seq", self.seq)
            .number("count", self.count.into())
    }
}

/// See the module. Meant to be reused: [`Messages::clear`] keeps the memory that usual steps need.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    stored: Vec<Stored>,
    events: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Messages {
    /// The messages, in the order in which they are to be published.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        let mut start = 0;
        self.stored.iter().map(move |stored| {
            let id = self.bytes.get(start..stored.id_end).unwrap_or_default();
            let body = self.bytes.get(stored.id_end..stored.end).unwrap_or_default();
            start = stored.end;
            let to = match stored.kind {
                Kind::Count => To::Count,
                Kind::Feed => To::Feed,
                Kind::Member => To::Member(id),
            };
            Message { to, body }
        })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Forgets the last step.
    pub fn clear(&mut self) {
        self.drop_events();
        self.bytes.clear();
        self.stored.clear();
        self.bytes.shrink_to(KEPT);
        self.stored.shrink_to(KEPT);
        self.events.shrink_to(KEPT);
        self.pieces.shrink_to(KEPT);
    }

    fn store(&mut self, kind: Kind, id: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.extend_from_slice(id);
        let id_end = self.bytes.len();
        write(&mut self.bytes);
        self.stored.push(Stored { kind, id_end, end: self.bytes.len() });
    }

    /// The number of members present.
    pub fn count(&mut self, count: u32) {
        self.store(Kind::Count, &[], |out| {
            Object::begin(out).number("count", count.into()).text("badge", &badge(count.into())).end();
        });
    }

    /// The room is gone, and nothing holds its name; `epoch` of its feed, if it had one.
    pub fn gone(&mut self, count: bool, epoch: Option<u64>) {
        if count {
            self.store(Kind::Count, &[], |out| {
                Object::begin(out).number("count", 0).text("badge", "0").yes("gone").end();
            });
        }
        if let Some(epoch) = epoch {
            self.store(Kind::Feed, &[], |out| Object::begin(out).text("epoch", &epoch_text(epoch)).yes("gone").end());
        }
    }

    /// To those who watch this member.
    pub(crate) fn member(&mut self, event: &Event<'_>, epoch: u64) {
        self.store(Kind::Member, event.id, |out| event.write(out, Some(epoch)));
    }

    /// For the feed, when the step ends; `count` members are present then.
    pub(crate) fn feed_event(&mut self, event: &Event<'_>, count: u32) {
        if !self.pieces.is_empty() {
            self.events.push(b',');
        }
        event.write(&mut self.events, None);
        self.pieces.push(Piece { seq: event.seq, count, end: self.events.len() });
    }

    /// Forgets the events for the feed.
    pub(crate) fn drop_events(&mut self) {
        self.events.clear();
        self.pieces.clear();
    }

    /// One feed message with the events collected, or several where they are long; together they cover `range`.
    pub(crate) fn feed(&mut self, range: Range) {
        let (events, pieces) = (std::mem::take(&mut self.events), std::mem::take(&mut self.pieces));
        let (mut from, mut start, mut last) = (range.from, 0, None::<Piece>);
        for &piece in &pieces {
            if let Some(before) = last.filter(|_| piece.end - start > MAX_MESSAGE - FEED_FRAME) {
                self.part(Range { from, seq: before.seq, count: before.count, ..range }, events.get(start..before.end));
                // Past the comma.
                (from, start) = (before.seq + 1, before.end + 1);
            }
            last = Some(piece);
        }
        self.part(Range { from, ..range }, events.get(start..));
        (self.events, self.pieces) = (events, pieces);
        self.drop_events();
    }

    fn part(&mut self, range: Range, events: Option<&[u8]>) {
        self.store(Kind::Feed, &[], |out| range.begin(out).array("events", events.unwrap_or_default()).end());
    }

    /// The feed names nobody: how many came and went.
    pub(crate) fn feed_interval(&mut self, range: Range, came: u64, went: u64) {
        self.store(Kind::Feed, &[], |out| {
            range.begin(out).text("mode", "interval").number("came", came).number("went", went).end();
        });
    }

    /// Whoever reads the feed must start over.
    pub(crate) fn feed_resync(&mut self, range: Range) {
        self.store(Kind::Feed, &[], |out| range.begin(out).yes("resync").array("events", &[]).end());
    }

    /// How many there are for counts, members and the feed.
    pub fn tally(&self) -> [u64; 3] {
        [Kind::Count, Kind::Member, Kind::Feed]
            .map(|kind| self.stored.iter().filter(|stored| stored.kind == kind).count() as u64)
    }
}
