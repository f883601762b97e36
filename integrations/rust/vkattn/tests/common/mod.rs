//! What the tests share; device and reference are the example's.
#![allow(dead_code, unused_imports)]

#[path = "../../examples/ash_attention/device.rs"]
pub mod device;
#[path = "../../examples/ash_attention/reference.rs"]
pub mod reference;

pub use device::Application;
pub use reference::{largest_error, numbers, Problem};
use std::sync::{Arc, Mutex};
use vkattn::{AttentionDesc, Context, Error, Options, Severity, Tensor, Type};

/// A context whose validation layer, where VKATTN_VALIDATION=1 asks for it, fails the test that it has something to say of.
pub fn context() -> Context {
    let validation = std::env::var("VKATTN_VALIDATION").as_deref() == Ok("1");
    let on_message = |severity, message: &str| {
        if severity == Severity::Error {
            eprintln!("{message}");
            std::process::abort(); // a panic would be swallowed
        }
    };
    Context::new(Options { validation, on_message: Some(Box::new(on_message)), ..Default::default() })
        .expect("a context")
}

pub fn desc(problem: &Problem) -> AttentionDesc {
    let query = Tensor::new(Type::F32, &problem.query_shape()).expect("four dimensions");
    let key = Tensor::new(Type::F32, &problem.key_shape()).expect("four dimensions");
    AttentionDesc {
        query: query.raw(),
        key: key.raw(),
        value: key.raw(),
        output: query.raw(),
        mask_flags: u32::from(problem.is_causal) * vkattn::sys::vkattn_mask_flags::VKATTN_MASK_CAUSAL.0,
        ..Default::default()
    }
}

/// Q, K and V.
pub fn values(problem: &Problem, seed: u64) -> [Vec<f32>; 3] {
    let bytes = |shape: [u64; 4]| shape.iter().product::<u64>() * 4;
    let (query, key) = (bytes(problem.query_shape()), bytes(problem.key_shape()));
    [numbers(seed, query), numbers(seed + 1, key), numbers(seed + 2, key)]
}

pub const SMALL: Problem =
    Problem { batch: 1, query_heads: 2, kv_heads: 1, q_len: 5, kv_len: 9, head_dim: 32, is_causal: false };

/// What an error says, for a test that wants one.
pub fn failure<T>(result: Result<T, Error>) -> Error {
    match result {
        Ok(_) => panic!("it went well, expected an error"),
        Err(error) => {
            assert!(!error.message().is_empty() && !error.message().contains('\n'), "{error:?}");
            error
        }
    }
}

/// Messages that a context was told.
pub fn collector() -> (Arc<Mutex<Vec<String>>>, Box<dyn Fn(Severity, &str) + Send + Sync>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = told.clone();
    (told, Box::new(move |_, message| kept.lock().expect("no panic").push(message.into())))
}
