//! Contexts: a Vulkan device in use.

use crate::buffer::{Buffer, Plain};
use crate::devices::DeviceFacts;
use crate::error::{check, text, Error, ErrorKind, Result};
use crate::operators::{AttentionBackwardDesc, AttentionDesc, Operator};
use crate::plan::Plan;
use ash::vk;
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;
use vkattn_sys::{self as sys, Sized32};

/// What a message asks of you.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Nothing to do.
    Info,
    /// The call goes on, but not as asked.
    Warning,
    /// Of the validation layers: Vulkan was used wrongly.
    Error,
}

type OnMessage = Box<dyn Fn(Severity, &str) + Send + Sync>;
type Submit = Box<dyn Fn(vk::Queue, &[vk::SubmitInfo<'_>], vk::Fence) -> vk::Result + Send + Sync>;

/// How to make a context; the default is right for most.
#[derive(Default)]
pub struct Options {
    /// Of a context's own device: "" for the best, digits for that index of [`crate::devices`], else a part of its name.
    pub device: String,
    /// Of a context's own device: with the Khronos validation layer, whose messages go to `on_message`.
    pub validation: bool,
    /// Receives messages, from any thread. A panic of it is swallowed.
    pub on_message: Option<OnMessage>,
    /// What [`Context::save`] gave in an earlier run. What does not fit is ignored, with a warning to `on_message`.
    pub saved_data: Vec<u8>,
    /// What you know better of the device than vkattn's table.
    pub traits: Vec<sys::vkattn_trait>,
    /// Names for RenderDoc and validation layers.
    pub debug_labels: bool,
    /// The path of a crash journal, which outlives the process when a driver ends it.
    pub crash_journal: Option<String>,
    /// Milliseconds for tuning unasked; 0: nothing is measured.
    pub tune_budget_ms: u32,
    /// Plans that the context keeps by their descriptions; 0: none.
    pub shared_plan_count: u32,
    /// Called in place of `vkQueueSubmit`, where other threads use the queue: it holds your lock, and must not call vkattn. A panic of it
    /// counts as `ERROR_UNKNOWN`.
    pub submit: Option<Submit>,
}

/// Your device. What is left out is null, 0 or empty.
#[allow(missing_docs)]
#[derive(Clone, Copy)]
pub struct BorrowedDevice<'a> {
    pub entry: &'a ash::Entry,
    pub instance: &'a ash::Instance,
    pub physical_device: vk::PhysicalDevice,
    pub device: &'a ash::Device,
    pub queue: vk::Queue,
    /// That of `queue`, which must support compute.
    pub queue_family: u32,
    /// The version that instance and device were created for, at least 1.1.
    pub api_version: u32,
    /// The device extensions that device was created with.
    pub enabled_extensions: &'a [&'a CStr],
    /// The chain that device was created with, as far as vkattn is concerned.
    pub enabled_features: Option<&'a vk::PhysicalDeviceFeatures2<'a>>,
    /// Whether every buffer that plans bind has `SHADER_DEVICE_ADDRESS`.
    pub buffers_have_addresses: bool,
    pub pipeline_cache: vk::PipelineCache,
    /// A queue for copies, with its family.
    pub transfer_queue: Option<(vk::Queue, u32)>,
}

/// What the library calls back, at a fixed address.
#[derive(Default)]
struct Callbacks {
    on_message: Option<OnMessage>,
    submit: Option<Submit>,
}

/// The context, which all that is made with it shares: what it calls back lives until the last is gone.
pub(crate) struct Inner {
    pub(crate) handle: sys::vkattn_context,
    _callbacks: Arc<Callbacks>,
}

// The library: "A context may be used from many threads at once"; the callbacks are Send and Sync.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        unsafe { sys::vkattn_context_destroy(self.handle) }
    }
}

/// A Vulkan device in use. Clones are the same context; it goes with the last clone, plan or buffer.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

impl Context {
    /// Makes a context on a device of its own.
    pub fn new(options: Options) -> Result<Self> {
        let device = options.device.clone();
        let mut info: sys::vkattn_context_info = sys::sized();
        let selector = c_string("device_selector", &device)?;
        info.device_selector = selector.as_ptr();
        info.enable_validation = options.validation.into();
        Self::make(info, options)
    }

    /// Makes a context around your device, on which it creates nothing that you did not ask for.
    ///
    /// # Safety
    /// The handles are valid, of each other, and were created as the structure says. They outlive the context, its clones and all
    /// that is made with it, which nothing here can see: drop those first. No other thread uses the queues while a call of this crate
    /// does, unless `options.submit` and that thread share a lock. Of `options`, `device` and `validation` are not read.
    pub unsafe fn borrow_device(device: &BorrowedDevice<'_>, options: Options) -> Result<Self> {
        let mut info: sys::vkattn_context_info = sys::sized();
        info.get_instance_proc_addr = Some(device.entry.static_fn().get_instance_proc_addr);
        info.instance = device.instance.handle();
        info.physical_device = device.physical_device;
        info.device = device.device.handle();
        info.queue = device.queue;
        info.queue_family = device.queue_family;
        info.api_version = device.api_version;
        let names: Vec<*const c_char> = device.enabled_extensions.iter().map(|name| name.as_ptr()).collect();
        info.enabled_extensions = names.as_ptr();
        info.enabled_extension_count = names.len() as u32;
        info.enabled_features = device
            .enabled_features
            .map_or(std::ptr::null(), |features| (features as *const vk::PhysicalDeviceFeatures2).cast());
        info.buffers_have_addresses = device.buffers_have_addresses.into();
        info.pipeline_cache = device.pipeline_cache;
        if let Some((queue, family)) = device.transfer_queue {
            info.transfer_queue = queue;
            info.transfer_queue_family = family;
        }
        if info.device == vk::Device::null() {
            return Err(Error::invalid("device", "device: null, expected a device to borrow".into()));
        }
        Self::make(info, options)
    }

    /// What the options add.
    fn make(mut info: sys::vkattn_context_info, mut options: Options) -> Result<Self> {
        let callbacks = Arc::new(Callbacks { on_message: options.on_message.take(), submit: options.submit.take() });
        let user: *mut c_void = Arc::as_ptr(&callbacks).cast_mut().cast();
        if callbacks.on_message.is_some() {
            info.message_callback = Some(forward_message);
            info.message_user = user;
        }
        if callbacks.submit.is_some() {
            info.submit = Some(forward_submit);
            info.submit_user = user;
        }
        if !options.saved_data.is_empty() {
            info.saved_data = options.saved_data.as_ptr().cast();
            info.saved_bytes = options.saved_data.len() as u64;
        }
        info.traits = options.traits.as_ptr();
        info.trait_count = options.traits.len() as u32;
        info.debug_labels = options.debug_labels.into();
        let journal = options.crash_journal.as_deref().map(|path| c_string("crash_journal", path)).transpose()?;
        info.crash_journal = journal.as_ref().map_or(std::ptr::null(), |path| path.as_ptr());
        info.tune_budget_ms = options.tune_budget_ms;
        info.shared_plan_count = options.shared_plan_count;
        let mut handle = std::ptr::null_mut();
        check(unsafe { sys::vkattn_context_create(&info, &mut handle) })?;
        Ok(Context { inner: Arc::new(Inner { handle, _callbacks: callbacks }) })
    }

    /// Returns the facts of its device.
    pub fn facts(&self) -> Result<DeviceFacts> {
        let mut facts: sys::vkattn_device_facts = sys::sized();
        check(unsafe { sys::vkattn_context_facts(self.raw(), &mut facts) })?;
        Ok(DeviceFacts::new(&facts))
    }

    /// Checks a description, chooses a kernel and builds its pipelines, the first of a kind up to seconds long on CPU drivers. All that can
    /// fail on account of the problem fails here.
    pub fn plan<D: Operator>(&self, desc: &D) -> Result<Plan> {
        desc.check()?;
        self.plan_checked(*desc)
    }

    /// The same of the gradients of an attention problem, whose tensors, output and log_sum_exp too, are bound beside them. `gradients`
    /// leaves its `attention` null.
    pub fn plan_attention_backward(
        &self,
        attention: &AttentionDesc,
        gradients: &AttentionBackwardDesc,
    ) -> Result<Plan> {
        attention.check()?;
        gradients.check()?;
        let mut problem = *attention;
        problem.set_size();
        self.plan_checked(AttentionBackwardDesc { attention: &problem, ..*gradients })
    }

    fn plan_checked<D: Operator>(&self, mut desc: D) -> Result<Plan> {
        desc.set_size();
        let mut handle = std::ptr::null_mut();
        check(unsafe { D::PLAN(self.raw(), &desc, &mut handle) })?;
        Plan::new(handle, &self.inner)
    }

    /// Takes ownership of a plan that the C interface made with this context, for instance of a layer.
    ///
    /// # Safety
    /// The handle is such a plan's, and nobody else destroys it. What it was made of is as the C interface demands.
    pub unsafe fn plan_of_raw(&self, handle: sys::vkattn_plan) -> Result<Plan> {
        Plan::new(handle, &self.inner)
    }

    /// Creates a storage buffer of so many bytes, whose contents are undefined.
    pub fn buffer(&self, bytes: u64) -> Result<Buffer> {
        Buffer::new(&self.inner, bytes)
    }

    /// Creates a storage buffer that holds these values.
    pub fn buffer_of<T: Plain>(&self, values: &[T]) -> Result<Buffer> {
        let buffer = self.buffer(std::mem::size_of_val(values) as u64)?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Waits until all is done that was submitted in this context; `None`: without a limit. Fails as [`ErrorKind::Timeout`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let nanoseconds = timeout.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        check(unsafe { sys::vkattn_wait(self.raw(), nanoseconds) })
    }

    /// Returns what the context has learned, for [`Options::saved_data`] of a later run.
    pub fn save(&self) -> Result<Vec<u8>> {
        loop {
            let mut bytes = 0;
            check(unsafe { sys::vkattn_context_save(self.raw(), std::ptr::null_mut(), &mut bytes) })?;
            let mut data = vec![0u8; bytes as usize];
            match check(unsafe { sys::vkattn_context_save(self.raw(), data.as_mut_ptr().cast(), &mut bytes) }) {
                Err(error) if error.kind() == ErrorKind::NoRoom => continue, // other threads make plans
                done => done?,
            }
            data.truncate(bytes as usize);
            return Ok(data);
        }
    }

    /// Returns the C handle, owned by this object.
    pub fn raw(&self) -> sys::vkattn_context {
        self.inner.handle
    }
}

fn c_string(member: &str, value: &str) -> Result<CString> {
    CString::new(value)
        .map_err(|_| Error::invalid(member, format!("{member}: {value:?}, expected a text without a zero byte")))
}

unsafe extern "C" fn forward_message(user: *mut c_void, severity: sys::vkattn_severity, message: *const c_char) {
    let callbacks = &*user.cast::<Callbacks>();
    let severity = match severity {
        sys::vkattn_severity::VKATTN_SEVERITY_INFO => Severity::Info,
        sys::vkattn_severity::VKATTN_SEVERITY_WARNING => Severity::Warning,
        _ => Severity::Error,
    };
    if let Some(on_message) = &callbacks.on_message {
        let _ = catch_unwind(AssertUnwindSafe(|| on_message(severity, &text(message))));
    }
}

unsafe extern "C" fn forward_submit(
    user: *mut c_void,
    queue: vk::Queue,
    count: u32,
    submits: *const vk::SubmitInfo<'static>,
    fence: vk::Fence,
) -> vk::Result {
    let callbacks = &*user.cast::<Callbacks>();
    let submits = if count == 0 { &[] } else { std::slice::from_raw_parts(submits, count as usize) };
    match &callbacks.submit {
        Some(submit) => {
            catch_unwind(AssertUnwindSafe(|| submit(queue, submits, fence))).unwrap_or(vk::Result::ERROR_UNKNOWN)
        }
        None => vk::Result::ERROR_UNKNOWN,
    }
}
