//! Storage buffers of a context, and what binds them.

use crate::context::Inner;
use crate::error::{check, Error, Result};
use crate::tensor::Role;
use ash::vk;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use vkattn_sys as sys;

/// Numbers that may be copied to and from a buffer byte by byte.
///
/// # Safety
/// Any bytes are a value, and no byte of a value is undefined.
pub unsafe trait Plain: Copy + Default {}
macro_rules! plain {
    ($($number:ty)*) => { $(unsafe impl Plain for $number {})* };
}
plain!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

/// A storage buffer in the best memory of the device. What it holds is under a lock: calls that run plans and copy take it, so that they
/// wait for each other. What you record or submit yourself is yours to order.
pub struct Buffer {
    handle: sys::vkattn_buffer,
    bytes: u64,
    contents: RwLock<()>,
    context: Arc<Inner>,
}

// The library lets any thread use it; its contents are under the lock.
unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn new(context: &Arc<Inner>, bytes: u64) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        check(unsafe { sys::vkattn_buffer_create(context.handle, bytes, &mut handle) })?;
        Ok(Buffer { handle, bytes, contents: RwLock::new(()), context: context.clone() })
    }

    /// Returns its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies all values into the buffer, from so many bytes on, and waits.
    pub fn write<T: Plain>(&self, offset_bytes: u64, values: &[T]) -> Result<()> {
        let _held = self.writer();
        let (data, bytes) = (values.as_ptr().cast(), std::mem::size_of_val(values) as u64);
        check(unsafe { sys::vkattn_buffer_write(self.handle, offset_bytes, data, bytes) })
    }

    /// Fills all values from the buffer, from so many bytes on, and waits.
    pub fn read<T: Plain>(&self, offset_bytes: u64, values: &mut [T]) -> Result<()> {
        let _held = self.reader();
        let (data, bytes) = (values.as_mut_ptr().cast(), std::mem::size_of_val(values) as u64);
        check(unsafe { sys::vkattn_buffer_read(self.handle, offset_bytes, data, bytes) })
    }

    /// Returns what the buffer holds: as many values as its bytes have.
    pub fn to_vec<T: Plain>(&self) -> Result<Vec<T>> {
        let mut values = vec![T::default(); self.bytes as usize / std::mem::size_of::<T>()];
        self.read(0, &mut values)?;
        Ok(values)
    }

    /// Says that a role's tensor begins at the buffer's first byte.
    pub fn bind(&self, role: Role) -> Binding<'_> {
        self.bind_from(role, 0)
    }

    /// Says that a role's tensor begins so many bytes into the buffer, a multiple of what [`crate::Plan::bindings`] says.
    pub fn bind_from(&self, role: Role, offset_bytes: u64) -> Binding<'_> {
        let bytes = self.bytes.saturating_sub(offset_bytes);
        let region = sys::vkattn_region { buffer: self.vulkan(), offset: offset_bytes, bytes };
        Binding { raw: sys::vkattn_binding { role: role.0, region, ..Default::default() }, buffer: Some(self) }
    }

    /// Returns the Vulkan handle, owned by the buffer. Use of it is not ordered by the buffer's lock.
    pub fn vulkan(&self) -> vk::Buffer {
        unsafe { sys::vkattn_buffer_handle(self.handle) }
    }

    /// Returns the C handle, owned by this object.
    pub fn raw(&self) -> sys::vkattn_buffer {
        self.handle
    }

    pub(crate) fn is_of(&self, context: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
    fn reader(&self) -> RwLockReadGuard<'_, ()> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn writer(&self) -> RwLockWriteGuard<'_, ()> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        unsafe { sys::vkattn_buffer_destroy(self.handle) }
    }
}

/// Where the tensor of a role lies. Borrows the buffer:
///
/// ```compile_fail,E0505
/// # fn main() -> vkattn::Result<()> {
/// let context = vkattn::Context::new(Default::default())?;
/// let buffer = context.buffer(16)?;
/// let binding = buffer.bind(vkattn::Role::QUERY);
/// drop(buffer);
/// # drop(binding);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Binding<'a> {
    pub(crate) raw: sys::vkattn_binding,
    pub(crate) buffer: Option<&'a Buffer>,
}

impl Binding<'static> {
    /// Binds a buffer of your own.
    ///
    /// # Safety
    /// The buffer is of the context's device, was made with `STORAGE_BUFFER` (and with `SHADER_DEVICE_ADDRESS` where the context was told that
    /// buffers have addresses), has memory, and so many bytes from the offset on; it and its contents are left alone until what uses the
    /// binding is done.
    pub unsafe fn vulkan(role: Role, buffer: vk::Buffer, offset_bytes: u64, bytes: u64) -> Self {
        let region = sys::vkattn_region { buffer, offset: offset_bytes, bytes };
        Binding { raw: sys::vkattn_binding { role: role.0, region, ..Default::default() }, buffer: None }
    }
}

/// The locks of what some bindings name, held. In the order of their addresses, so that no two calls wait for each other.
pub(crate) struct Held<'a> {
    _writers: Vec<RwLockWriteGuard<'a, ()>>,
    _readers: Vec<RwLockReadGuard<'a, ()>>,
}

/// Takes the locks for a plan of this context; is_written says of a role whether the plan writes it.
pub(crate) fn hold<'a>(
    context: &Arc<Inner>,
    bindings: &[Binding<'a>],
    is_written: impl Fn(sys::vkattn_role) -> bool,
) -> Result<Held<'a>> {
    let mut wanted: Vec<(&'a Buffer, bool)> = Vec::new();
    for binding in bindings {
        let Some(buffer) = binding.buffer else { continue };
        if !buffer.is_of(context) {
            let name = Role(binding.raw.role).name();
            let message = format!("{name}: a buffer of another context, expected one of the plan's");
            return Err(Error::invalid(&name, message));
        }
        let written = is_written(binding.raw.role);
        match wanted.iter_mut().find(|(known, _)| std::ptr::eq(*known, buffer)) {
            Some((_, also)) => *also |= written,
            None => wanted.push((buffer, written)),
        }
    }
    wanted.sort_by_key(|(buffer, _)| *buffer as *const Buffer as usize);
    let mut held = Held { _writers: Vec::new(), _readers: Vec::new() };
    for (buffer, written) in wanted {
        if written {
            held._writers.push(buffer.writer());
        } else {
            held._readers.push(buffer.reader());
        }
    }
    Ok(held)
}
