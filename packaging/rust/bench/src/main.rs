// SPDX-License-Identifier: MIT
//! Measures tarn, System and mimalloc by the same calls of `GlobalAlloc`, in one program:
//!
//!     cargo run --release -p tarn-bench [ROUNDS]
//!
//! In each round every allocator runs every workload once, in turn. The table has the medians over the rounds, in
//! nanoseconds per operation, and in brackets half the range between the quartiles, in percent. Figures of a machine that does
//! other work meanwhile say little; the brackets show it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

type Allocator = &'static (dyn GlobalAlloc + Sync);

struct Workload {
    name: &'static str,
    /// Runs it, and returns the number of operations.
    run: fn(Allocator) -> u64,
}

const WORKLOADS: &[Workload] = &[
    Workload { name: "pair of 64 bytes", run: pairs },
    Workload { name: "1000 blocks, mixed sizes", run: batches },
    Workload { name: "growing by realloc", run: growth },
    Workload { name: "freed by another thread", run: handed_over },
    Workload { name: "buffer of 4 MiB, filled", run: buffers },
];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a small size")
}

fn pairs(allocator: Allocator) -> u64 {
    let operations = 2_000_000;
    for _ in 0..operations {
        // SAFETY: a block of this layout, freed once.
        unsafe {
            let block = black_box(allocator.alloc(layout(64)));
            allocator.dealloc(block, layout(64));
        }
    }
    operations
}

/// Sizes from 16 to 1 KiB, in a fixed random order.
fn sizes() -> impl Iterator<Item = usize> {
    let mut state = 12_345_u32;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        16 << ((state >> 16) % 7)
    })
}

fn batches(allocator: Allocator) -> u64 {
    let rounds = 500;
    let sizes: Vec<usize> = sizes().take(1000).collect();
    for _ in 0..rounds {
        // SAFETY: blocks of these layouts, each freed once; each is written within its size.
        unsafe {
            let blocks: Vec<*mut u8> = sizes.iter().map(|&size| allocator.alloc(layout(size))).collect();
            for &block in &blocks {
                block.write(1);
            }
            for (&block, &size) in black_box(&blocks).iter().zip(&sizes) {
                allocator.dealloc(block, layout(size));
            }
        }
    }
    rounds * sizes.len() as u64
}

fn growth(allocator: Allocator) -> u64 {
    let rounds = 200;
    let mut operations = 0;
    for _ in 0..rounds {
        let mut size = 64;
        // SAFETY: one block, whose layout is kept in `size`.
        unsafe {
            let mut block = allocator.alloc(layout(size));
            while size < 1 << 20 {
                block = allocator.realloc(block, layout(size), size + size / 2);
                size += size / 2;
                block.add(size - 1).write(1);
                operations += 1;
            }
            allocator.dealloc(black_box(block), layout(size));
        }
    }
    operations
}

/// Addresses as numbers, which may pass between threads.
fn handed_over(allocator: Allocator) -> u64 {
    let batches: u64 = 300;
    let (sender, receiver) = mpsc::sync_channel::<Vec<usize>>(8);
    let consumer = thread::spawn(move || {
        for batch in receiver {
            for block in batch {
                // SAFETY: a block that the other thread has allocated with this layout and handed over.
                unsafe { allocator.dealloc(block as *mut u8, layout(128)) };
            }
        }
    });
    for _ in 0..batches {
        // SAFETY: every layout is allowed.
        let batch = (0..1000).map(|_| unsafe { allocator.alloc(layout(128)) } as usize).collect();
        sender.send(batch).expect("the other thread lives");
    }
    drop(sender);
    consumer.join().expect("the other thread ends");
    batches * 1000
}

fn buffers(allocator: Allocator) -> u64 {
    let operations = 20;
    for _ in 0..operations {
        // SAFETY: a block of this layout, written within its size.
        unsafe {
            let block = allocator.alloc(layout(4 << 20));
            block.write_bytes(1, 4 << 20);
            allocator.dealloc(black_box(block), layout(4 << 20));
        }
    }
    operations
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn main() {
    let rounds: usize = match env::args().nth(1).map(|word| word.parse()) {
        None => 15,
        Some(Ok(rounds)) if rounds > 0 => rounds,
        _ => {
            eprintln!("usage: tarn-bench [ROUNDS]");
            std::process::exit(2);
        }
    };
    static TARN: tarn::Tarn = tarn::Tarn;
    static MIMALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;
    let allocators: [(&str, Allocator); 3] = [("tarn", &TARN), ("System", &System), ("mimalloc", &MIMALLOC)];

    print!("{:28}", "ns per operation");
    for (name, _) in allocators {
        print!("{name:>18}");
    }
    println!();
    for workload in WORKLOADS {
        let mut times = vec![Vec::new(); allocators.len()];
        for round in 0..=rounds {
            for turn in 0..allocators.len() {
                let index = (turn + round) % allocators.len();
                let start = Instant::now();
                let operations = (workload.run)(allocators[index].1);
                let elapsed = start.elapsed().as_nanos() as f64 / operations as f64;
                if round > 0 {
                    times[index].push(elapsed); // the first round warms up
                }
            }
        }
        print!("{:28}", workload.name);
        for figures in &mut times {
            figures.sort_by(f64::total_cmp);
            let median = quantile(figures, 0.5);
            let spread = (quantile(figures, 0.75) - quantile(figures, 0.25)) / 2.0 / median * 100.0;
            print!("{:>18}", format!("{median:.1} (±{spread:.0} %)"));
        }
        println!();
    }
}
