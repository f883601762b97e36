//! The C interface of vkattn, as bindgen reads it of the headers: `vkattn.h` and `estimate.h`. Types of Vulkan are ash's. The crate
//! `vkattn` is the safe one; what it leaves out (layers, caches, programs, variants) is here.
//!
//! Enumerations are newtypes, since later versions of the library add numbers. `Default` zeroes a structure, padding included;
//! set its `struct_size` by [`sized`].

/// The types of Vulkan that the headers name.
#[allow(non_camel_case_types)]
mod vulkan {
    use ash::vk;
    pub type VkBuffer = vk::Buffer;
    pub type VkCommandBuffer = vk::CommandBuffer;
    pub type VkDescriptorPool = vk::DescriptorPool;
    pub type VkDevice = vk::Device;
    pub type VkDeviceMemory = vk::DeviceMemory;
    pub type VkDeviceSize = vk::DeviceSize;
    pub type VkFence = vk::Fence;
    pub type VkInstance = vk::Instance;
    pub type VkMemoryAllocateFlags = vk::MemoryAllocateFlags;
    pub type VkMemoryRequirements = vk::MemoryRequirements;
    pub type VkPhysicalDevice = vk::PhysicalDevice;
    pub type VkPhysicalDeviceFeatures2 = vk::PhysicalDeviceFeatures2<'static>;
    pub type VkPhysicalDeviceType = vk::PhysicalDeviceType;
    pub type VkPipelineCache = vk::PipelineCache;
    pub type VkQueue = vk::Queue;
    pub type VkResult = vk::Result;
    pub type VkSemaphore = vk::Semaphore;
    pub type VkSubmitInfo = vk::SubmitInfo<'static>;
    pub type PFN_vkGetInstanceProcAddr = Option<vk::PFN_vkGetInstanceProcAddr>;
}

#[allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    rustdoc::bare_urls,
    clippy::all
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
pub use bindings::*;

/// Structures that begin with `struct_size`.
///
/// # Safety
/// `set_size` sets the structure's first member to its size, as the library expects it; zero is a value of the structure.
pub unsafe trait Sized32: Default {
    /// Sets `struct_size`.
    fn set_size(&mut self);
}

/// Returns a zeroed structure that knows its size.
pub fn sized<T: Sized32>() -> T {
    let mut zeroed = T::default();
    zeroed.set_size();
    zeroed
}

include!(concat!(env!("OUT_DIR"), "/sized.rs"));
