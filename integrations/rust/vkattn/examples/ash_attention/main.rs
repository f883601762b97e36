//! Records attention into a command buffer of the application's own, on its own device and memory, and compares with a plain reference.
//! An argument is a part of the device's name.

mod device;
mod reference;

use ash::vk;
use device::{Application, HostBuffer};
use reference::{largest_error, numbers, Problem};
use std::error::Error;
use vkattn::{AttentionDesc, Binding, BorrowedDevice, Context, Role, Tensor, Type};

fn main() -> Result<(), Box<dyn Error>> {
    let app = Application::new(std::env::args().nth(1).as_deref())?;
    // Everything of vkattn goes before the device: `attend` owns it.
    attend(&app)
}

fn attend(app: &Application) -> Result<(), Box<dyn Error>> {
    let problem =
        Problem { batch: 2, query_heads: 8, kv_heads: 2, q_len: 33, kv_len: 70, head_dim: 64, is_causal: true };
    let query = Tensor::new(Type::F32, &problem.query_shape())?;
    let key = Tensor::new(Type::F32, &problem.key_shape())?;
    let desc = AttentionDesc {
        query: query.raw(),
        key: key.raw(),
        value: key.raw(),
        output: query.raw(),
        mask_flags: vkattn::sys::vkattn_mask_flags::VKATTN_MASK_CAUSAL.0,
        ..Default::default()
    };

    // The device outlives `context`, `plan` and the recording: `app` is the caller's.
    let device = BorrowedDevice { enabled_extensions: &app.extension_names(), ..app.borrowed() };
    let context = unsafe { Context::borrow_device(&device, Default::default())? };
    let plan = context.plan(&desc)?;
    let needed = plan.requirements()?;
    println!("{}: {}", context.facts()?.name, plan.report()?.reason);

    let values = [numbers(1, query.bytes()), numbers(2, key.bytes()), numbers(3, key.bytes())];
    let buffers: Vec<HostBuffer> = values.iter().map(|each| app.buffer_of(each)).collect::<Result<_, vk::Result>>()?;
    let output = app.buffer(query.bytes())?;
    let workspace = app.buffer(needed.workspace_bytes.max(16))?;
    let roles = [Role::QUERY, Role::KEY, Role::VALUE];
    let mut bindings: Vec<Binding> = roles.iter().zip(&buffers).map(|(role, buffer)| buffer.bind(*role)).collect();
    bindings.push(output.bind(Role::OUTPUT));
    if needed.workspace_bytes != 0 {
        bindings.push(workspace.bind(Role::WORKSPACE));
    }

    let pool = app.descriptor_pool(needed.descriptor_sets, &needed.pool_sizes())?;
    let recorded = app.run(|commands| {
        // Recording, of this device; all that is bound lives until `run` has waited.
        unsafe { plan.record(commands, &bindings, pool) }
    })?;
    unsafe { app.device.destroy_descriptor_pool(pool, None) };
    recorded?;

    let answer = output.read(values[0].len());
    let error = largest_error(&answer, &problem.attention(&values[0], &values[1], &values[2]));
    println!("largest error beside a reference in f64: {error:.1e}");
    if error < 1e-5 {
        Ok(())
    } else {
        Err(format!("the largest error is {error:e}, expected below 1e-5").into())
    }
}
