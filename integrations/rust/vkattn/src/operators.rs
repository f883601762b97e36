//! The operators, whose descriptions are the C interface's.

use crate::error::{Error, Result};
use vkattn_sys as sys;

mod sealed {
    pub trait Sealed {}
}

type MakePlan<D> = unsafe extern "C" fn(sys::vkattn_context, *const D, *mut sys::vkattn_plan) -> sys::vkattn_result;

/// A description that [`crate::Context::plan`] takes.
pub trait Operator: sealed::Sealed + sys::Sized32 + Copy {
    #[doc(hidden)]
    const PLAN: MakePlan<Self>;
    /// Refuses what only the caller can answer for.
    #[doc(hidden)]
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

macro_rules! operators {
    ($($desc:ident = $c:ident by $plan:ident $(without $part:ident $(. $rest:ident)*: $instead:literal)?;)*) => {
        $(
            #[doc = concat!("[`sys::", stringify!($c), "`]: its comments say shapes and units. `struct_size` is filled in by the plan.")]
            pub type $desc = sys::$c;
            impl sealed::Sealed for sys::$c {}
            impl Operator for sys::$c {
                const PLAN: MakePlan<Self> = sys::$plan;
                $(fn check(&self) -> Result<()> {
                    if self.$part$(.$rest)*.is_null() {
                        return Ok(());
                    }
                    Err(no_pointer(concat!(stringify!($part) $(, ".", stringify!($rest))*), $instead))
                })?
            }
        )*
    };
}
operators! {
    AttentionDesc = vkattn_attention_desc by vkattn_attention_plan
        without variant: "make plans with variants by vkattn::sys";
    KvAppendDesc = vkattn_kv_append_desc by vkattn_kv_append_plan;
    IndexDesc = vkattn_index_desc by vkattn_index_plan;
    MaskIndicesDesc = vkattn_mask_indices_desc by vkattn_mask_indices_plan;
    MergeDesc = vkattn_merge_desc by vkattn_merge_plan;
    LinearDesc = vkattn_linear_desc by vkattn_linear_plan;
    NormDesc = vkattn_norm_desc by vkattn_norm_plan;
    EmbeddingDesc = vkattn_embedding_desc by vkattn_embedding_plan;
    TopKDesc = vkattn_top_k_desc by vkattn_top_k_plan;
    ArgmaxDesc = vkattn_argmax_desc by vkattn_argmax_plan;
    LinearAttentionDesc = vkattn_linear_attention_desc by vkattn_linear_attention_plan;
    CausalConv1dDesc = vkattn_causal_conv1d_desc by vkattn_causal_conv1d_plan;
    GatedRmsNormDesc = vkattn_gated_rms_norm_desc by vkattn_gated_rms_norm_plan;
    AttentionBackwardDesc = vkattn_attention_backward_desc by vkattn_attention_backward_plan
        without attention: "Context::plan_attention_backward takes the problem";
    LinearBackwardDesc = vkattn_linear_backward_desc by vkattn_linear_backward_plan;
    NormBackwardDesc = vkattn_norm_backward_desc by vkattn_norm_backward_plan;
    RotaryEmbeddingDesc = vkattn_rotary_embedding_desc by vkattn_rotary_embedding_plan
        without rope_scaling.factors: "make plans of LongRoPE by vkattn::sys";
    GatedActivationDesc = vkattn_gated_activation_desc by vkattn_gated_activation_plan;
    GatedActivationBackwardDesc = vkattn_gated_activation_backward_desc by vkattn_gated_activation_backward_plan;
    EmbeddingBackwardDesc = vkattn_embedding_backward_desc by vkattn_embedding_backward_plan;
    CrossEntropyDesc = vkattn_cross_entropy_desc by vkattn_cross_entropy_plan;
    SquaredNormDesc = vkattn_squared_norm_desc by vkattn_squared_norm_plan;
    OptimizerStepDesc = vkattn_optimizer_step_desc by vkattn_optimizer_step_plan;
    AdamwDesc = vkattn_adamw_desc by vkattn_adamw_plan;
}

/// Refuses a pointer, which nothing here can vouch for.
fn no_pointer(member: &'static str, instead: &str) -> Error {
    Error::invalid(member, format!("{member}: a pointer, expected null: {instead}"))
}
