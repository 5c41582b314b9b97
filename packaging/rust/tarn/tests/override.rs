// SPDX-License-Identifier: MIT
//! Whose malloc the program's C code gets: tarn's with the feature `override`, libc's without it.

use core::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};
use tarn as _;

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn strdup(text: *const c_char) -> *mut c_char;
    fn strlen(text: *const c_char) -> usize;
}

const SIZE: usize = 32 << 20;

/// The tests read the figures of the process, so they run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn malloc_is_whose_the_feature_says() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = tarn::stats().in_use;
    // SAFETY: a block of libc's interface, freed once.
    let raised = unsafe {
        let block = malloc(SIZE);
        assert!(!block.is_null());
        let raised = tarn::stats().in_use >= before + SIZE as u64;
        free(block);
        raised
    };
    assert_eq!(raised, cfg!(feature = "override"));
}

/// No `#[global_allocator]` here: Rust's own blocks come from malloc.
#[test]
fn the_system_allocator_follows() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = tarn::stats().in_use;
    let block = vec![1u8; SIZE];
    assert_eq!(tarn::stats().in_use >= before + SIZE as u64, cfg!(feature = "override"));
    drop(block);
}

/// libc itself calls the program's malloc, so a block that libc allocates goes back by the program's free.
#[test]
fn libc_s_own_blocks_follow() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: texts that end in a null byte.
    unsafe {
        let copy = strdup(c"a text that libc copies".as_ptr());
        assert!(!copy.is_null());
        if cfg!(feature = "override") {
            // Ends the process if the block is not tarn's.
            assert!(tarn::Tarn.usable_size(copy.cast()) > strlen(copy));
        }
        free(copy.cast());
    }
}
