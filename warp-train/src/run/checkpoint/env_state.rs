//! The arrays of environments that a checkpoint holds: on the host, or on their way from a GPU.

use super::encoding::{OwnedTensor, dtype, words};
use crate::error::Result;
use std::borrow::Cow;
use warp_core::DType;
use warp_data::ArrayId;
use warp_func::VecEnv;

/// Arrays by name.
type Named = (String, OwnedTensor);

/// The arrays from which everything else about the environments follows, as they were when it was made.
#[derive(Debug, Clone)]
pub(crate) enum EnvState {
    /// On the host.
    Here(Vec<Named>),
    /// On their way from a GPU, which goes on meanwhile.
    #[cfg(feature = "cuda")]
    Coming(std::sync::Arc<warp_data::cuda::HostCopy>),
}

impl EnvState {
    /// As the host knows them.
    pub(crate) fn of(envs: &dyn VecEnv) -> Self {
        Self::Here(envs.ids().persistent().map(|id| on_host(envs, id)).collect())
    }

    /// As they are on a GPU, copied to `buffers`; nothing if they are elsewhere, or can't be copied there.
    #[cfg(feature = "cuda")]
    pub(crate) fn coming(
        envs: &mut dyn VecEnv,
        buffers: &warp_data::cuda::PinnedBuffers,
    ) -> Result<Option<Self>> {
        let ids: Vec<_> = envs.ids().persistent().collect();
        let Some(envs) = envs.as_device() else { return Ok(None) };
        let arrays = ids.into_iter().map(|id| envs.arrays().array(id));
        let copy = buffers.copy(envs.kernels().device(), arrays)?;
        Ok(copy.map(|copy| Self::Coming(copy.into())))
    }

    /// All of them, as soon as they are on the host.
    ///
    /// # Errors
    /// Whatever went wrong on a device.
    pub(crate) fn arrays(&self) -> Result<Cow<'_, [Named]>> {
        match self {
            Self::Here(arrays) => Ok(Cow::Borrowed(arrays)),
            #[cfg(feature = "cuda")]
            Self::Coming(copy) => {
                let named = |(array, bytes): (&warp_data::cuda::DeviceArray, &[u8])| {
                    let (dtype, shape) = (dtype(array.dtype()), array.shape().to_vec());
                    (array.name().to_string(), OwnedTensor { dtype, shape, bytes: bytes.to_vec() })
                };
                Ok(copy.wait()?.into_iter().map(named).collect())
            }
        }
    }
}

fn on_host(envs: &dyn VecEnv, id: ArrayId) -> Named {
    let (store, array) = (envs.store(), envs.store().array(id));
    let bytes = match array.dtype() {
        DType::F32 => words(store.slice::<f32>(id).iter().map(|x| x.to_bits())),
        DType::I32 => words(store.slice::<i32>(id).iter().map(|x| *x as u32)),
        DType::U32 => words(store.slice::<u32>(id).iter().copied()),
        DType::U8 => store.slice::<u8>(id).to_vec(),
    };
    let (dtype, shape) = (dtype(array.dtype()), array.shape().to_vec());
    (array.name().to_string(), OwnedTensor { dtype, shape, bytes })
}
