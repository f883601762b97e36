//! An application's own Vulkan: instance, device, one queue, memory that the host sees.

use ash::vk;
use std::ffi::CStr;
use vkattn::{Binding, BorrowedDevice, Role};

pub struct Application {
    pub entry: ash::Entry,
    pub instance: ash::Instance,
    pub physical_device: vk::PhysicalDevice,
    pub device: ash::Device,
    pub queue: vk::Queue,
    pub queue_family: u32,
    extensions: Vec<&'static CStr>,
    command_pool: vk::CommandPool,
}

type Fails = Box<dyn std::error::Error>;

impl Application {
    /// On the first device whose name has this part, with the extensions that vkattn likes and the device has.
    pub fn new(part_of_name: Option<&str>) -> Result<Self, Fails> {
        unsafe {
            let entry = ash::Entry::load()?;
            let app_info = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
            let instance = entry
                .create_instance(&vk::InstanceCreateInfo::default().application_info(&app_info), None)
                .map_err(|error| format!("no Vulkan instance: {error:?}, expected an installed Vulkan driver"))?;
            let wanted = part_of_name.unwrap_or("");
            let physical_device = instance
                .enumerate_physical_devices()?
                .into_iter()
                .find(|device| name_of(&instance, *device).contains(wanted))
                .ok_or_else(|| format!("no device whose name has '{wanted}'"))?;
            let queue_family = instance
                .get_physical_device_queue_family_properties(physical_device)
                .iter()
                .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE))
                .ok_or("no queue that computes")? as u32;

            let known = instance.enumerate_device_extension_properties(physical_device)?;
            let has = |name: &CStr| known.iter().any(|each| each.extension_name_as_c_str() == Ok(name));
            let extensions: Vec<&CStr> = vkattn::wanted_extensions().into_iter().filter(|name| has(name)).collect();
            let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
            let queues =
                [vk::DeviceQueueCreateInfo::default().queue_family_index(queue_family).queue_priorities(&[1.0])];
            let device_info =
                vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
            let device = instance.create_device(physical_device, &device_info, None)?;
            let queue = device.get_device_queue(queue_family, 0);
            let pool_info = vk::CommandPoolCreateInfo::default().queue_family_index(queue_family);
            let command_pool = device.create_command_pool(&pool_info, None)?;
            Ok(Application { entry, instance, physical_device, device, queue, queue_family, extensions, command_pool })
        }
    }

    /// What vkattn is told of the device, without its extensions.
    pub fn borrowed(&self) -> BorrowedDevice<'_> {
        BorrowedDevice {
            entry: &self.entry,
            instance: &self.instance,
            physical_device: self.physical_device,
            device: &self.device,
            queue: self.queue,
            queue_family: self.queue_family,
            api_version: vk::API_VERSION_1_1,
            enabled_extensions: &[],
            enabled_features: None,
            buffers_have_addresses: false,
            pipeline_cache: vk::PipelineCache::null(),
            transfer_queue: None,
        }
    }

    pub fn extension_names(&self) -> Vec<&CStr> {
        self.extensions.clone()
    }

    /// Null where no sets are needed.
    pub fn descriptor_pool(
        &self,
        sets: u32,
        sizes: &[vk::DescriptorPoolSize],
    ) -> Result<vk::DescriptorPool, vk::Result> {
        if sets == 0 {
            return Ok(vk::DescriptorPool::null());
        }
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(sizes);
        unsafe { self.device.create_descriptor_pool(&info, None) }
    }

    /// Has a command buffer recorded between barriers for host and shaders, submits it and waits.
    pub fn run<T>(&self, record: impl FnOnce(vk::CommandBuffer) -> T) -> Result<T, vk::Result> {
        unsafe {
            let info = vk::CommandBufferAllocateInfo::default().command_pool(self.command_pool).command_buffer_count(1);
            let commands = self.device.allocate_command_buffers(&info)?;
            let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            self.device.begin_command_buffer(commands[0], &begin)?;
            let recorded = record(commands[0]);
            let to_host = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::SHADER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ)];
            let (shaders, host) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::HOST);
            let none = vk::DependencyFlags::empty();
            self.device.cmd_pipeline_barrier(commands[0], shaders, host, none, &to_host, &[], &[]);
            self.device.end_command_buffer(commands[0])?;
            let submit = [vk::SubmitInfo::default().command_buffers(&commands)];
            self.device.queue_submit(self.queue, &submit, vk::Fence::null())?;
            self.device.queue_wait_idle(self.queue)?;
            self.device.free_command_buffers(self.command_pool, &commands);
            Ok(recorded)
        }
    }

    pub fn buffer(&self, bytes: u64) -> Result<HostBuffer<'_>, vk::Result> {
        let seen = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        unsafe {
            let info = vk::BufferCreateInfo::default().size(bytes).usage(vk::BufferUsageFlags::STORAGE_BUFFER);
            let buffer = self.device.create_buffer(&info, None)?;
            let needs = self.device.get_buffer_memory_requirements(buffer);
            let types = self.instance.get_physical_device_memory_properties(self.physical_device);
            let index = (0..types.memory_type_count).find(|index| {
                needs.memory_type_bits & (1 << index) != 0
                    && types.memory_types[*index as usize].property_flags.contains(seen)
            });
            let index = index.ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            let allocation = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index);
            let memory = self.device.allocate_memory(&allocation, None)?;
            self.device.bind_buffer_memory(buffer, memory, 0)?;
            let mapped = self.device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?;
            mapped.cast::<u8>().write_bytes(0xff, bytes as usize); // NaN, until it is written
            Ok(HostBuffer { app: self, buffer, memory, mapped: mapped.cast(), bytes })
        }
    }

    pub fn buffer_of(&self, values: &[f32]) -> Result<HostBuffer<'_>, vk::Result> {
        let made = self.buffer(std::mem::size_of_val(values) as u64)?;
        unsafe { made.mapped.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(made)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        unsafe {
            self.device.destroy_command_pool(self.command_pool, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

fn name_of(instance: &ash::Instance, device: vk::PhysicalDevice) -> String {
    let properties = unsafe { instance.get_physical_device_properties(device) };
    properties.device_name_as_c_str().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A mapped storage buffer.
pub struct HostBuffer<'a> {
    app: &'a Application,
    pub buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut f32,
    pub bytes: u64,
}

impl HostBuffer<'_> {
    pub fn bind(&self, role: Role) -> Binding<'static> {
        // The callers keep the buffer until what they record has run.
        unsafe { Binding::vulkan(role, self.buffer, 0, self.bytes) }
    }

    pub fn read(&self, count: usize) -> Vec<f32> {
        assert!(count as u64 * 4 <= self.bytes);
        unsafe { std::slice::from_raw_parts(self.mapped, count) }.to_vec()
    }
}

impl Drop for HostBuffer<'_> {
    fn drop(&mut self) {
        unsafe {
            self.app.device.destroy_buffer(self.buffer, None);
            self.app.device.free_memory(self.memory, None);
        }
    }
}
