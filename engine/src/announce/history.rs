//! The last changes of a room, for readers who missed some.
//!
//! Every number since the beginning has its record, so a record's place is its number. They are packed one after another
//! into chunks; old ones go chunk by chunk, so that nothing large is ever moved.

use std::collections::VecDeque;

use super::sight::Told;
use crate::codec::bytes::{put_long, put_short, Reader};
use crate::member::Reason;
use crate::settings::Share;

/// Records in a chunk.
const CHUNK: u64 = 128;

/// One numbered change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number.
    pub seq: u64,
    /// What it is in the service's view.
    pub service: Told,
    /// What it is for those who see members that share with everyone, if anything.
    pub everyone: Option<Told>,
    /// Who may see the member after it.
    pub share: Share,
    /// Member id; 1 to 256 bytes.
    pub id: &'a [u8],
    /// What it shows after it.
    pub status: &'a [u8],
    /// What it shows after it.
    pub data: &'a [u8],
}

#[derive(Debug)]
struct Chunk {
    first: u64,
    bytes: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct History {
    chunks: VecDeque<Chunk>,
    /// Bytes set aside by all chunks.
    held: usize,
    /// Number of the first change it could tell of if it were unlimited, and of the one to come.
    start: u64,
    next: u64,
}

impl History {
    /// That begins after change `seq`.
    pub(super) fn after(seq: u64) -> Self {
        Self { chunks: VecDeque::new(), held: 0, start: seq + 1, next: seq + 1 }
    }

    /// Adds the next change; about `limit` are kept.
    pub(super) fn push(&mut self, record: &Record<'_>, limit: u32) {
        if record.seq != self.next {
            *self = Self::after(record.seq.saturating_sub(1));
        }
        if (record.seq - self.start) % CHUNK == 0 {
            self.change_last(Vec::shrink_to_fit);
            self.chunks.push_back(Chunk { first: record.seq, bytes: Vec::new() });
        }
        self.change_last(|bytes| put(bytes, record));
        self.next += 1;
        let oldest = self.oldest(limit);
        while self.chunks.front().is_some_and(|chunk| chunk.first + CHUNK <= oldest) {
            self.held -= self.chunks.pop_front().map_or(0, |chunk| chunk.bytes.capacity());
        }
    }

    fn change_last(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(chunk) = self.chunks.back_mut() {
            let before = chunk.bytes.capacity();
            change(&mut chunk.bytes);
            self.held = self.held - before + chunk.bytes.capacity();
        }
    }

    fn oldest(&self, limit: u32) -> u64 {
        self.start.max(self.next.saturating_sub(limit.into()))
    }

    /// The changes after `seq`, if they are all among the last `limit`.
    pub(super) fn since(&self, seq: u64, limit: u32) -> Option<impl Iterator<Item = Record<'_>>> {
        if seq + 1 < self.oldest(limit) || seq + 1 > self.next {
            return None;
        }
        let first = self.chunks.front().map_or(seq, |chunk| chunk.first);
        let passed = usize::try_from((seq + 1).saturating_sub(first) / CHUNK).unwrap_or(usize::MAX);
        let records = self.chunks.iter().skip(passed).flat_map(|chunk| {
            let mut from = Reader::new(&chunk.bytes);
            (chunk.first..).map_while(move |number| take(&mut from, number))
        });
        Some(records.skip_while(move |record| record.seq <= seq))
    }

    /// Parts that it is kept in.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Bytes in use.
    pub(super) fn memory(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>() + self.held
    }
}

fn code(told: Option<Told>) -> u8 {
    match told {
        None => 0,
        Some(Told::Online) => 1,
        Some(Told::Offline(Reason::Timeout)) => 2,
        Some(Told::Offline(Reason::Goodbye)) => 3,
        Some(Told::Update) => 4,
    }
}

fn told(code: u8) -> Option<Told> {
    match code {
        1 => Some(Told::Online),
        2 => Some(Told::Offline(Reason::Timeout)),
        3 => Some(Told::Offline(Reason::Goodbye)),
        4 => Some(Told::Update),
        _ => None,
    }
}

fn put(out: &mut Vec<u8>, record: &Record<'_>) {
    out.push(code(Some(record.service)) | code(record.everyone) << 3 | (record.share as u8) << 6);
    // 1 to 256 bytes fit a byte as length - 1.
    out.push(record.id.len().saturating_sub(1) as u8);
    out.extend_from_slice(record.id);
    put_short(out, record.status);
    put_long(out, record.data);
}

fn take<'a>(from: &mut Reader<'a>, seq: u64) -> Option<Record<'a>> {
    let flags = from.u8()?;
    let id_len = usize::from(from.u8()?) + 1;
    let share = Share::ALL.get(usize::from(flags >> 6)).copied().unwrap_or_default();
    Some(Record {
        seq,
        service: told(flags & 7)?,
        everyone: told(flags >> 3 & 7),
        share,
        id: from.take(id_len)?,
        status: from.short()?,
        data: from.long()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, id: &[u8]) -> Record<'_> {
        Record {
            seq,
            service: Told::Offline(Reason::Goodbye),
            everyone: (seq % 2 == 0).then_some(Told::Update),
            share: Share::Everyone,
            id,
            status: b"",
            data: id,
        }
    }

    #[test]
    fn tells_exactly_the_last_ones() {
        const LIMIT: u32 = 300;
        let id = [7; 256];
        let mut history = History::after(10);
        for seq in 11..2_000 {
            history.push(&record(seq, &id), LIMIT);
            let oldest = (seq + 1).saturating_sub(LIMIT.into()).max(11);
            assert!(history.since(oldest - 2, LIMIT).is_none(), "older than what is kept");
            assert!(history.since(seq + 1, LIMIT).is_none(), "not yet");
            for since in [oldest - 1, seq - (seq - oldest) / 2, seq] {
                let told: Vec<_> = history.since(since, LIMIT).into_iter().flatten().collect();
                assert_eq!(told, (since + 1..=seq).map(|seq| record(seq, &id)).collect::<Vec<_>>());
            }
            let held = history.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum::<usize>();
            assert_eq!(history.held, held);
            assert!(history.chunks.len() <= LIMIT as usize / CHUNK as usize + 2);
        }
        history.push(&record(5_000, &id), LIMIT);
        assert!(history.since(4_998, LIMIT).is_none(), "a gap begins it anew");
        assert_eq!(history.since(4_999, LIMIT).into_iter().flatten().count(), 1);
    }
}
