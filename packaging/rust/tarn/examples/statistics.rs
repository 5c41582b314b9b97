// SPDX-License-Identifier: MIT
//! A program on tarn that prints what its heap consists of while it works, and gives idle memory back.
//!
//! cargo run --release --example statistics

#[global_allocator]
static ALLOCATOR: tarn::Tarn = tarn::Tarn;

fn print(when: &str) {
    let stats = tarn::stats();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{when:28} in use {:7.1} MiB, cached {:5.1}, free and resident {:7.1}, returned {:7.1}",
        mib(stats.in_use),
        mib(stats.cached),
        mib(stats.free_dirty),
        mib(stats.returned)
    );
}

fn main() {
    print("at the start");
    let mut rows: Vec<String> = (0..1_000_000).map(|row| format!("row {row} of the table")).collect();
    print("with a million rows");
    let mut kept = 0;
    rows.retain(|_| {
        kept += 1;
        kept % 10 == 0
    });
    print("with a tenth of them");
    drop(rows);
    print("without rows");
    let given_back = tarn::trim(0);
    print("after trim()");
    println!("trim() gave back {given_back} bytes");
    for option in tarn::options() {
        println!("{:13} {:>9}  {}", option.name, option.value, option.meaning);
    }
}
