// SPDX-License-Identifier: MIT
//! The allocator under a whole program and by itself: alignment, contents, threads, failures.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOCATOR: tarn::Tarn = tarn::Tarn;

const SIZES: &[usize] = &[1, 7, 8, 15, 16, 17, 24, 33, 100, 1000, 4095, 4096, 10_000, 262_144, 300_000, 5 << 20];

/// A byte that depends on the block and the place in it.
fn pattern(seed: usize, place: usize) -> u8 {
    (seed.wrapping_mul(131) ^ place.wrapping_mul(7) ^ (place >> 8)) as u8
}

/// All places of a small block; of a larger one some on each page, and the last 64.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let all = size.min(5000);
    (0..all).chain((all..size).step_by(997)).chain(size.saturating_sub(64)..size)
}

unsafe fn fill(block: *mut u8, size: usize, seed: usize) {
    places(size).for_each(|place| unsafe { block.add(place).write(pattern(seed, place)) });
}

/// Whether the first `kept` bytes of what fill() wrote to a block of `size` bytes are there.
unsafe fn holds(block: *const u8, size: usize, kept: usize, seed: usize) -> bool {
    places(size).filter(|&place| place < kept).all(|place| unsafe { block.add(place).read() } == pattern(seed, place))
}

fn alignments() -> impl Iterator<Item = usize> {
    (0..=21).map(|power| 1 << power) // up to 2 MiB
}

#[test]
fn blocks_are_aligned_and_apart() {
    for alignment in alignments() {
        let mut blocks = Vec::new();
        for (seed, &size) in SIZES.iter().enumerate() {
            let layout = Layout::from_size_align(size, alignment).unwrap();
            let block = unsafe { ALLOCATOR.alloc(layout) };
            assert!(!block.is_null(), "{layout:?}");
            assert_eq!(block as usize % alignment, 0, "{layout:?}");
            unsafe {
                assert!(ALLOCATOR.usable_size(block) >= size);
                fill(block, size, seed);
            }
            blocks.push((block, layout, seed));
        }
        for (block, layout, seed) in blocks {
            unsafe {
                assert!(holds(block, layout.size(), layout.size(), seed), "{layout:?} was overwritten");
                ALLOCATOR.dealloc(block, layout);
            }
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_after_use() {
    let zeroes = vec![0u8; SIZES[SIZES.len() - 1]];
    for alignment in alignments() {
        for &size in SIZES {
            let layout = Layout::from_size_align(size, alignment).unwrap();
            for round in 0..3 {
                let block = unsafe { ALLOCATOR.alloc_zeroed(layout) };
                assert!(!block.is_null() && block as usize % alignment == 0, "{layout:?}");
                let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
                assert!(*bytes == zeroes[..size], "{layout:?}, round {round}");
                bytes.fill(0xa5);
                unsafe { ALLOCATOR.dealloc(block, layout) };
            }
        }
    }
}

#[test]
fn realloc_keeps_contents_and_alignment() {
    for alignment in alignments() {
        for &from in SIZES {
            for &to in SIZES {
                let layout = Layout::from_size_align(from, alignment).unwrap();
                unsafe {
                    let block = ALLOCATOR.alloc(layout);
                    fill(block, from, alignment);
                    let block = ALLOCATOR.realloc(block, layout, to);
                    assert!(!block.is_null() && block as usize % alignment == 0, "{layout:?} to {to}");
                    assert!(holds(block, from, to, alignment), "{layout:?} to {to} lost its contents");
                    fill(block, to, alignment + 1);
                    ALLOCATOR.dealloc(block, Layout::from_size_align_unchecked(to, alignment));
                }
            }
        }
    }
}

#[test]
fn growing_step_by_step_keeps_contents() {
    let mut numbers = Vec::new();
    for number in 0..3_000_000u64 {
        numbers.push(number);
    }
    assert!(numbers.iter().enumerate().all(|(index, &number)| index as u64 == number));
    numbers.truncate(1000);
    numbers.shrink_to_fit();
    assert_eq!(numbers.iter().sum::<u64>(), 499_500);
}

#[test]
fn blocks_pass_between_threads() {
    let threads = 8;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel::<(usize, Vec<u8>)>()).unzip();
    let workers: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(index, receiver)| {
            let senders = senders.clone();
            thread::spawn(move || {
                for round in 0..4000 {
                    let seed = index * 4000 + round;
                    let size = SIZES[seed % 12] + seed % 64;
                    let block: Vec<u8> = (0..size).map(|place| pattern(seed, place)).collect();
                    senders[(index + round) % threads].send((seed, block)).unwrap();
                }
                drop(senders);
                // Frees what other threads have allocated.
                let mut count = 0;
                for (seed, block) in receiver {
                    assert!(block.iter().enumerate().all(|(place, &byte)| byte == pattern(seed, place)), "{seed}");
                    count += 1;
                }
                count
            })
        })
        .collect();
    drop(senders);
    let count: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(count, threads * 4000);
}

#[test]
fn threads_come_and_go() {
    for round in 0..200 {
        let block = thread::spawn(move || {
            let table: HashMap<usize, String> = (0..200).map(|key| (key, format!("{round}/{key}"))).collect();
            Box::new(table)
        })
        .join()
        .unwrap();
        assert!(block.iter().all(|(key, value)| *value == format!("{round}/{key}")));
    }
    let tree: BTreeMap<u32, Box<[u8]>> =
        (0..10_000).map(|key| (key, vec![key as u8; key as usize % 300].into())).collect();
    assert!(tree.iter().all(|(key, value)| value.iter().all(|&byte| byte == *key as u8)));
}

#[test]
fn too_large_a_block_is_null() {
    let most = isize::MAX as usize;
    for alignment in [1, 16, 4096, 1 << 21] {
        let layout = Layout::from_size_align(most - (alignment - 1), alignment).unwrap();
        unsafe {
            assert!(ALLOCATOR.alloc(layout).is_null());
            assert!(ALLOCATOR.alloc_zeroed(layout).is_null());
            // A block that cannot grow stays as it is.
            let small = Layout::from_size_align(1000, alignment).unwrap();
            let block = ALLOCATOR.alloc(small);
            fill(block, 1000, 3);
            assert!(ALLOCATOR.realloc(block, small, layout.size()).is_null());
            assert!(holds(block, 1000, 1000, 3));
            ALLOCATOR.dealloc(block, small);
        }
    }
    assert!(Vec::<u8>::new().try_reserve_exact(most - 4096).is_err());
}
