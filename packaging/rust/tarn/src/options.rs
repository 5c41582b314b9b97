// SPDX-License-Identifier: MIT
//! Options, which the environment sets at start and the program at any time.

use alloc::ffi::CString;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, CStr};
use core::fmt;
use core::ptr;

/// An option with its value in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionInfo {
    /// E.g. "decay_ms"; the environment variable is `TARN_DECAY_MS`.
    pub name: String,
    /// The value in effect.
    pub value: String,
    /// The default.
    pub standard: String,
    /// What it accepts, e.g. "milliseconds, -1 for never".
    pub accepts: String,
    /// What it does, in one sentence.
    pub meaning: String,
    /// Where the value is from: "default", "environment" or "program".
    pub source: String,
}

/// Why [`set_option`] has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no option of this name.
    UnknownName(String),
    /// The option does not accept this value.
    BadValue {
        /// The option.
        name: String,
        /// The value that was refused.
        value: String,
        /// What the option accepts.
        accepts: String,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownName(name) => {
                write!(out, "tarn has no option '{name}'; there are:")?;
                options().iter().try_for_each(|option| write!(out, " {}", option.name))
            }
            Self::BadValue { name, value, accepts } => {
                write!(out, "{name} does not accept '{value}'; it accepts {accepts}")
            }
        }
    }
}

impl core::error::Error for OptionError {}

const ENOENT: c_int = 2;

/// All options, with the values in effect.
///
/// ```
/// let decay = tarn::options().into_iter().find(|option| option.name == "decay_ms").unwrap();
/// println!("{} = {} ({}): {}", decay.name, decay.value, decay.source, decay.meaning);
/// ```
#[must_use]
pub fn options() -> Vec<OptionInfo> {
    // Copied at once: this thread's next call of tarn_option_at changes the text of the value.
    let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let mut found = Vec::new();
    let mut raw = tarn_sys::tarn_option {
        name: ptr::null(),
        value: ptr::null(),
        standard: ptr::null(),
        accepts: ptr::null(),
        meaning: ptr::null(),
        source: ptr::null(),
    };
    // SAFETY: the structure is the one that the linked sources declare; tarn fills all of it on success.
    while unsafe { tarn_sys::tarn_option_at(found.len(), &mut raw) } == 0 {
        found.push(OptionInfo {
            name: text(raw.name),
            value: text(raw.value),
            standard: text(raw.standard),
            accepts: text(raw.accepts),
            meaning: text(raw.meaning),
            source: text(raw.source),
        });
    }
    found
}

/// Sets an option of the running process.
///
/// ```
/// tarn::set_option("decay_ms", "5000")?;
/// let refused = tarn::set_option("decay_ms", "soon").unwrap_err();
/// assert!(refused.to_string().starts_with("decay_ms does not accept 'soon'; it accepts milliseconds"));
/// # Ok::<(), tarn::OptionError>(())
/// ```
///
/// # Errors
/// For an unknown name and for a value that the option does not accept. Nothing is changed then.
pub fn set_option(name: &str, value: &str) -> Result<(), OptionError> {
    let unknown = || OptionError::UnknownName(name.to_string());
    let bad = || OptionError::BadValue {
        name: name.to_string(),
        value: value.to_string(),
        accepts: options()
            .into_iter()
            .find(|option| option.name == name)
            .map_or_else(String::new, |option| option.accepts),
    };
    let name_text = CString::new(name).map_err(|_| unknown())?;
    let value_text = CString::new(value).map_err(|_| bad())?;
    // SAFETY: both texts end in a null byte and live during the call.
    match unsafe { tarn_sys::tarn_set_option(name_text.as_ptr(), value_text.as_ptr()) } {
        0 => Ok(()),
        ENOENT => Err(unknown()),
        _ => Err(bad()),
    }
}
