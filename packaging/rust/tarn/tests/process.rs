// SPDX-License-Identifier: MIT
//! The figures and options of a process on tarn, returning memory, and what happens at misuse.

use std::alloc::{GlobalAlloc, Layout};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, ptr};

#[global_allocator]
static ALLOCATOR: tarn::Tarn = tarn::Tarn;

/// Options and the figures of the heap belong to the process, so these tests run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn value_of(name: &str) -> String {
    tarn::options().into_iter().find(|option| option.name == name).unwrap().value
}

#[test]
fn serves_the_standard_library() {
    let _alone = alone();
    let size = 32 << 20;
    let before = tarn::stats().in_use;
    let block = vec![1u8; size];
    assert!(tarn::stats().in_use >= before + size as u64, "Vec's memory is not tarn's");
    drop(block);
}

#[test]
fn options_change_and_refuse() {
    let _alone = alone();
    assert!(tarn::options().len() >= 9);
    tarn::set_option("decay_ms", "5000").unwrap();
    assert_eq!(value_of("decay_ms"), "5000");
    for (name, value) in [("decay_ms", "soon"), ("decay_ms", "1\0"), ("huge_pages", "")] {
        let before = value_of(name);
        match tarn::set_option(name, value) {
            Err(tarn::OptionError::BadValue { accepts, .. }) => assert!(!accepts.is_empty()),
            other => panic!("{name}={value:?}: {other:?}"),
        }
        assert_eq!(value_of(name), before);
    }
    for name in ["decay", "", "decay_ms\0"] {
        let refused = tarn::set_option(name, "1").unwrap_err();
        assert!(matches!(refused, tarn::OptionError::UnknownName(_)), "{name}");
        assert!(refused.to_string().contains("decay_ms"), "{refused}");
    }
    tarn::set_option("decay_ms", "1000").unwrap();
}

#[test]
fn trim_returns_memory() {
    let _alone = alone();
    tarn::set_option("decay_ms", "-1").unwrap(); // nothing else returns memory meanwhile
    let mut rows: Vec<Box<[u8; 500]>> = (0..100_000).map(|_| Box::new([1; 500])).collect();
    let returned = tarn::stats().returned;
    rows.clear();
    let given_back = tarn::trim(0);
    assert!(given_back >= 20 << 20, "{given_back} bytes");
    assert!(tarn::stats().returned >= returned + given_back as u64);
    tarn::set_option("decay_ms", "1000").unwrap();
}

#[test]
fn flush_thread_empties_the_cache_and_keeps_pages() {
    let _alone = alone();
    tarn::set_option("decay_ms", "-1").unwrap();
    let rows: Vec<Box<[u8; 200]>> = (0..2000).map(|_| Box::new([1; 200])).collect();
    drop(rows);
    let before = tarn::stats();
    assert!(before.cached > 0);
    tarn::flush_thread();
    let after = tarn::stats();
    assert!(after.cached < before.cached, "{} to {}", before.cached, after.cached);
    assert_eq!(after.returned, before.returned);
    tarn::set_option("decay_ms", "1000").unwrap();
}

#[test]
fn version_and_sizes() {
    assert_eq!(tarn::version(), env!("CARGO_PKG_VERSION"));
    assert!((1..5000).all(|size| tarn::good_size(size) >= size));
    assert_eq!(unsafe { ALLOCATOR.usable_size(ptr::null()) }, 0);
}

/// Runs the ignored test `name` of this program in a process of its own.
fn run_alone(name: &str) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1", name])
        .env("TARN_GUARDED", "off")
        .output()
        .unwrap()
}

fn ends_by_abort_with(name: &str, words: &str) {
    use std::os::unix::process::ExitStatusExt;
    let output = run_alone(name);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{name}: {:?} {message}", output.status);
    assert!(message.contains(words), "{name} prints: {message}");
}

#[test]
#[ignore = "ends its process; detects_misuse runs it"]
fn frees_twice() {
    let layout = Layout::new::<[u8; 64]>();
    unsafe {
        let block = ALLOCATOR.alloc(layout);
        ALLOCATOR.dealloc(block, layout);
        ALLOCATOR.dealloc(block, layout);
    }
}

#[test]
#[ignore = "ends its process; detects_misuse runs it"]
fn writes_past_the_end() {
    let layout = Layout::new::<[u8; 56]>();
    unsafe {
        let block = ALLOCATOR.alloc(layout);
        ptr::write_bytes(block, 1, ALLOCATOR.usable_size(block) + 1);
        ALLOCATOR.dealloc(block, layout);
    }
}

#[test]
fn detects_misuse() {
    ends_by_abort_with("frees_twice", "tarn: ");
    if cfg!(feature = "hardened") {
        ends_by_abort_with("writes_past_the_end", "tarn: ");
    }
}
