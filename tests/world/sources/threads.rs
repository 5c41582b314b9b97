// SPDX-License-Identifier: MIT
// Threads that are started all the time, each with containers of its own: the first allocation of a Rust thread lies inside
// pthread_getattr_np. Prints a sum.
use std::collections::BTreeMap;

#[inline(never)]
fn fill_shelf(seed: u64) -> u64 {
    let mut shelf: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut state = seed;
    for round in 0..400u64 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        shelf.entry(state >> 54).or_default().push(round);
    }
    shelf.values().map(|each| each.len() as u64 * each.iter().sum::<u64>()).fold(0, u64::wrapping_add)
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(200);
    let mut sum = 0u64;
    for round in 0..rounds {
        let threads: Vec<_> = (0..4).map(|index| std::thread::spawn(move || fill_shelf(round * 4 + index))).collect();
        for each in threads {
            sum = sum.wrapping_add(each.join().unwrap());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    println!("{sum}");
}
