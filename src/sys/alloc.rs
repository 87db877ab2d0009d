//! The module's memory comes from the server, so that `used_memory`, maxmemory and MEMORY USAGE count it.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use redis_module::raw;

/// Alignment that the server's allocator gives every block whose size is a multiple of it (jemalloc's size classes
/// from 16 bytes on, and every block of libc's malloc).
const NATURAL: usize = 16;

/// Allocates with RM_Alloc and its kin.
///
/// Before the server has handed over its functions there is no memory to give; the null pointer makes Rust end the
/// process with a message. Nothing allocates that early: the module has no constructors.
pub(crate) struct ServerAlloc;

/// Size to ask for so that the block is aligned: a multiple of the alignment, for jemalloc gives 8 bytes for 8.
const fn padded(size: usize, align: usize) -> usize {
    // Cannot overflow: a layout's size rounded up to its alignment is at most isize::MAX.
    (size + align - 1) & !(align - 1)
}

// SAFETY: blocks come from the server's allocator, which never hands out one twice, and are returned to it as they
// came; `alloc` documents how alignment is kept.
unsafe impl GlobalAlloc for ServerAlloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the bindings are written once, before the first allocation.
        let Some(alloc) = (unsafe { raw::RedisModule_Alloc }) else { return ptr::null_mut() };
        if layout.align() <= NATURAL {
            // SAFETY: any size may be asked for.
            return unsafe { alloc(padded(layout.size(), layout.align())) }.cast();
        }
        let Some(size) = layout.size().checked_add(layout.align()) else { return ptr::null_mut() };
        // SAFETY: as above.
        let block: *mut u8 = unsafe { alloc(size) }.cast();
        if block.is_null() {
            return block;
        }
        // The block is aligned to 8 at least, so that the next aligned address behind its start lies 8 bytes or more
        // into it: room for the address that `dealloc` must return.
        let offset = layout.align() - (block.addr() & (layout.align() - 1));
        // SAFETY: `offset` is at most the alignment, by which the block was made longer.
        let aligned = unsafe { block.add(offset) };
        // SAFETY: the 8 bytes before `aligned` lie in the block and are aligned for a pointer.
        unsafe { aligned.cast::<*mut u8>().sub(1).write(block) };
        aligned
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            // SAFETY: the bindings are written once, before the first allocation.
            let Some(calloc) = (unsafe { raw::RedisModule_Calloc }) else { return ptr::null_mut() };
            // SAFETY: any size may be asked for.
            return unsafe { calloc(1, padded(layout.size(), layout.align())) }.cast();
        }
        // SAFETY: the caller's promise for `layout` is the one that `alloc` needs.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block has `layout.size()` bytes.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the bindings are written once, before the first allocation.
        let Some(free) = (unsafe { raw::RedisModule_Free }) else { return };
        let start = if layout.align() <= NATURAL {
            block
        } else {
            // SAFETY: `alloc` wrote the block's start there.
            unsafe { block.cast::<*mut u8>().sub(1).read() }
        };
        // SAFETY: `start` is what the server's allocator returned for this block.
        unsafe { free(start.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= NATURAL {
            // SAFETY: the bindings are written once, before the first allocation.
            let Some(realloc) = (unsafe { raw::RedisModule_Realloc }) else { return ptr::null_mut() };
            // SAFETY: the block came from the same allocator.
            return unsafe { realloc(block.cast(), padded(new_size, layout.align())) }.cast();
        }
        // SAFETY: the caller promises that the new size, rounded up to the alignment, does not overflow.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: `new_size` is not zero, as the caller promises.
        let new_block = unsafe { self.alloc(new_layout) };
        if !new_block.is_null() {
            // SAFETY: both blocks have that many bytes, and they are different ones.
            unsafe { ptr::copy_nonoverlapping(block, new_block, layout.size().min(new_size)) };
            // SAFETY: the old block was allocated with `layout`.
            unsafe { self.dealloc(block, layout) };
        }
        new_block
    }
}
