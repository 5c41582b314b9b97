// SPDX-License-Identifier: MIT
//! Statistics of the heap.

use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::c_char;

/// One snapshot of the heap, in bytes unless stated otherwise. The figures are exact when no other thread allocates meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Address space taken from the system for blocks.
    pub reserved: u64,
    /// Upper bound of the memory behind `reserved` and `metadata`.
    pub resident_upper: u64,
    /// Spans in use: live blocks, and free objects in caches and spans.
    pub in_use: u64,
    /// Free objects in caches of threads and processors, and in depots; part of `in_use`.
    pub cached: u64,
    /// Free pages still backed by memory.
    pub free_dirty: u64,
    /// Free pages that are not backed, or only faulted in ahead of use.
    pub free_clean: u64,
    /// Live blocks above 256 KiB; part of `in_use`.
    pub large: u64,
    /// tarn's own structures.
    pub metadata: u64,
    /// Bytes given back to the system so far.
    pub returned: u64,
    /// Bytes for which huge pages were asked.
    pub huge_advised: u64,
    /// Bytes faulted in ahead, in one call for many pages.
    pub populated: u64,
    /// Threads with a cache now, of their own or shared (a count).
    pub threads: u64,
    /// Arrays of free objects filled from spans (a count).
    pub refills: u64,
    /// Arrays emptied into spans (a count).
    pub flushes: u64,
    /// Full arrays passed between a thread and a shared list (a count).
    pub exchanges: u64,
    /// Spans cut into objects (a count).
    pub spans_made: u64,
    /// Spans returned because all their objects were free (a count).
    pub spans_freed: u64,
    /// Live guarded blocks, of the option `guarded` (a count).
    pub guarded: u64,
    /// Guarded blocks handed out so far (a count).
    pub guarded_blocks: u64,
}

/// The statistics of this process.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: tarn::Tarn = tarn::Tarn;
///
/// fn main() {
///     let before = tarn::stats().in_use;
///     let block = vec![0u8; 32 << 20];
///     assert!(tarn::stats().in_use >= before + (32 << 20));
///     drop(block);
/// }
/// ```
#[must_use]
pub fn stats() -> Stats {
    let mut raw = tarn_sys::tarn_stats::default();
    // SAFETY: the structure is the one that the linked sources declare.
    unsafe { tarn_sys::tarn_get_stats(&mut raw) };
    Stats {
        reserved: raw.reserved,
        resident_upper: raw.resident_upper,
        in_use: raw.in_use,
        cached: raw.cached,
        free_dirty: raw.free_dirty,
        free_clean: raw.free_clean,
        large: raw.large,
        metadata: raw.metadata,
        returned: raw.returned,
        huge_advised: raw.huge_advised,
        populated: raw.populated,
        threads: raw.threads,
        refills: raw.refills,
        flushes: raw.flushes,
        exchanges: raw.exchanges,
        spans_made: raw.spans_made,
        spans_freed: raw.spans_freed,
        guarded: raw.guarded,
        guarded_blocks: raw.guarded_blocks,
    }
}

/// The statistics as one JSON object, with the same names, for a log or a metrics endpoint.
///
/// ```
/// assert!(tarn::stats_json().contains("\"in_use\":"));
/// ```
#[must_use]
pub fn stats_json() -> String {
    let mut text: Vec<u8> = Vec::with_capacity(4096);
    loop {
        let capacity = text.capacity();
        // SAFETY: tarn writes at most `capacity` bytes, the null byte included, and returns the length without it.
        let length = unsafe { tarn_sys::tarn_stats_json(text.as_mut_ptr().cast::<c_char>(), capacity) };
        if length < capacity {
            // SAFETY: tarn has written these bytes.
            unsafe { text.set_len(length) };
            return String::from_utf8_lossy(&text).into_owned();
        }
        text.reserve(length + 1024); // figures grow between two calls
    }
}
