//! Gradients and a step of training are what their formulas say in f64.

mod common;
use common::*;
use vkattn::{
    AdamwDesc, AttentionBackwardDesc, AttentionDesc, Context, CrossEntropyDesc, EmbeddingBackwardDesc, ErrorKind,
    GatedActivationBackwardDesc, GatedActivationDesc, LinearBackwardDesc, NormBackwardDesc, OptimizerStepDesc, Role,
    RotaryEmbeddingDesc, SquaredNormDesc, Tensor, Type,
};

fn f32s(shape: &[u64]) -> vkattn::sys::vkattn_tensor {
    Tensor::new(Type::F32, shape).expect("up to four dimensions").raw()
}

fn i32s(shape: &[u64]) -> vkattn::sys::vkattn_tensor {
    Tensor::new(Type::I32, shape).expect("up to four dimensions").raw()
}

/// The slope of the sum of output * d_output by each element of one of Q, K and V, by differences of the reference.
fn slopes(problem: &Problem, held: &[Vec<f32>; 3], d_output: &[f32], which: usize) -> Vec<f64> {
    let mut held = held.clone();
    (0..held[which].len())
        .map(|index| {
            let kept = held[which][index];
            let mut loss_at = |number: f32| -> f64 {
                held[which][index] = number;
                let output = problem.attention(&held[0], &held[1], &held[2]);
                held[which][index] = kept;
                output.iter().zip(d_output).map(|(number, by)| number * f64::from(*by)).sum()
            };
            let (below, above) = (kept - 1e-2, kept + 1e-2);
            (loss_at(above) - loss_at(below)) / (f64::from(above) - f64::from(below))
        })
        .collect()
}

#[test]
fn gradients_of_attention() -> vkattn::Result<()> {
    let context = context();
    for problem in [Problem { head_dim: 8, ..SMALL }, Problem { head_dim: 8, is_causal: true, ..SMALL }] {
        let held = values(&problem, 31);
        let d_output = numbers(34, held[0].len() as u64 * 4);
        let forward = desc(&problem);
        let plan = context.plan_attention_backward(
            &forward_with_statistics(&problem),
            &AttentionBackwardDesc {
                d_output: forward.query,
                d_query: forward.query,
                d_key: forward.key,
                d_value: forward.key,
                ..Default::default()
            },
        )?;
        let [query, key, value] = [&held[0], &held[1], &held[2]].map(|each| context.buffer_of(each).expect("a buffer"));
        let (output, sums) =
            (context.buffer(held[0].len() as u64 * 4)?, context.buffer((held[0].len() / problem.head_dim * 4) as u64)?);
        let inputs = [query.bind(Role::QUERY), key.bind(Role::KEY), value.bind(Role::VALUE)];
        let of_forward = [output.bind(Role::OUTPUT), sums.bind(Role::LOG_SUM_EXP)];
        context.plan(&forward_with_statistics(&problem))?.run(&[&inputs[..], &of_forward].concat())?;
        let gradients = held.each_ref().map(|each| context.buffer_of(&vec![f32::NAN; each.len()]).expect("a buffer"));
        let given = context.buffer_of(&d_output)?;
        let wanted = [
            given.bind(Role::D_OUTPUT),
            gradients[0].bind(Role::D_QUERY),
            gradients[1].bind(Role::D_KEY),
            gradients[2].bind(Role::D_VALUE),
        ];
        plan.run(&[&inputs[..], &of_forward, &wanted].concat())?;
        for (which, gradient) in gradients.iter().enumerate() {
            let error = largest_error(&gradient.to_vec()?, &slopes(&problem, &held, &d_output, which));
            assert!(error < 1e-4, "{problem:?}, gradient {which}: {error:e}");
        }
    }
    Ok(())
}

fn forward_with_statistics(problem: &Problem) -> AttentionDesc {
    let [batch, heads, rows, _] = problem.query_shape();
    AttentionDesc { log_sum_exp: f32s(&[batch, heads, rows]), ..desc(problem) }
}

#[test]
fn pointers_are_refused() {
    let context = context();
    let problem = desc(&SMALL);
    let gradients = AttentionBackwardDesc { attention: &problem, ..Default::default() };
    for error in [failure(context.plan(&gradients)), failure(context.plan_attention_backward(&problem, &gradients))] {
        assert_eq!((error.kind(), error.member()), (ErrorKind::InvalidArgument, "attention"));
        assert!(error.message().contains("a pointer, expected null"), "{error}");
    }
    let absent = failure(context.plan(&AttentionBackwardDesc::default()));
    assert_eq!((absent.kind(), absent.member()), (ErrorKind::InvalidArgument, "attention"), "{absent}");
    let factors = [1.0f32; 4];
    let mut rotation = RotaryEmbeddingDesc::default();
    rotation.rope_scaling.factors = factors.as_ptr();
    assert_eq!(failure(context.plan(&rotation)).member(), "rope_scaling.factors");
}

#[test]
fn a_rotation_and_its_way_back() -> vkattn::Result<()> {
    let context = context();
    let (heads, rows, size, past) = (2usize, 3usize, 8usize, 5u32);
    let shape = f32s(&[1, heads as u64, rows as u64, size as u64]);
    let held = numbers(41, (heads * rows * size * 4) as u64);
    let desc =
        RotaryEmbeddingDesc { input: shape, output: shape, past_len: past, rope_theta: 100.0, ..Default::default() };
    let (given, turned, back) =
        (context.buffer_of(&held)?, context.buffer_of(&held)?, context.buffer(held.len() as u64 * 4)?);
    context.plan(&desc)?.run(&[given.bind(Role::INPUT), turned.bind(Role::OUTPUT)])?;
    let pairs = size / 2;
    let expected: Vec<f64> = (0..held.len())
        .map(|index| {
            let (row, element) = (index / size % rows, index % size);
            let angle = (past as usize + row) as f64 / 100f64.powf((element % pairs) as f64 / pairs as f64);
            let (own, other) = (f64::from(held[index]), f64::from(held[index - element + (element + pairs) % size]));
            own * angle.cos() + if element < pairs { -other } else { other } * angle.sin()
        })
        .collect();
    assert!(largest_error(&turned.to_vec()?, &expected) < 1e-5);
    let inverse = RotaryEmbeddingDesc { inverse: 1, ..desc };
    context.plan(&inverse)?.run(&[turned.bind(Role::INPUT), back.bind(Role::OUTPUT)])?;
    let held: Vec<f64> = held.iter().map(|number| f64::from(*number)).collect();
    assert!(largest_error(&back.to_vec()?, &held) < 1e-5);
    Ok(())
}

/// Runs a plan of which each role has a buffer of these values; returns what the last one holds then.
fn last_of<D: vkattn::Operator>(context: &Context, desc: &D, bound: &[(Role, &[f32])]) -> vkattn::Result<Vec<f32>> {
    let buffers = bound.iter().map(|(_, held)| context.buffer_of(held)).collect::<vkattn::Result<Vec<_>>>()?;
    let bindings: Vec<_> = bound.iter().zip(&buffers).map(|((role, _), buffer)| buffer.bind(*role)).collect();
    context.plan(desc)?.run(&bindings)?;
    buffers[buffers.len() - 1].to_vec()
}

#[test]
fn gradients_around_attention() -> vkattn::Result<()> {
    let context = context();
    let (rows, features, outputs) = (3usize, 4usize, 5usize);
    let (weight, given) = (numbers(51, (outputs * features * 4) as u64), numbers(52, (rows * outputs * 4) as u64));
    let row = |size: usize| f32s(&[1, rows as u64, size as u64]);
    let linear = LinearBackwardDesc {
        weight: f32s(&[outputs as u64, features as u64]),
        d_output: row(outputs),
        d_input: row(features),
        ..Default::default()
    };
    let nothing = vec![f32::NAN; rows * features];
    let bound = [(Role::WEIGHT, &weight[..]), (Role::D_OUTPUT, &given[..]), (Role::D_INPUT, &nothing[..])];
    let expected: Vec<f64> = (0..rows * features)
        .map(|index| {
            let of = |output: usize| weight[output * features + index % features];
            (0..outputs).map(|o| f64::from(given[index / features * outputs + o]) * f64::from(of(o))).sum()
        })
        .collect();
    assert!(largest_error(&last_of(&context, &linear, &bound)?, &expected) < 1e-5);

    // relu, whose slope is 0 or 1; then its gradient
    let (gate, input) = ([-1.0f32, 2.0, 3.0], [4.0f32, 5.0, -6.0]);
    let of_three = f32s(&[1, 1, 3]);
    let activation = vkattn::sys::vkattn_activation::VKATTN_ACTIVATION_RELU;
    let forward =
        GatedActivationDesc { gate: of_three, input: of_three, output: of_three, activation, ..Default::default() };
    let bound = [(Role::MULTIPLIER, &gate[..]), (Role::INPUT, &input[..]), (Role::OUTPUT, &nothing[..3])];
    assert_eq!(last_of(&context, &forward, &bound)?, [0.0, 10.0, -18.0]);
    let backward = GatedActivationBackwardDesc {
        gate: of_three,
        input: of_three,
        d_output: of_three,
        d_gate: of_three,
        activation,
        ..Default::default()
    };
    let d_output = [1.0f32, 2.0, 3.0];
    let bound = [
        (Role::MULTIPLIER, &gate[..]),
        (Role::INPUT, &input[..]),
        (Role::D_OUTPUT, &d_output[..]),
        (Role::D_GATE, &nothing[..3]),
    ];
    assert_eq!(last_of(&context, &backward, &bound)?, [0.0, 10.0, -18.0]);

    // of an RMS norm whose rows are all the same, and whose gradient is along them: none across the row
    let norm = NormBackwardDesc {
        input: of_three,
        weight: f32s(&[3]),
        d_output: of_three,
        d_input: of_three,
        kind: vkattn::sys::vkattn_norm_kind::VKATTN_NORM_RMS,
        ..Default::default()
    };
    let ones = [1.0f32; 3];
    let bound = [
        (Role::INPUT, &ones[..]),
        (Role::WEIGHT, &ones[..]),
        (Role::D_OUTPUT, &d_output[..]),
        (Role::D_INPUT, &nothing[..3]),
    ];
    assert!(largest_error(&last_of(&context, &norm, &bound)?, &[-1.0, 0.0, 1.0]) < 1e-4);

    let tokens = [2i32, 0, 2].map(|token| f32::from_bits(token as u32));
    let embedding = EmbeddingBackwardDesc {
        tokens: i32s(&[1, 3]),
        d_output: f32s(&[1, 3, 1]),
        d_weight: f32s(&[3, 1]),
        ..Default::default()
    };
    let bound = [(Role::TOKENS, &tokens[..]), (Role::D_OUTPUT, &d_output[..]), (Role::D_WEIGHT, &nothing[..3])];
    assert_eq!(last_of(&context, &embedding, &bound)?, [2.0, 0.0, 4.0]);
    Ok(())
}

#[test]
fn a_step_of_training() -> vkattn::Result<()> {
    let context = context();
    let logits = [0.5f32, -1.0, 2.0, 0.25];
    let weights: Vec<f64> = logits.iter().map(|logit| f64::from(*logit).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let gradient: Vec<f64> = weights.iter().enumerate().map(|(n, w)| w / sum - f64::from(u8::from(n == 2))).collect();
    let (of_four, one) = (f32s(&[1, 1, 4]), f32s(&[1]));
    let loss = CrossEntropyDesc {
        input: of_four,
        labels: i32s(&[1, 1]),
        mean_loss: one,
        d_input: of_four,
        ..Default::default()
    };
    let (input, d_input, mean) = (context.buffer_of(&logits)?, context.buffer(16)?, context.buffer(4)?);
    let labels = context.buffer_of(&[2i32])?;
    context.plan(&loss)?.run(&[
        input.bind(Role::INPUT),
        labels.bind(Role::LABELS),
        mean.bind(Role::MEAN_LOSS),
        d_input.bind(Role::D_INPUT),
    ])?;
    assert!(largest_error(&mean.to_vec()?, &[sum.ln() - 2.0]) < 1e-5);
    assert!(largest_error(&d_input.to_vec()?, &gradient) < 1e-5);

    let squared: f64 = gradient.iter().map(|each| each * each).sum();
    let norm = SquaredNormDesc { gradient: f32s(&[4]), squared_norm: one, ..Default::default() };
    let total = context.buffer(4)?;
    context.plan(&norm)?.run(&[d_input.bind(Role::GRADIENT), total.bind(Role::SQUARED_NORM)])?;
    assert!(largest_error(&total.to_vec()?, &[squared]) < 1e-5);

    let decides = OptimizerStepDesc { squared_norm: one, factor: one, step: i32s(&[1]), ..Default::default() };
    let (factor, step) = (context.buffer(4)?, context.buffer_of(&[0i32])?);
    let decision = [total.bind(Role::SQUARED_NORM), factor.bind(Role::FACTOR), step.bind(Role::STEP)];
    context.plan(&decides)?.run(&decision)?;
    assert_eq!((factor.to_vec::<f32>()?[0], step.to_vec::<i32>()?[0]), (1.0, 1));

    let of_four = f32s(&[4]);
    let adamw = AdamwDesc {
        parameter: of_four,
        gradient: of_four,
        first_moment: of_four,
        second_moment: of_four,
        step: i32s(&[1]),
        factor: one,
        learning_rate: one,
        ..Default::default()
    };
    let (first, second, rate) =
        (context.buffer_of(&[0f32; 4])?, context.buffer_of(&[0f32; 4])?, context.buffer_of(&[0.125f32])?);
    context.plan(&adamw)?.run(&[
        input.bind(Role::PARAMETER),
        d_input.bind(Role::GRADIENT),
        first.bind(Role::FIRST_MOMENT),
        second.bind(Role::SECOND_MOMENT),
        step.bind(Role::STEP),
        factor.bind(Role::FACTOR),
        rate.bind(Role::LEARNING_RATE),
    ])?;
    // at the first step the moments are the gradient and its square
    let expected: Vec<f64> = logits
        .iter()
        .zip(&gradient)
        .map(|(w, g)| f64::from(*w) * (1.0 - 0.125 * 0.01) - 0.125 * g / (g.abs() + 1e-8))
        .collect();
    assert!(largest_error(&input.to_vec()?, &expected) < 1e-5);
    Ok(())
}
