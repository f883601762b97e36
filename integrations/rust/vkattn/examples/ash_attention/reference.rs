//! Attention in f64, and numbers to try it with.

/// Sizes of a problem; query heads share KV heads in groups.
#[derive(Debug, Clone, Copy)]
pub struct Problem {
    pub batch: usize,
    pub query_heads: usize,
    pub kv_heads: usize,
    pub q_len: usize,
    pub kv_len: usize,
    pub head_dim: usize,
    /// Key j is visible to query i where j <= i.
    pub is_causal: bool,
}

impl Problem {
    pub fn query_shape(&self) -> [u64; 4] {
        [self.batch, self.query_heads, self.q_len, self.head_dim].map(|size| size as u64)
    }
    pub fn key_shape(&self) -> [u64; 4] {
        [self.batch, self.kv_heads, self.kv_len, self.head_dim].map(|size| size as u64)
    }

    /// softmax(Q K^T / sqrt(D)) V, of contiguous tensors.
    pub fn attention(&self, query: &[f32], key: &[f32], value: &[f32]) -> Vec<f64> {
        let mut output = Vec::with_capacity(query.len());
        for row in 0..self.batch * self.query_heads * self.q_len {
            let (head, i) = (row / self.q_len % self.query_heads, row % self.q_len);
            let kv_head =
                row / self.q_len / self.query_heads * self.kv_heads + head / (self.query_heads / self.kv_heads);
            let row_of = |tensor: &[f32], index: usize| -> Vec<f64> {
                tensor[index * self.head_dim..][..self.head_dim].iter().map(|number| f64::from(*number)).collect()
            };
            let q = row_of(query, row);
            let visible = if self.is_causal { self.kv_len.min(i + 1) } else { self.kv_len };
            let scores: Vec<f64> = (0..visible)
                .map(|j| dot(&q, &row_of(key, kv_head * self.kv_len + j)) / (self.head_dim as f64).sqrt())
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mut answer = vec![0.0; self.head_dim];
            for (j, weight) in weights.iter().enumerate() {
                for (total, number) in answer.iter_mut().zip(row_of(value, kv_head * self.kv_len + j)) {
                    *total += weight / sum * number;
                }
            }
            output.extend(answer);
        }
        output
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// So many bytes of f32 from -1 to 1, by xorshift.
pub fn numbers(seed: u64, bytes: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(bytes as usize / 4).collect()
}

/// NaN where an answer is NaN.
pub fn largest_error(answer: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(answer.len(), expected.len());
    answer.iter().zip(expected).map(|(got, wanted)| (f64::from(*got) - wanted).abs()).fold(0.0, |most, error| {
        if error.is_nan() || error > most {
            error
        } else {
            most
        }
    })
}
