// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

extern crate alloc;

mod options;
mod statistics;

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_void, CStr};
use core::ptr;

pub use options::{options, set_option, OptionError, OptionInfo};
pub use statistics::{stats, stats_json, Stats};

/// The allocator. All its values are the same heap, which `tarn_malloc` and, with the feature `override`, malloc share.
///
/// Blocks are aligned as their layout asks, up to any power of two. A block that is too large for the system gives null,
/// which makes the standard library call [`handle_alloc_error`](alloc::alloc::handle_alloc_error). The program ends with a
/// line on standard error if tarn detects a block that is freed twice or was never allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tarn;

/// Whether malloc's own alignment will do: 16 for blocks of 16 bytes and more, 8 for smaller ones.
#[inline]
const fn is_natural(alignment: usize, size: usize) -> bool {
    alignment <= 8 || (alignment <= 16 && size >= 16)
}

// SAFETY: tarn's functions return blocks of at least the size that was asked for, aligned as is_natural() says or as
// asked, which overlap no other live block, and null if there is no memory. They do not unwind.
unsafe impl GlobalAlloc for Tarn {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: both functions accept every size; the alignment of a layout is a power of two.
        unsafe {
            if is_natural(layout.align(), layout.size()) {
                tarn_sys::tarn_malloc(layout.size()).cast()
            } else {
                tarn_sys::tarn_aligned_alloc(layout.align(), layout.size()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_natural(layout.align(), layout.size()) {
            // SAFETY: every size is accepted. Fresh pages of the system are not written to.
            return unsafe { tarn_sys::tarn_calloc(1, layout.size()).cast() };
        }
        // SAFETY: the caller's layout; a block that is not null has that many bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                ptr::write_bytes(block, 0, layout.size());
            }
            block
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller hands over a live block of this heap.
        unsafe { tarn_sys::tarn_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_natural(layout.align(), new_size) {
            // SAFETY: the caller hands over a live block of this heap; new_size is not 0.
            return unsafe { tarn_sys::tarn_realloc(block.cast(), new_size).cast() };
        }
        // SAFETY: a live block; layout and new_size are the caller's, who has checked that they make a layout.
        unsafe { realloc_aligned(*self, block, layout, new_size) }
    }
}

/// tarn_realloc keeps no alignment above its own: the block stays if the new size fits it well, or is copied.
#[cold]
unsafe fn realloc_aligned(tarn: Tarn, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    // SAFETY: as in realloc(); the blocks are distinct, and both have the bytes that are copied.
    unsafe {
        let usable = tarn_sys::tarn_usable_size(block.cast());
        if new_size <= usable && new_size >= usable / 2 {
            return block;
        }
        let new_block = tarn.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
        if new_block.is_null() && new_size <= usable {
            return block; // no memory is needed for fewer bytes
        }
        if !new_block.is_null() {
            ptr::copy_nonoverlapping(block, new_block, layout.size().min(new_size));
            tarn.dealloc(block, layout);
        }
        new_block
    }
}

impl Tarn {
    /// The bytes that may be used at `block`: at least those that were asked for.
    ///
    /// ```
    /// use std::alloc::{GlobalAlloc, Layout};
    /// let layout = Layout::from_size_align(100, 8).unwrap();
    /// unsafe {
    ///     let block = tarn::Tarn.alloc(layout);
    ///     assert!(!block.is_null() && tarn::Tarn.usable_size(block) >= 100);
    ///     tarn::Tarn.dealloc(block, layout);
    /// }
    /// ```
    ///
    /// # Safety
    /// `block` must be null, for which the result is 0, or a live block of this heap.
    #[must_use]
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        // SAFETY: the caller's promise.
        unsafe { tarn_sys::tarn_usable_size(block.cast::<c_void>()) }
    }
}

/// The largest size that takes no more memory than `size`: ask for this much for a buffer that will grow.
///
/// ```
/// assert!(tarn::good_size(1000) >= 1000);
/// let buffer: Vec<u8> = Vec::with_capacity(tarn::good_size(1000));
/// # drop(buffer);
/// ```
#[must_use]
pub fn good_size(size: usize) -> usize {
    // SAFETY: every size is accepted.
    unsafe { tarn_sys::tarn_good_size(size) }
}

/// Gives idle memory back to the system now: what the calling thread's cache and the shared lists hold, and all free pages
/// except `keep` bytes of them. Returns the bytes given back. Costs a system call for each free range.
///
/// ```
/// drop(vec![1u8; 64 << 20]);
/// let given_back = tarn::trim(0);
/// println!("{given_back} bytes");
/// ```
pub fn trim(keep: usize) -> usize {
    // SAFETY: every number is accepted.
    unsafe { tarn_sys::tarn_trim(keep) }
}

/// Empties the calling thread's cache into the shared heap, where other threads find the memory, without a return of pages to
/// the system. For a thread that will sleep for long; a thread that ends does this by itself.
pub fn flush_thread() {
    trim(usize::MAX);
}

/// The version of the linked tarn, e.g. "0.1.0".
#[must_use]
pub fn version() -> &'static str {
    // SAFETY: the text is a constant.
    let text = unsafe { CStr::from_ptr(tarn_sys::tarn_version()) };
    text.to_str().unwrap_or("")
}
