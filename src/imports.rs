//! The slots that this node, or the primary of this node, takes over at the moment. Their rooms are here already and
//! change as they change at the node that serves them, which tells of it. The primary knows them by what is_import says of
//! each command; its replicas get the same stream and cannot tell by a command.

use std::ops::RangeInclusive;

use crate::sys::migration::Import;
use crate::sys::{Ctx, Str};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Imports(Vec<Job>);

#[derive(Debug)]
struct Job {
    name: Vec<u8>,
    slots: Vec<RangeInclusive<u16>>,
}

impl Imports {
    /// Follows a job.
    pub(crate) fn follow(&mut self, import: Import) {
        let (Import::Started { job, .. } | Import::Ended { job }) = &import;
        self.0.retain(|known| known.name != *job);
        if let Import::Started { job: name, slots } = import {
            self.0.push(Job { name, slots });
        }
    }

    /// This node's part has changed, or its data: what is still on its way will be told anew.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether the slot of this key is on its way here.
    #[inline]
    pub(crate) fn cover(&self, key: Str<'_>) -> bool {
        !self.0.is_empty() && Ctx::slot(key).is_some_and(|slot| self.has(slot))
    }

    fn has(&self, slot: u16) -> bool {
        self.0.iter().flat_map(|job| &job.slots).any(|range| range.contains(&slot))
    }
}
