//! Protobuf with buffers that fit: most messages between services have a few hundred bytes, and the
//! usual 8 KiB in each direction of each call would be made, and touched, for every one of them.
//! Bytes fields are slices of these buffers, so that small ones also keep little alive.

use prost::Message;
use std::marker::PhantomData;
use tonic::codec::BufferSettings;
use tonic_prost::ProstCodec;

/// Room for a usual message; larger ones make it grow.
const ENCODED: usize = 512;
/// None: the first frame says how much is needed.
const DECODED: usize = 0;
/// Encoded bytes of a stream that are handed on at once; the usual figure.
const YIELD: usize = 32 * 1024;

/// What the generated clients and servers encode and decode with.
#[derive(Debug, Clone, Copy)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = tonic_prost::ProstEncoder<T>;
    type Decoder = tonic_prost::ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(ENCODED, YIELD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(DECODED, YIELD))
    }
}
