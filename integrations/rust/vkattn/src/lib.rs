//! Attention on every Vulkan device: a safe interface of [vkattn](https://docs.rs/vkattn-sys), by ash's handles.
//!
//! * [`Context`] owns a device, or borrows yours ([`Context::borrow_device`]).
//! * [`Context::plan`] checks a description ([`AttentionDesc`] and its like), chooses a kernel and builds its pipelines.
//! * [`Plan::record`] writes its dispatches into your `vk::CommandBuffer`; [`Plan::run`] records, submits and waits.
//! * [`Buffer`] is memory for those who have none of their own.
//!
//! ```no_run
//! use vkattn::{AttentionDesc, Context, Role, Tensor, Type};
//!
//! # fn main() -> vkattn::Result<()> {
//! let context = Context::new(Default::default())?;
//! let rows = Tensor::new(Type::F32, &[1, 8, 128, 64])?;
//! let mut desc = AttentionDesc { query: rows.raw(), key: rows.raw(), value: rows.raw(), output: rows.raw(), ..Default::default() };
//! desc.mask_flags = vkattn::sys::vkattn_mask_flags::VKATTN_MASK_CAUSAL.0;
//! let plan = context.plan(&desc)?;
//!
//! let values = vec![0.5f32; 8 * 128 * 64];
//! let (query, key) = (context.buffer_of(&values)?, context.buffer_of(&values)?);
//! let (value, mut output) = (context.buffer_of(&values)?, context.buffer(rows.bytes())?);
//! plan.run(&[query.bind(Role::QUERY), key.bind(Role::KEY), value.bind(Role::VALUE), output.bind(Role::OUTPUT)])?;
//! let answer: Vec<f32> = output.to_vec()?;
//! # output.write(0, &answer)
//! # }
//! ```
//!
//! Whatever fails is an [`Error`] with the library's message; nothing panics. Objects may be dropped in any order. All are [`Send`] and
//! [`Sync`], as the library says of its own: a context serves many threads, plans never change, and a [`Buffer`] has a lock over what it
//! holds, which [`Plan::run`], [`Buffer::write`] and [`Buffer::read`] take.

#![warn(missing_docs)]

mod buffer;
mod context;
mod devices;
mod error;
mod operators;
mod plan;
mod tensor;

pub use buffer::{Binding, Buffer, Plain};
pub use context::{BorrowedDevice, Context, Options, Severity};
pub use devices::{devices, wanted_extensions, DeviceFacts};
pub use error::{Error, ErrorKind, Result};
pub use operators::*;
pub use plan::{Plan, PlanBinding, Report, Requirements};
pub use tensor::{Role, Tensor, Type};

/// The C interface, for what is not here: layers, caches, programs, variants, tuning. [`Context::raw`], [`Plan::raw`] and [`Buffer::raw`]
/// are what it takes.
pub use vkattn_sys as sys;

/// Returns the version of the library in use, as "major.minor.patch".
pub fn version() -> String {
    error::text(unsafe { sys::vkattn_version() })
}
