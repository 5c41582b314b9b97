// SPDX-License-Identifier: MIT
#![doc = include_str!("../README.md")]
//!
//! The functions are documented in `tarn/malloc.h`. All may be called by any thread at any time, but not from a signal
//! handler.
#![no_std]
#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_void};

/// How near memory is to the limits, in bytes; `u64::MAX`: there is no such limit. `level`: 0 below the soft limit, 1 above it,
/// 2: the hard limit has just refused a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct tarn_pressure {
    pub level: u64,
    pub used: u64,
    pub soft: u64,
    pub hard: u64,
    pub excess: u64,
}

/// What [`tarn_on_pressure`] calls. It stays in place until [`tarn_off_pressure`]; `next` is the library's. `call` must not
/// unwind.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)]
pub struct tarn_pressure_callback {
    pub call: Option<unsafe extern "C" fn(context: *mut c_void, now: *const tarn_pressure)>,
    pub context: *mut c_void,
    pub next: *mut tarn_pressure_callback,
}

/// What the blocks of one size pin, in bytes unless `tarn/malloc.h` says otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct tarn_pinned {
    pub object_size: u64,
    pub spans: u64,
    pub sparse_spans: u64,
    pub span_bytes: u64,
    pub taken: u64,
    pub pinned_bytes: u64,
}

/// Statistics of the process, in bytes unless `tarn/malloc.h` says otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct tarn_stats {
    pub version: u64,
    pub reserved: u64,
    pub resident_upper: u64,
    pub in_use: u64,
    pub cached: u64,
    pub free_dirty: u64,
    pub free_clean: u64,
    pub large: u64,
    pub metadata: u64,
    pub returned: u64,
    pub huge_advised: u64,
    pub populated: u64,
    pub threads: u64,
    pub refills: u64,
    pub flushes: u64,
    pub exchanges: u64,
    pub spans_made: u64,
    pub spans_freed: u64,
    pub guarded: u64,
    pub guarded_blocks: u64,
}

/// Counts a thread's allocations from `tarn_count_begin` to `tarn_count_end`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct tarn_allocation_count {
    pub allocations: u64,
    pub bytes: u64,
    pub sizes: [u64; 8],
    pub outer: *mut tarn_allocation_count,
}

/// A call path, and what the samples that were taken there stand for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct tarn_profile_site {
    pub frames: *const usize,
    pub frame_count: u64,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub resident_bytes: u64,
    pub blocks: u64,
    pub bytes: u64,
    pub samples: u64,
    pub live_samples: u64,
    pub lifetime_ms: u64,
    pub lifetimes: *const u32,
    pub number: u64,
}

/// An option. The texts are valid until this thread next calls [`tarn_option_at`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct tarn_option {
    pub name: *const c_char,
    pub value: *const c_char,
    pub standard: *const c_char,
    pub accepts: *const c_char,
    pub meaning: *const c_char,
    pub source: *const c_char,
}

#[allow(missing_docs)]
extern "C" {
    pub fn tarn_malloc(size: usize) -> *mut c_void;
    pub fn tarn_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn tarn_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn tarn_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn tarn_free(block: *mut c_void);
    pub fn tarn_free_sized(block: *mut c_void, size: usize);
    pub fn tarn_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
    pub fn tarn_posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub fn tarn_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn tarn_memalign(alignment: usize, size: usize) -> *mut c_void;
    pub fn tarn_valloc(size: usize) -> *mut c_void;
    pub fn tarn_pvalloc(size: usize) -> *mut c_void;
    pub fn tarn_usable_size(block: *const c_void) -> usize;
    pub fn tarn_good_size(size: usize) -> usize;
    pub fn tarn_trim(keep: usize) -> usize;
    pub fn tarn_get_stats(out: *mut tarn_stats);
    pub fn tarn_get_stats_sized(out: *mut tarn_stats, size: usize) -> usize;
    pub fn tarn_stats_json(buffer: *mut c_char, capacity: usize) -> usize;
    pub fn tarn_profile_start(rate: usize) -> c_int;
    pub fn tarn_profile_stop();
    pub fn tarn_profile_write(
        write: Option<unsafe extern "C" fn(context: *mut c_void, data: *const c_char, size: usize)>,
        context: *mut c_void,
    ) -> c_int;
    pub fn tarn_profile_dump(fd: c_int) -> c_int;
    pub fn tarn_visit_profile(
        visit: Option<unsafe extern "C" fn(context: *mut c_void, site: *const tarn_profile_site)>,
        context: *mut c_void,
    ) -> c_int;
    pub fn tarn_count_begin(count: *mut tarn_allocation_count);
    pub fn tarn_count_end(count: *mut tarn_allocation_count);
    pub fn tarn_on_pressure(callback: *mut tarn_pressure_callback) -> c_int;
    pub fn tarn_off_pressure(callback: *mut tarn_pressure_callback);
    pub fn tarn_get_pressure(out: *mut tarn_pressure);
    pub fn tarn_would_move(block: *const c_void, ratio: f64) -> c_int;
    pub fn tarn_would_move_each(blocks: *const *const c_void, count: usize, ratio: f64, results: *mut u8) -> usize;
    pub fn tarn_move(block: *mut c_void) -> *mut c_void;
    pub fn tarn_visit_pinned(
        visit: Option<unsafe extern "C" fn(context: *mut c_void, pinned: *const tarn_pinned)>,
        context: *mut c_void,
    );
    pub fn tarn_pinned_by(block: *const c_void) -> usize;
    pub fn tarn_option_at(index: usize, out: *mut tarn_option) -> c_int;
    pub fn tarn_set_option(name: *const c_char, value: *const c_char) -> c_int;
    pub fn tarn_version() -> *const c_char;
}

/// A linker takes a file out of a static library only for a name that something refers to. These references make it take
/// malloc and operator new from tarn, which stands before libc on the command line.
#[cfg(feature = "override")]
mod replacement {
    use core::ffi::c_void;

    extern "C" {
        fn malloc(size: usize) -> *mut c_void;
        #[link_name = "_Znwm"]
        fn operator_new(size: usize) -> *mut c_void;
    }

    #[used]
    static MALLOC: unsafe extern "C" fn(usize) -> *mut c_void = malloc;
    #[used]
    static OPERATOR_NEW: unsafe extern "C" fn(usize) -> *mut c_void = operator_new;
}
