//! Arrays as safetensors, bit by bit.

use crate::error::{Error, Result};
use crate::model::Statistic;
use crate::model::{NamedBytes, NamedTensor};
use safetensors::tensor::Dtype;
use safetensors::{SafeTensors, serialize};
use warp_core::DType;

pub(crate) fn dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::U8 => Dtype::U8,
    }
}

/// Words as bytes; into zeros, since a vector that grows byte by byte takes several times as long.
pub(crate) fn words(values: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let mut bytes = vec![0; 4 * values.len()];
    let (words, _) = bytes.as_chunks_mut::<4>();
    words.iter_mut().zip(values).for_each(|(word, value)| *word = value.to_le_bytes());
    bytes
}

/// A tensor's bytes, little-endian.
#[derive(Debug, Clone)]
pub(crate) struct OwnedTensor {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl OwnedTensor {
    /// Its numbers as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A tensor of the rows of `parts`, one after the other, each as large as this one.
    pub(crate) fn of_parts(&self, parts: &[Vec<u8>]) -> Self {
        let mut shape = self.shape.clone();
        shape[0] *= parts.len();
        Self { dtype: self.dtype, shape, bytes: parts.concat() }
    }
}

impl safetensors::View for &OwnedTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes).into()
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Tensors of f32 and statistics of f64 in one file.
pub(crate) fn encode(tensors: &[NamedTensor], statistics: &[Statistic]) -> Result<Vec<u8>> {
    let f32s = tensors.iter().map(|t| {
        let bytes = words(t.data.iter().map(|x| x.to_bits()));
        (t.name.as_str(), OwnedTensor { dtype: Dtype::F32, shape: t.shape.clone(), bytes })
    });
    let f64s = statistics.iter().map(|s| {
        let bytes = s.data.iter().flat_map(|x| x.to_le_bytes()).collect();
        (s.name.as_str(), OwnedTensor { dtype: Dtype::F64, shape: s.shape.clone(), bytes })
    });
    let all: Vec<_> = f32s.chain(f64s).collect();
    let views = all.iter().map(|(name, tensor)| (*name, tensor));
    serialize(views, None).map_err(|e| Error::Invalid(e.to_string()))
}

/// The tensors and statistics in a checkpoint's file.
///
/// # Errors
/// What is damaged, as one sentence.
pub fn decode(bytes: &[u8]) -> std::result::Result<(Vec<NamedTensor>, Vec<Statistic>), String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let (mut f32s, mut f64s) = (Vec::new(), Vec::new());
    for (name, view) in tensors.tensors() {
        let (shape, bytes) = (view.shape().to_vec(), view.data());
        match view.dtype() {
            Dtype::F32 => {
                let (numbers, _) = bytes.as_chunks::<4>();
                let data = numbers.iter().map(|b| f32::from_le_bytes(*b)).collect();
                f32s.push(NamedTensor { name, shape, data });
            }
            Dtype::F64 => {
                let (numbers, _) = bytes.as_chunks::<8>();
                let data = numbers.iter().map(|b| f64::from_le_bytes(*b)).collect();
                f64s.push(Statistic { name, shape, data });
            }
            other => return Err(format!("tensor \"{name}\" is {other:?}, not F32 or F64")),
        }
    }
    Ok((f32s, f64s))
}

/// Numbers and flags of memories in one file.
pub(crate) fn encode_memory(numbers: &[NamedTensor], flags: &[NamedBytes]) -> Result<Vec<u8>> {
    let numbers = numbers.iter().map(|t| {
        let bytes = words(t.data.iter().map(|x| x.to_bits()));
        (t.name.as_str(), OwnedTensor { dtype: Dtype::F32, shape: t.shape.clone(), bytes })
    });
    let flags = flags.iter().map(|t| {
        let bytes = t.data.clone();
        (t.name.as_str(), OwnedTensor { dtype: Dtype::U8, shape: t.shape.clone(), bytes })
    });
    let all: Vec<_> = numbers.chain(flags).collect();
    let views = all.iter().map(|(name, tensor)| (*name, tensor));
    serialize(views, None).map_err(|e| Error::Invalid(e.to_string()))
}

/// The reverse of [`encode_memory`].
///
/// # Errors
/// What is damaged, as one sentence.
pub(crate) fn decode_memory(
    bytes: &[u8],
) -> std::result::Result<(Vec<NamedTensor>, Vec<NamedBytes>), String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let (mut numbers, mut flags) = (Vec::new(), Vec::new());
    for (name, view) in tensors.tensors() {
        let (shape, bytes) = (view.shape().to_vec(), view.data());
        match view.dtype() {
            Dtype::F32 => {
                let (words, _) = bytes.as_chunks::<4>();
                let data = words.iter().map(|b| f32::from_le_bytes(*b)).collect();
                numbers.push(NamedTensor { name, shape, data });
            }
            Dtype::U8 => flags.push(NamedBytes { name, shape, data: bytes.to_vec() }),
            other => return Err(format!("array \"{name}\" is {other:?}, not F32 or U8")),
        }
    }
    Ok((numbers, flags))
}
