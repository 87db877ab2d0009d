//! The table's account of its memory against what the allocator was asked for, and the peak while growing.
#![allow(clippy::unwrap_used, reason = "a test that panics fails, as it should")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use presence_engine::table::{HashKeys, Table};
use presence_engine::wheel::Wheel;

thread_local! {
    /// Bytes that this test's thread has taken and not given back, and the most since the last look. It starts high, as
    /// a thread also gives back what another one took.
    static HELD: Cell<(usize, usize)> = const { Cell::new((1 << 32, 1 << 32)) };
}

struct Counting;

fn count(more: usize, less: usize) {
    HELD.with(|held| {
        let now = held.get().0.wrapping_add(more).wrapping_sub(less);
        held.set((now, held.get().1.max(now)));
    });
}

// SAFETY: every call is passed on to the system's allocator; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above; `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it moves a block, an allocator holds both.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn held() -> usize {
    HELD.with(|held| held.get().0)
}

fn take_peak() -> usize {
    HELD.with(|held| {
        let (now, peak) = held.get();
        held.set((now, now));
        peak
    })
}

fn id(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// At every moment of a room that grows, changes its packs, shrinks and ends.
#[test]
fn the_account_is_exact() {
    let before = held();
    let mut table = Table::new(&HashKeys(1, 2));
    let mut wheel = Wheel::new(0);
    for number in 0..20_000 {
        let slot = table.insert(&id(number), &mut wheel).unwrap();
        assert_eq!(table.memory(), held() - before, "at {number}");
        if number % 3 == 0 {
            table.set_pack(slot, &[1; 256][..number as usize % 257]);
            assert_eq!(table.memory(), held() - before, "with a pack, at {number}");
        }
    }
    for number in 0..20_000_u64 {
        let slot = table.find(&id(number.wrapping_mul(7) % 20_000)).unwrap();
        table.set_pack(slot, &[2; 10]);
        table.remove(slot, &mut wheel);
        assert_eq!(table.memory(), held() - before, "after {number} had left");
    }
    assert_eq!(held(), before);
}

/// Packs that lie in the tree of long ones: what its nodes take is an estimate.
#[test]
fn the_account_of_long_packs_is_close() {
    let before = held();
    let mut table = Table::new(&HashKeys(1, 2));
    let mut wheel = Wheel::new(0);
    for number in 0..5_000 {
        let slot = table.insert(&id(number), &mut wheel).unwrap();
        table.set_pack(slot, &[1; 700][..300 + number as usize % 400]);
        let (told, held) = (table.memory(), held() - before);
        assert!(told.abs_diff(held) < 300 + held / 20, "{told} told, {held} held at {number}");
    }
    for number in 0..5_000 {
        let slot = table.find(&id(number)).unwrap();
        table.remove(slot, &mut wheel);
    }
    assert_eq!((held(), table.memory()), (before, 0));
}

/// No step of growth holds much more than the table before and after it.
#[test]
fn growth_never_takes_half_as_much_again() {
    let before = held();
    let mut table = Table::new(&HashKeys(1, 2));
    let mut wheel = Wheel::new(0);
    take_peak();
    for number in 0..400_000 {
        table.insert(&id(number), &mut wheel).unwrap();
        let peak = take_peak() - before;
        if number > 10_000 {
            assert!(peak * 100 < table.memory() * 105, "{peak} of {} at {number}", table.memory());
        }
    }
}
