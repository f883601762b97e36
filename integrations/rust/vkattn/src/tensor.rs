//! Tensors and what they are for.

use crate::error::{Error, Result};
use vkattn_sys as sys;

/// What numbers are stored as. A newtype: later versions add numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(sys::vkattn_type);

macro_rules! types {
    ($($name:ident = $number:ident)*) => {
        #[allow(missing_docs)]
        impl Type {
            $(pub const $name: Type = Type(sys::vkattn_type::$number);)*
        }
    };
}
types! {
    F32 = VKATTN_TYPE_F32
    F16 = VKATTN_TYPE_F16
    BF16 = VKATTN_TYPE_BF16
    BOOL = VKATTN_TYPE_BOOL
    I32 = VKATTN_TYPE_I32
    Q8_0 = VKATTN_TYPE_Q8_0
    Q4_0 = VKATTN_TYPE_Q4_0
    Q4_1 = VKATTN_TYPE_Q4_1
    Q5_0 = VKATTN_TYPE_Q5_0
    Q5_1 = VKATTN_TYPE_Q5_1
    IQ4_NL = VKATTN_TYPE_IQ4_NL
    F8_E4M3 = VKATTN_TYPE_F8_E4M3
    F8_E5M2 = VKATTN_TYPE_F8_E5M2
    Q4_K = VKATTN_TYPE_Q4_K
    Q5_K = VKATTN_TYPE_Q5_K
    Q6_K = VKATTN_TYPE_Q6_K
}

impl From<sys::vkattn_type> for Type {
    fn from(number: sys::vkattn_type) -> Self {
        Type(number)
    }
}
impl From<Type> for sys::vkattn_type {
    fn from(stored: Type) -> Self {
        stored.0
    }
}

/// What a bound region is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Role(pub(crate) sys::vkattn_role);

macro_rules! roles {
    ($($name:ident = $number:ident)*) => {
        #[allow(missing_docs)]
        impl Role {
            $(pub const $name: Role = Role(sys::vkattn_role::$number);)*
        }
    };
}
roles! {
    WORKSPACE = VKATTN_ROLE_WORKSPACE
    QUERY = VKATTN_ROLE_QUERY
    KEY = VKATTN_ROLE_KEY
    VALUE = VKATTN_ROLE_VALUE
    OUTPUT = VKATTN_ROLE_OUTPUT
    LOG_SUM_EXP = VKATTN_ROLE_LOG_SUM_EXP
    ATTN_MASK = VKATTN_ROLE_ATTN_MASK
    KEY_PADDING_MASK = VKATTN_ROLE_KEY_PADDING_MASK
    KEY_LENGTHS = VKATTN_ROLE_KEY_LENGTHS
    PAST_LENGTHS = VKATTN_ROLE_PAST_LENGTHS
    ALIBI_SLOPES = VKATTN_ROLE_ALIBI_SLOPES
    SINKS = VKATTN_ROLE_SINKS
    ATTN_WEIGHTS = VKATTN_ROLE_ATTN_WEIGHTS
    QK_MATMUL_OUTPUT = VKATTN_ROLE_QK_MATMUL_OUTPUT
    PAST_KEY = VKATTN_ROLE_PAST_KEY
    PAST_VALUE = VKATTN_ROLE_PAST_VALUE
    PRESENT_KEY = VKATTN_ROLE_PRESENT_KEY
    PRESENT_VALUE = VKATTN_ROLE_PRESENT_VALUE
    CU_SEQLENS_Q = VKATTN_ROLE_CU_SEQLENS_Q
    CU_SEQLENS_K = VKATTN_ROLE_CU_SEQLENS_K
    BLOCK_TABLE = VKATTN_ROLE_BLOCK_TABLE
    PARTIAL_OUTPUT = VKATTN_ROLE_PARTIAL_OUTPUT
    PARTIAL_LOG_SUM_EXP = VKATTN_ROLE_PARTIAL_LOG_SUM_EXP
    INPUT = VKATTN_ROLE_INPUT
    WEIGHT = VKATTN_ROLE_WEIGHT
    BIAS = VKATTN_ROLE_BIAS
    MULTIPLIER = VKATTN_ROLE_MULTIPLIER
    RESIDUAL = VKATTN_ROLE_RESIDUAL
    TOKENS = VKATTN_ROLE_TOKENS
    BLOCK_MASK = VKATTN_ROLE_BLOCK_MASK
    SOURCE = VKATTN_ROLE_SOURCE
    CACHE = VKATTN_ROLE_CACHE
    KEY_INDICES = VKATTN_ROLE_KEY_INDICES
    INDICES = VKATTN_ROLE_INDICES
    CAPTURED_0 = VKATTN_ROLE_CAPTURED_0
    CAPTURED_1 = VKATTN_ROLE_CAPTURED_1
    CAPTURED_2 = VKATTN_ROLE_CAPTURED_2
    CAPTURED_3 = VKATTN_ROLE_CAPTURED_3
    KEY_SCALES = VKATTN_ROLE_KEY_SCALES
    VALUE_SCALES = VKATTN_ROLE_VALUE_SCALES
    NORM_WEIGHT = VKATTN_ROLE_NORM_WEIGHT
    DECAY = VKATTN_ROLE_DECAY
    BETA = VKATTN_ROLE_BETA
    INITIAL_STATE = VKATTN_ROLE_INITIAL_STATE
    FINAL_STATE = VKATTN_ROLE_FINAL_STATE
    STATE_SLOTS = VKATTN_ROLE_STATE_SLOTS
    TOKEN_STATES = VKATTN_ROLE_TOKEN_STATES
    ACCEPTED = VKATTN_ROLE_ACCEPTED
    VALUES = VKATTN_ROLE_VALUES
    TREE_MASK = VKATTN_ROLE_TREE_MASK
    POSITIONS = VKATTN_ROLE_POSITIONS
    D_OUTPUT = VKATTN_ROLE_D_OUTPUT
    D_QUERY = VKATTN_ROLE_D_QUERY
    D_KEY = VKATTN_ROLE_D_KEY
    D_VALUE = VKATTN_ROLE_D_VALUE
    D_ATTN_MASK = VKATTN_ROLE_D_ATTN_MASK
    D_SINKS = VKATTN_ROLE_D_SINKS
    D_CAPTURED_0 = VKATTN_ROLE_D_CAPTURED_0
    D_CAPTURED_1 = VKATTN_ROLE_D_CAPTURED_1
    D_CAPTURED_2 = VKATTN_ROLE_D_CAPTURED_2
    D_CAPTURED_3 = VKATTN_ROLE_D_CAPTURED_3
    D_INPUT = VKATTN_ROLE_D_INPUT
    D_WEIGHT = VKATTN_ROLE_D_WEIGHT
    D_BIAS = VKATTN_ROLE_D_BIAS
    D_GATE = VKATTN_ROLE_D_GATE
    LABELS = VKATTN_ROLE_LABELS
    LOSS = VKATTN_ROLE_LOSS
    MEAN_LOSS = VKATTN_ROLE_MEAN_LOSS
    LOSS_SCALE = VKATTN_ROLE_LOSS_SCALE
    SQUARED_NORM = VKATTN_ROLE_SQUARED_NORM
    GOOD_STEPS = VKATTN_ROLE_GOOD_STEPS
    FACTOR = VKATTN_ROLE_FACTOR
    STEP = VKATTN_ROLE_STEP
    PARAMETER = VKATTN_ROLE_PARAMETER
    GRADIENT = VKATTN_ROLE_GRADIENT
    FIRST_MOMENT = VKATTN_ROLE_FIRST_MOMENT
    SECOND_MOMENT = VKATTN_ROLE_SECOND_MOMENT
    LEARNING_RATE = VKATTN_ROLE_LEARNING_RATE
    COPY = VKATTN_ROLE_COPY
    MAX_ENUM = VKATTN_ROLE_MAX_ENUM
}

impl Role {
    /// Returns its name, as messages call it.
    pub fn name(self) -> String {
        crate::error::text(unsafe { sys::vkattn_role_name(self.0) })
    }
}
/// Any role, also those that have no constant here.
impl From<sys::vkattn_role> for Role {
    fn from(number: sys::vkattn_role) -> Self {
        Role(number)
    }
}
impl From<Role> for sys::vkattn_role {
    fn from(role: Role) -> Self {
        role.0
    }
}

/// The layout of a tensor inside a bound region: sizes and strides outermost first, in elements.
#[derive(Debug, Clone, Copy)]
pub struct Tensor(sys::vkattn_tensor);

impl Tensor {
    /// Describes a contiguous tensor of 1 to 4 dimensions. What else is wrong with it, a plan says.
    pub fn new(stored: Type, shape: &[u64]) -> Result<Self> {
        let mut tensor = sys::vkattn_tensor { type_: stored.0, rank: shape.len() as u32, ..Default::default() };
        if shape.is_empty() || shape.len() > tensor.shape.len() {
            return Err(Error::invalid("shape", format!("shape: {} dimensions, expected 1 to 4", shape.len())));
        }
        tensor.shape[..shape.len()].copy_from_slice(shape);
        Ok(Tensor(tensor))
    }

    /// The same with strides, one a dimension; 0 broadcasts an input.
    pub fn with_strides(mut self, strides: &[u64]) -> Result<Self> {
        if strides.len() != self.0.rank as usize {
            let message = format!("strides: {}, expected one for each of {} dimensions", strides.len(), self.0.rank);
            return Err(Error::invalid("strides", message));
        }
        self.0.strides[..strides.len()].copy_from_slice(strides);
        Ok(self)
    }

    /// The same, so many elements behind the bound offset.
    pub fn with_offset(mut self, elements: u64) -> Self {
        self.0.offset = elements;
        self
    }

    /// Returns the bytes that a bound region must hold for it.
    pub fn bytes(&self) -> u64 {
        unsafe { sys::vkattn_tensor_bytes(&self.0) }
    }

    /// Returns what descriptions hold.
    pub fn raw(&self) -> sys::vkattn_tensor {
        self.0
    }
}

impl From<Tensor> for sys::vkattn_tensor {
    fn from(tensor: Tensor) -> Self {
        tensor.0
    }
}
