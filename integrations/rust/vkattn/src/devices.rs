//! Devices and their facts.

use crate::error::{check, Result};
use ash::vk;
use std::ffi::{c_char, CStr};
use vkattn_sys as sys;

/// What is known of a device. [`sys::vkattn_device_facts`] has more: see [`crate::Context::raw`].
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct DeviceFacts {
    pub index: u32,
    pub name: String,
    pub driver_name: String,
    pub driver_info: String,
    pub vendor_id: u32,
    pub device_id: u32,
    pub api_version: u32,
    pub device_type: vk::PhysicalDeviceType,
    /// The sum of the device-local heaps.
    pub memory_bytes: u64,
    pub max_storage_buffer_range: u64,
    pub subgroup_size: u32,
    /// Whether recording needs no descriptor pool.
    pub push_descriptors: bool,
    pub shader_float16: bool,
    pub cooperative_matrix: bool,
}

impl DeviceFacts {
    pub(crate) fn new(facts: &sys::vkattn_device_facts) -> Self {
        DeviceFacts {
            index: facts.index,
            name: array_text(&facts.name),
            driver_name: array_text(&facts.driver_name),
            driver_info: array_text(&facts.driver_info),
            vendor_id: facts.vendor_id,
            device_id: facts.device_id,
            api_version: facts.api_version,
            device_type: facts.device_type,
            memory_bytes: facts.device_memory_bytes,
            max_storage_buffer_range: facts.max_storage_buffer_range,
            subgroup_size: facts.subgroup_size,
            push_descriptors: facts.push_descriptors != 0,
            shader_float16: facts.shader_float16 != 0,
            cooperative_matrix: facts.cooperative_matrix != 0,
        }
    }
}

fn array_text(array: &[c_char]) -> String {
    let bytes: Vec<u8> = array.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A list of the library's, whose structures are copied out.
pub(crate) struct List(pub sys::vkattn_list);

impl List {
    pub(crate) fn of(make: impl FnOnce(*mut sys::vkattn_list) -> sys::vkattn_result) -> Result<Self> {
        let mut list = List(std::ptr::null_mut());
        check(make(&mut list.0))?;
        Ok(list)
    }

    /// Copies of all structures.
    ///
    /// # Safety
    /// They are of the type `S`.
    pub(crate) unsafe fn map<S, T>(&self, copy: impl Fn(&S) -> T) -> Vec<T> {
        let count = sys::vkattn_list_count(self.0);
        (0..count).map(|index| copy(&*sys::vkattn_list_get(self.0, index).cast::<S>())).collect()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        unsafe { sys::vkattn_list_destroy(self.0) }
    }
}

/// Lists every Vulkan device, in the order of the system's loader: none where there is no device.
pub fn devices() -> Result<Vec<DeviceFacts>> {
    let list = List::of(|list| unsafe { sys::vkattn_enumerate_devices(None, list) })?;
    Ok(unsafe { list.map(DeviceFacts::new) })
}

/// The device extensions that make vkattn better where a device has them: enable those that exist.
pub fn wanted_extensions() -> Vec<&'static CStr> {
    let mut count = 0;
    unsafe {
        let names = sys::vkattn_wanted_extensions(&mut count);
        (0..count as usize).map(|index| CStr::from_ptr(*names.add(index))).collect()
    }
}
