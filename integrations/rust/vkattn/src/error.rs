//! Failures, as the library tells them.

use std::ffi::{c_char, CStr};
use std::fmt;
use vkattn_sys as sys;

/// What calls return that may fail.
pub type Result<T> = std::result::Result<T, Error>;

/// How a call ended, and so what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument breaks its documented contract: mend the call.
    InvalidArgument,
    /// A right request that this device or this build cannot serve: ask for another.
    Unsupported,
    /// No Vulkan loader, or it has no usable driver.
    NoVulkan,
    /// No device matches the request.
    NoDevice,
    /// The host has no memory left.
    OutOfHostMemory,
    /// The device has no memory left.
    OutOfDeviceMemory,
    /// For good: whatever needs the device fails so from then on.
    DeviceLost,
    /// Any other failure of Vulkan; the message holds the `VkResult`.
    Vulkan,
    /// A defect of vkattn: please report it.
    Internal,
    /// A cache, its pages or the room that the caller gave are full.
    NoRoom,
    /// A text does not compile.
    Compile,
    /// Not done in time: nothing is lost, wait again.
    Timeout,
    /// What a later version of the library has added.
    Other(i32),
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    member: String,
    entry: Option<u32>,
}

impl Error {
    pub(crate) fn invalid(member: &str, message: String) -> Self {
        Error { kind: ErrorKind::InvalidArgument, message, member: member.into(), entry: None }
    }

    /// Returns how the call ended.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
    /// Returns the library's message: one line that names the argument, what it is and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// Returns what of the arguments is at fault, for instance "query.shape"; "" where it is none of them.
    pub fn member(&self) -> &str {
        &self.member
    }
    /// Returns which of an array is at fault, from 0.
    pub fn entry(&self) -> Option<u32> {
        self.entry
    }

    /// What the last failed call of this thread has left.
    fn last(result: sys::vkattn_result) -> Self {
        // Never null, and stays until the next failing call of this thread.
        let failure = unsafe { &*sys::vkattn_last_failure() };
        Error {
            kind: kind_of(result),
            message: text(failure.message),
            member: text(failure.member),
            entry: (failure.entry != u32::MAX).then_some(failure.entry),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

fn kind_of(result: sys::vkattn_result) -> ErrorKind {
    use sys::vkattn_result as Result;
    match result {
        Result::VKATTN_ERROR_INVALID_ARGUMENT => ErrorKind::InvalidArgument,
        Result::VKATTN_ERROR_UNSUPPORTED => ErrorKind::Unsupported,
        Result::VKATTN_ERROR_NO_VULKAN => ErrorKind::NoVulkan,
        Result::VKATTN_ERROR_NO_DEVICE => ErrorKind::NoDevice,
        Result::VKATTN_ERROR_OUT_OF_HOST_MEMORY => ErrorKind::OutOfHostMemory,
        Result::VKATTN_ERROR_OUT_OF_DEVICE_MEMORY => ErrorKind::OutOfDeviceMemory,
        Result::VKATTN_ERROR_DEVICE_LOST => ErrorKind::DeviceLost,
        Result::VKATTN_ERROR_VULKAN => ErrorKind::Vulkan,
        Result::VKATTN_ERROR_INTERNAL => ErrorKind::Internal,
        Result::VKATTN_ERROR_NO_ROOM => ErrorKind::NoRoom,
        Result::VKATTN_ERROR_COMPILE => ErrorKind::Compile,
        Result::VKATTN_ERROR_TIMEOUT => ErrorKind::Timeout,
        other => ErrorKind::Other(other.0),
    }
}

/// Makes a result of the library's. On the thread that made the call, before another.
pub(crate) fn check(result: sys::vkattn_result) -> Result<()> {
    match result {
        sys::vkattn_result::VKATTN_SUCCESS => Ok(()),
        failed => Err(Error::last(failed)),
    }
}

/// Copies a text of the library's.
pub(crate) fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
