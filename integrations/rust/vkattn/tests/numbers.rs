//! What comes out is what a plain reference says.

mod common;
use common::*;
use vkattn::{AttentionDesc, BorrowedDevice, Context, KvAppendDesc, LinearDesc, NormDesc, Role, Tensor, Type};

fn problems() -> Vec<Problem> {
    let base = Problem { batch: 1, query_heads: 1, kv_heads: 1, q_len: 1, kv_len: 1, head_dim: 1, is_causal: false };
    vec![
        base,
        SMALL,
        Problem { batch: 2, query_heads: 6, kv_heads: 3, q_len: 7, kv_len: 131, head_dim: 40, ..base },
        Problem { query_heads: 8, kv_heads: 2, kv_len: 300, head_dim: 128, ..base },
        Problem { batch: 3, query_heads: 4, kv_heads: 4, q_len: 65, kv_len: 65, head_dim: 72, is_causal: true },
        Problem { query_heads: 2, kv_heads: 1, q_len: 17, kv_len: 33, head_dim: 576, is_causal: true, ..base },
    ]
}

#[test]
fn attention_on_a_context_of_its_own() -> vkattn::Result<()> {
    let context = context();
    for (seed, problem) in problems().into_iter().enumerate() {
        let [query, key, value] = values(&problem, 10 * seed as u64);
        let plan = context.plan(&desc(&problem))?;
        let output = context.buffer_of(&vec![f32::NAN; query.len()])?;
        let (q, k, v) = (context.buffer_of(&query)?, context.buffer_of(&key)?, context.buffer_of(&value)?);
        plan.run(&[q.bind(Role::QUERY), k.bind(Role::KEY), v.bind(Role::VALUE), output.bind(Role::OUTPUT)])?;
        let error = largest_error(&output.to_vec()?, &problem.attention(&query, &key, &value));
        assert!(error < 1e-5, "{problem:?}: {error:e}");
    }
    Ok(())
}

#[test]
fn one_buffer_may_hold_it_all() -> vkattn::Result<()> {
    let problem = SMALL;
    let context = context();
    let [query, key, value] = values(&problem, 77);
    let plan = context.plan(&desc(&problem))?;
    let bytes: Vec<u64> =
        [&query, &key, &value, &query].iter().map(|each| (each.len() as u64 * 4).next_multiple_of(256)).collect();
    let starts: Vec<u64> = (0..4).map(|index| bytes[..index].iter().sum()).collect();
    let arena = context.buffer(bytes.iter().sum())?;
    for (start, each) in starts.iter().zip([&query, &key, &value]) {
        arena.write(*start, each)?;
    }
    let roles = [Role::QUERY, Role::KEY, Role::VALUE, Role::OUTPUT];
    let bindings: Vec<_> = roles.iter().zip(&starts).map(|(role, start)| arena.bind_from(*role, *start)).collect();
    plan.run(&bindings)?;
    let mut answer = vec![0.0f32; query.len()];
    arena.read(starts[3], &mut answer)?;
    assert!(largest_error(&answer, &problem.attention(&query, &key, &value)) < 1e-5);
    Ok(())
}

/// Records into the application's command buffer; extensions: whether those that vkattn likes are enabled.
fn recorded(problem: &Problem, extensions: bool, seed: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let app = Application::new(None)?;
    let names = if extensions { app.extension_names() } else { Vec::new() };
    let borrowed = BorrowedDevice { enabled_extensions: &names, ..app.borrowed() };
    let context = unsafe { Context::borrow_device(&borrowed, Default::default())? };
    let plan = context.plan(&desc(problem))?;
    let needed = plan.requirements()?;
    assert_eq!(extensions && context.facts()?.push_descriptors, needed.descriptor_sets == 0);
    let held = values(problem, seed);
    let buffers = held.iter().map(|each| app.buffer_of(each)).collect::<Result<Vec<_>, _>>()?;
    let output = app.buffer(held[0].len() as u64 * 4)?;
    let workspace = app.buffer(needed.workspace_bytes.max(4))?;
    let mut bindings: Vec<_> =
        [Role::QUERY, Role::KEY, Role::VALUE].iter().zip(&buffers).map(|(role, buffer)| buffer.bind(*role)).collect();
    bindings.push(output.bind(Role::OUTPUT));
    if needed.workspace_bytes != 0 {
        bindings.push(workspace.bind(Role::WORKSPACE));
    }
    let pool = app.descriptor_pool(needed.descriptor_sets, &needed.pool_sizes())?;
    app.run(|commands| unsafe { plan.record(commands, &bindings, pool) })??;
    unsafe { app.device.destroy_descriptor_pool(pool, None) };
    Ok(largest_error(&output.read(held[0].len()), &problem.attention(&held[0], &held[1], &held[2])))
}

#[test]
fn attention_recorded_on_a_borrowed_device() -> Result<(), Box<dyn std::error::Error>> {
    for (seed, problem) in problems().into_iter().enumerate() {
        let error = recorded(&problem, seed % 2 == 0, 100 + 10 * seed as u64)?;
        assert!(error < 1e-5, "{problem:?}: {error:e}");
    }
    Ok(())
}

#[test]
fn submitted_without_a_wait() -> vkattn::Result<()> {
    let context = context();
    let [query, key, value] = values(&SMALL, 5);
    let plan = context.plan(&desc(&SMALL))?;
    let (q, k, v) = (context.buffer_of(&query)?, context.buffer_of(&key)?, context.buffer_of(&value)?);
    let output = context.buffer(query.len() as u64 * 4)?;
    // The buffers outlive the wait.
    unsafe {
        plan.submit(
            &[q.bind(Role::QUERY), k.bind(Role::KEY), v.bind(Role::VALUE), output.bind(Role::OUTPUT)],
            &[],
            &[],
        )?
    };
    context.wait(None)?;
    assert!(largest_error(&output.to_vec()?, &SMALL.attention(&query, &key, &value)) < 1e-5);
    Ok(())
}

#[test]
fn other_operators() -> vkattn::Result<()> {
    let context = context();
    let (rows, features, outputs) = (3usize, 70usize, 5usize);
    let (input, weight) = (numbers(1, (rows * features * 4) as u64), numbers(2, (outputs * features * 4) as u64));
    let shape = |sizes: &[usize]| Tensor::new(Type::F32, &sizes.iter().map(|size| *size as u64).collect::<Vec<_>>());
    let (x, w, y) = (shape(&[1, rows, features])?, shape(&[outputs, features])?, shape(&[1, rows, outputs])?);
    let linear =
        context.plan(&LinearDesc { input: x.raw(), weight: w.raw(), output: y.raw(), ..Default::default() })?;
    let (given, held, answer) = (context.buffer_of(&input)?, context.buffer_of(&weight)?, context.buffer(y.bytes())?);
    linear.run(&[given.bind(Role::INPUT), held.bind(Role::WEIGHT), answer.bind(Role::OUTPUT)])?;
    let mut expected = Vec::new();
    for row in input.chunks(features) {
        for column in weight.chunks(features) {
            expected.push(row.iter().zip(column).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>());
        }
    }
    assert!(largest_error(&answer.to_vec()?, &expected) < 1e-5);
    assert_eq!(linear.report()?.kernel, "auto");

    let new = shape(&[1, 1, 2, 4])?;
    let cache = shape(&[1, 1, 6, 4])?;
    let append =
        context.plan(&KvAppendDesc { source: new.raw(), cache: cache.raw(), offset: 3, ..Default::default() })?;
    let source = context.buffer_of(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])?;
    let kept = context.buffer_of(&[9.0f32; 24])?;
    append.run(&[source.bind(Role::SOURCE), kept.bind(Role::CACHE)])?;
    let held: Vec<f32> = kept.to_vec()?;
    assert_eq!(held[..12], [9.0; 12]);
    assert_eq!(held[12..20], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(held[20..], [9.0; 4]);
    assert!(context.plan(&NormDesc::default()).is_err());
    Ok(())
}

#[test]
fn what_was_learned_is_kept() -> vkattn::Result<()> {
    let context = context();
    context.plan(&desc(&SMALL))?;
    let data = context.save()?;
    assert!(data.starts_with(b"vkattn"));
    let again = Context::new(vkattn::Options { saved_data: data, ..Default::default() })?;
    again.plan(&desc(&SMALL))?;
    Ok(())
}

#[test]
fn what_a_plan_says_of_itself() -> vkattn::Result<()> {
    let context = context();
    let plan = context.plan(&AttentionDesc { struct_size: 12345, ..desc(&SMALL) })?; // the plan fills it in
    let named: Vec<&str> = plan.bindings().iter().map(|binding| binding.name.as_str()).collect();
    assert_eq!(named[named.len() - 4..], ["query", "key", "value", "output"]);
    let written: Vec<bool> = plan.bindings().iter().map(|binding| binding.is_written).collect();
    assert_eq!(written[written.len() - 4..], [false, false, false, true]);
    let report = plan.report()?;
    assert!(!report.kernel.is_empty() && !report.reason.is_empty() && report.dispatches > 0);
    assert_eq!(Role::KEY_PADDING_MASK.name(), "key_padding_mask");
    assert!(vkattn::version().starts_with("0."));
    assert!(vkattn::devices()?.iter().any(|device| device.name == context.facts().unwrap().name));
    Ok(())
}
