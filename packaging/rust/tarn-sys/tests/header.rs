// SPDX-License-Identifier: MIT
//! The declarations are those of `tarn/malloc.h`.

use std::fs;
use std::mem::{offset_of, size_of};
use tarn_sys::{tarn_option, tarn_pinned, tarn_pressure, tarn_stats};

fn header() -> String {
    let path = concat!(env!("TARN_INCLUDE"), "/tarn/malloc.h");
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of a structure's members, without comments; all are words.
fn members(header: &str, name: &str) -> Vec<String> {
    let begin = header.find(&format!("typedef struct {name} {{")).expect("the structure begins");
    let end = begin + header[begin..].find(&format!("}} {name};")).expect("the structure ends");
    let mut text = String::new();
    let mut rest = &header[begin..end];
    while let Some(open) = rest.find("/*") {
        text.push_str(&rest[..open]);
        rest = &rest[open + rest[open..].find("*/").expect("a comment ends") + 2..];
    }
    text.push_str(rest);
    let (_, body) = text.split_once('{').expect("a body");
    body.split(';')
        .map(str::trim)
        .filter(|member| !member.is_empty())
        .map(|member| {
            let (kind, name) = member.rsplit_once(' ').expect("a type and a name");
            assert!(["uint64_t", "const char*"].contains(&kind.trim()), "{member}");
            name.to_owned()
        })
        .collect()
}

macro_rules! check {
    ($structure:ident: $($member:ident)*) => {
        let expected = members(&header(), stringify!($structure));
        assert_eq!(expected, [$(stringify!($member)),*]);
        let offsets = [$(offset_of!($structure, $member)),*];
        assert!(offsets.iter().enumerate().all(|(index, offset)| *offset == 8 * index), "{offsets:?}");
        assert_eq!(size_of::<$structure>(), 8 * expected.len());
    };
}

#[test]
fn structures_have_the_header_s_members() {
    check!(tarn_stats: version reserved resident_upper in_use cached free_dirty free_clean large metadata returned
        huge_advised populated threads refills flushes exchanges spans_made spans_freed guarded guarded_blocks);
    check!(tarn_pressure: level used soft hard excess);
    check!(tarn_pinned: object_size spans sparse_spans span_bytes taken pinned_bytes);
    check!(tarn_option: name value standard accepts meaning source);
}

#[test]
fn every_function_is_declared() {
    let declarations = include_str!("../src/lib.rs");
    let header = header();
    let mut count = 0;
    for line in header.lines().filter(|line| line.starts_with("TARN_API ")) {
        let (before, _) = line.split_once('(').expect("a function");
        let name = before.rsplit([' ', '*']).next().expect("a name");
        assert!(declarations.contains(&format!("pub fn {name}(")), "{name} is not declared");
        count += 1;
    }
    assert!(count >= 20, "the header has only {count} functions");
}

#[test]
fn version_is_the_package_s() {
    let version = unsafe { std::ffi::CStr::from_ptr(tarn_sys::tarn_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}
