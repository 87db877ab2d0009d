//! Slots that come over from another shard with all their keys. Redis 8.4 and Valkey 9 tell of it, each in its own way,
//! replicas of the node that takes them over included.

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::os::raw::{c_char, c_int, c_void};
use std::slice;

use redis_module::raw;

use super::ffi::{has_valkey_slot_migration, is_valkey};

/// What became of a job that brings slots here, or to the primary of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Import {
    /// From now on the keys of these slots come in; they are served elsewhere.
    Started {
        /// Its name.
        job: Vec<u8>,
        /// Its slots.
        slots: Vec<RangeInclusive<u16>>,
    },
    /// The slots are served here, or their keys are thrown away.
    Ended {
        /// Its name.
        job: Vec<u8>,
    },
}

/// Valkey's event; Redis has another one of this number.
const VALKEY_EVENT: u64 = 19;
const VALKEY_IMPORT_STARTED: u64 = 0;
const VALKEY_IMPORT_ABORTED: u64 = 2;
const VALKEY_IMPORT_COMPLETED: u64 = 4;
const VALKEY_NAME: usize = 40;

/// As in Valkey's header, which the bindings do not have.
#[repr(C)]
struct ValkeySlotRange {
    first: c_int,
    last: c_int,
}

/// The same.
#[repr(C)]
struct ValkeyMigrationInfo {
    version: u64,
    job_name: [c_char; VALKEY_NAME + 1],
    slot_ranges: *const ValkeySlotRange,
    num_slot_ranges: u32,
}

/// The number of the event here; `None` on servers without such migrations.
pub(crate) fn event() -> Option<u64> {
    if is_valkey() {
        return has_valkey_slot_migration().then_some(VALKEY_EVENT);
    }
    // SAFETY: the bindings were written when the load began.
    let came_with_it = unsafe { raw::RedisModule_ClusterCanAccessKeysInSlot };
    came_with_it.map(|_| raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION)
}

/// What the event says of an import; `None` for the other side of it.
///
/// # Safety
/// `data` must be null or what the server passes with this event.
pub(crate) unsafe fn decode(subevent: u64, data: *const c_void) -> Option<Import> {
    // SAFETY: the caller's promise, in both.
    unsafe {
        if is_valkey() {
            of_valkey(subevent, data.cast::<ValkeyMigrationInfo>().as_ref()?)
        } else {
            of_redis(subevent, data.cast::<raw::RedisModuleClusterSlotMigrationInfoV1>().as_ref()?)
        }
    }
}

/// # Safety
/// As the server passes it.
unsafe fn of_valkey(subevent: u64, info: &ValkeyMigrationInfo) -> Option<Import> {
    let job = info.job_name.iter().take(VALKEY_NAME).map(|&byte| byte as u8).collect();
    match subevent {
        VALKEY_IMPORT_STARTED => {
            if info.slot_ranges.is_null() {
                return None;
            }
            // SAFETY: the server passes as many ranges as it says.
            let ranges = unsafe { slice::from_raw_parts(info.slot_ranges, info.num_slot_ranges as usize) };
            Some(Import::Started { job, slots: ranges.iter().map(|r| r.first as u16..=r.last as u16).collect() })
        }
        VALKEY_IMPORT_ABORTED | VALKEY_IMPORT_COMPLETED => Some(Import::Ended { job }),
        _ => None,
    }
}

/// # Safety
/// As the server passes it.
unsafe fn of_redis(subevent: u64, info: &raw::RedisModuleClusterSlotMigrationInfoV1) -> Option<Import> {
    if info.task_id.is_null() {
        return None;
    }
    // SAFETY: the id is text that ends in NUL.
    let job = unsafe { CStr::from_ptr(info.task_id) }.to_bytes().to_vec();
    match subevent {
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_STARTED => {
            if info.slots.is_null() {
                return None;
            }
            // SAFETY: the ranges follow their number. A reference to the head alone must not be used to read them.
            let ranges = unsafe {
                let first = (&raw const (*info.slots).ranges).cast::<raw::RedisModuleSlotRange>();
                slice::from_raw_parts(first, usize::try_from((*info.slots).num_ranges).ok()?)
            };
            Some(Import::Started { job, slots: ranges.iter().map(|r| r.start..=r.end).collect() })
        }
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_FAILED
        | raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_COMPLETED => Some(Import::Ended { job }),
        _ => None,
    }
}
