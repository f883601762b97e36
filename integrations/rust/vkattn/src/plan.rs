//! Plans: a problem, checked, with its kernel chosen.

use crate::buffer::{hold, Binding};
use crate::context::Inner;
use crate::devices::List;
use crate::error::{check, text, Result};
use crate::tensor::Role;
use ash::vk;
use std::sync::Arc;
use vkattn_sys as sys;

/// What recording a plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Requirements {
    /// 0: no [`Role::WORKSPACE`] is needed.
    pub workspace_bytes: u64,
    pub workspace_alignment: u64,
    /// These three are what one recording takes of its descriptor pool, all 0 on devices with push descriptors.
    pub descriptor_sets: u32,
    pub storage_buffer_descriptors: u32,
    pub uniform_buffer_descriptors: u32,
}

impl Requirements {
    /// For `vk::DescriptorPoolCreateInfo`, whose `max_sets` are `descriptor_sets`; empty: no pool is needed.
    pub fn pool_sizes(&self) -> Vec<vk::DescriptorPoolSize> {
        [
            (vk::DescriptorType::STORAGE_BUFFER, self.storage_buffer_descriptors),
            (vk::DescriptorType::UNIFORM_BUFFER, self.uniform_buffer_descriptors),
        ]
        .into_iter()
        .filter(|(_, count)| *count != 0)
        .map(|(ty, descriptor_count)| vk::DescriptorPoolSize { ty, descriptor_count })
        .collect()
    }
}

/// The choice that a plan made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// For instance "flash"; "auto" of plans without attention.
    pub kernel: String,
    /// One sentence that says why.
    pub reason: String,
    /// Compute dispatches of one recording.
    pub dispatches: u32,
}

/// What a plan binds for a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanBinding {
    /// What it is for.
    pub role: Role,
    /// As messages call it.
    pub name: String,
    /// That the region must hold; 0: it need not be bound.
    pub bytes: u64,
    /// What the region's offset must be a multiple of.
    pub alignment: u64,
    /// Whether the plan writes it.
    pub is_written: bool,
}

/// A checked problem with its kernel chosen and its pipelines built. Immutable: threads may record and run it at once.
pub struct Plan {
    handle: sys::vkattn_plan,
    bindings: Vec<PlanBinding>,
    context: Arc<Inner>,
}

// The library: "A plan is immutable after creation and may be recorded from many threads at once".
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    pub(crate) fn new(handle: sys::vkattn_plan, context: &Arc<Inner>) -> Result<Self> {
        let mut plan = Plan { handle, bindings: Vec::new(), context: context.clone() };
        let list = List::of(|list| unsafe { sys::vkattn_plan_bindings(handle, list) })?;
        plan.bindings = unsafe {
            list.map(|binding: &sys::vkattn_plan_binding| PlanBinding {
                role: binding.role.into(),
                name: text(binding.name),
                bytes: binding.bytes,
                alignment: binding.alignment,
                is_written: binding.is_written != 0,
            })
        };
        Ok(plan)
    }

    /// Returns what recording needs.
    pub fn requirements(&self) -> Result<Requirements> {
        let mut needed: sys::vkattn_requirements = sys::sized();
        check(unsafe { sys::vkattn_plan_requirements(self.handle, &mut needed) })?;
        Ok(Requirements {
            workspace_bytes: needed.workspace_bytes,
            workspace_alignment: needed.workspace_alignment,
            descriptor_sets: needed.descriptor_sets,
            storage_buffer_descriptors: needed.storage_buffer_descriptors,
            uniform_buffer_descriptors: needed.uniform_buffer_descriptors,
        })
    }

    /// Returns the kernel taken, and why.
    pub fn report(&self) -> Result<Report> {
        let mut report: sys::vkattn_report = sys::sized();
        check(unsafe { sys::vkattn_plan_get_report(self.handle, &mut report) })?;
        Ok(Report { kernel: text(report.kernel_name), reason: text(report.reason), dispatches: report.dispatches })
    }

    /// Returns what it binds, the workspace too.
    pub fn bindings(&self) -> &[PlanBinding] {
        &self.bindings
    }

    /// Records, submits on the context's queue and waits. The workspace need not be bound. Returns the milliseconds on the GPU, where
    /// the queue has timestamps.
    pub fn run(&self, bindings: &[Binding<'_>]) -> Result<Option<f64>> {
        let _held = hold(&self.context, bindings, |role| self.writes(role))?;
        let raw = raw(bindings);
        let mut gpu_ms = -1.0;
        check(unsafe { sys::vkattn_run(self.handle, raw.as_ptr(), raw.len() as u32, &mut gpu_ms) })?;
        Ok((gpu_ms >= 0.0).then_some(gpu_ms))
    }

    /// Records the plan's dispatches into your command buffer; `pool` where [`Plan::requirements`] asks for descriptor sets, else null.
    /// The barriers around them are yours: inputs visible to compute shaders before; outputs and the workspace are written there.
    /// Nothing is recorded on failure.
    ///
    /// # Safety
    /// The command buffer is of the context's device and of a compute family, is recording, outside a render pass, and used by no other
    /// thread. The plan, what is bound, the pool and its sets outlive its execution; no other use of what is bound overlaps with it.
    pub unsafe fn record(
        &self,
        command_buffer: vk::CommandBuffer,
        bindings: &[Binding<'_>],
        pool: vk::DescriptorPool,
    ) -> Result<()> {
        let held = hold(&self.context, bindings, |_| false)?; // checks alone: nothing runs yet
        drop(held);
        let raw = raw(bindings);
        let mut info: sys::vkattn_record_info = sys::sized();
        info.command_buffer = command_buffer;
        info.descriptor_pool = pool;
        info.bindings = raw.as_ptr();
        info.binding_count = raw.len() as u32;
        check(sys::vkattn_record(self.handle, &info))
    }

    /// Records and submits on the context's queue, without a wait; semaphores with the value that a timeline must reach, or gets.
    /// [`crate::Context::wait`] waits.
    ///
    /// # Safety
    /// The semaphores are of the context's device. What is bound outlives the execution, and no other use of it overlaps with it, but for
    /// later plans on the same queue and calls of [`crate::Buffer`], which wait for it.
    pub unsafe fn submit(
        &self,
        bindings: &[Binding<'_>],
        waits: &[(vk::Semaphore, u64)],
        signals: &[(vk::Semaphore, u64)],
    ) -> Result<()> {
        let held = hold(&self.context, bindings, |role| self.writes(role))?;
        let raw = raw(bindings);
        let (waits, signals) = (semaphores(waits), semaphores(signals));
        let mut sync: sys::vkattn_sync = sys::sized();
        sync.waits = waits.as_ptr();
        sync.wait_count = waits.len() as u32;
        sync.signals = signals.as_ptr();
        sync.signal_count = signals.len() as u32;
        let done = check(sys::vkattn_submit(self.handle, raw.as_ptr(), raw.len() as u32, &sync));
        drop(held);
        done
    }

    /// Returns the C handle, owned by this object.
    pub fn raw(&self) -> sys::vkattn_plan {
        self.handle
    }

    fn writes(&self, role: sys::vkattn_role) -> bool {
        self.bindings.iter().any(|binding| binding.role.0 == role && binding.is_written)
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { sys::vkattn_plan_destroy(self.handle) }
    }
}

fn raw(bindings: &[Binding<'_>]) -> Vec<sys::vkattn_binding> {
    bindings.iter().map(|binding| binding.raw).collect()
}

fn semaphores(pairs: &[(vk::Semaphore, u64)]) -> Vec<sys::vkattn_semaphore> {
    pairs.iter().map(|(semaphore, value)| sys::vkattn_semaphore { semaphore: *semaphore, value: *value }).collect()
}
