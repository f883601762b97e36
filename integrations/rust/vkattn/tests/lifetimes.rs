//! Objects go in any order and on any thread; threads share them.

mod common;
use common::*;
use std::any::Any;
use std::sync::{Arc, Mutex};
use vkattn::{Buffer, Context, Options, Plan, Role, Severity};

fn is_shared<T: Send + Sync>() {}

#[test]
fn all_objects_are_send_and_sync() {
    is_shared::<Context>();
    is_shared::<Plan>();
    is_shared::<Buffer>();
    is_shared::<vkattn::Error>();
}

/// A plan with its four buffers.
struct Work {
    plan: Plan,
    buffers: [Buffer; 4],
}

fn work(context: &Context, seed: u64) -> vkattn::Result<Work> {
    let [query, key, value] = values(&SMALL, seed);
    let output = vec![f32::NAN; query.len()];
    let of = |values: &[f32]| context.buffer_of(values);
    Ok(Work { plan: context.plan(&desc(&SMALL))?, buffers: [of(&query)?, of(&key)?, of(&value)?, of(&output)?] })
}

impl Work {
    fn run(&self) -> vkattn::Result<Vec<f32>> {
        run(&self.plan, &self.buffers)
    }
}

fn run(plan: &Plan, buffers: &[Buffer; 4]) -> vkattn::Result<Vec<f32>> {
    let roles = [Role::QUERY, Role::KEY, Role::VALUE, Role::OUTPUT];
    let bindings: Vec<_> = roles.iter().zip(buffers).map(|(role, buffer)| buffer.bind(*role)).collect();
    plan.run(&bindings)?;
    buffers[3].to_vec()
}

fn expected(seed: u64) -> Vec<f64> {
    let [query, key, value] = values(&SMALL, seed);
    SMALL.attention(&query, &key, &value)
}

#[test]
fn any_order_of_drops() -> vkattn::Result<()> {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let context = context();
        let work = work(&context, 3)?;
        work.run()?;
        let Work { plan, buffers } = work;
        let mut objects: [Option<Box<dyn Any>>; 3] =
            [Some(Box::new(context)), Some(Box::new(plan)), Some(Box::new(buffers))];
        for index in order {
            objects[index] = None;
        }
    }
    Ok(())
}

#[test]
fn what_is_left_still_runs() -> vkattn::Result<()> {
    let context = context();
    let work = work(&context, 8)?;
    drop(context);
    assert!(largest_error(&work.run()?, &expected(8)) < 1e-5);
    let moved = std::thread::spawn(move || work.run().map(|answer| (answer, work)));
    let (answer, work) = moved.join().expect("no panic")?;
    assert!(largest_error(&answer, &expected(8)) < 1e-5);
    std::thread::spawn(move || drop(work)).join().expect("no panic");
    Ok(())
}

#[test]
fn threads_share_a_context_and_a_plan() -> vkattn::Result<()> {
    let context = context();
    let plan = context.plan(&desc(&SMALL))?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|seed| {
                let (context, plan) = (&context, &plan);
                scope.spawn(move || -> vkattn::Result<f64> {
                    let own = work(context, seed)?;
                    let mut most: f64 = 0.0;
                    for _ in 0..10 {
                        most = most.max(largest_error(&run(plan, &own.buffers)?, &expected(seed)));
                        most = most.max(largest_error(&own.run()?, &expected(seed)));
                    }
                    Ok(most)
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().expect("no panic")? < 1e-5);
        }
        Ok(())
    })
}

/// Every answer is of one of the two inputs, whole: the lock of the buffers keeps copies and runs apart.
#[test]
fn threads_share_buffers() -> vkattn::Result<()> {
    let context = context();
    let shared = work(&context, 20)?;
    let [query_a, query_b] = [20, 40].map(|seed| values(&SMALL, seed)[0].clone());
    let [_, key, value] = values(&SMALL, 20);
    let answers = [&query_a, &query_b].map(|query| SMALL.attention(query, &key, &value));
    std::thread::scope(|scope| {
        let threads: Vec<_> = [&query_a, &query_b]
            .map(|query| {
                let (shared, answers) = (&shared, &answers);
                scope.spawn(move || -> vkattn::Result<()> {
                    for _ in 0..25 {
                        shared.buffers[0].write(0, query)?;
                        let answer = shared.run()?;
                        let error =
                            answers.iter().map(|wanted| largest_error(&answer, wanted)).fold(f64::INFINITY, f64::min);
                        assert!(error < 1e-5, "{error:e}");
                    }
                    Ok(())
                })
            })
            .into_iter()
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

#[test]
fn errors_are_those_of_their_thread() -> vkattn::Result<()> {
    let context = context();
    std::thread::scope(|scope| {
        for size in 577..585usize {
            let context = &context;
            scope.spawn(move || {
                for _ in 0..50 {
                    let error = failure(context.plan(&desc(&Problem { head_dim: size, ..SMALL })));
                    assert!(error.message().contains(&size.to_string()), "{error}");
                }
            });
        }
    });
    Ok(())
}

#[test]
fn messages_come_until_the_last_object_is_gone() -> vkattn::Result<()> {
    struct Told(Arc<Mutex<bool>>);
    impl Drop for Told {
        fn drop(&mut self) {
            *self.0.lock().expect("no panic") = true;
        }
    }
    let gone = Arc::new(Mutex::new(false));
    let told = Told(gone.clone());
    let on_message = move |_: Severity, _: &str| {
        let _ = &told;
    };
    let context = Context::new(Options { on_message: Some(Box::new(on_message)), ..Default::default() })?;
    let buffer = context.buffer(4)?;
    drop(context);
    assert!(!*gone.lock().expect("no panic"));
    drop(buffer);
    assert!(*gone.lock().expect("no panic"));
    Ok(())
}

#[test]
fn a_panic_of_a_callback_ends_there() -> vkattn::Result<()> {
    let on_message = |_: Severity, _: &str| panic!("of the application");
    let saved_data = b"vkattn, or so".to_vec(); // has something told
    let context = Context::new(Options { on_message: Some(Box::new(on_message)), saved_data, ..Default::default() })?;
    context.buffer(4)?;

    let submit = |_: ash::vk::Queue, _: &[ash::vk::SubmitInfo<'_>], _: ash::vk::Fence| panic!("of the application");
    let context = Context::new(Options { submit: Some(Box::new(submit)), ..Default::default() })?;
    let failed = work(&context, 1).and_then(|work| work.run());
    assert_eq!(failure(failed).kind(), vkattn::ErrorKind::Vulkan);
    Ok(())
}
