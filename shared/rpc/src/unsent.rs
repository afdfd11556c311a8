//! What a stream has given to a connection whose client does not read.

use bytes::Bytes;
use h2::{Error, Reason};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use tonic::Status;

/// A connection takes a message in slices of this size, and asks for the next once it has sent one.
const SLICE: usize = 64 * 1024;

/// The rest of the message that a stream sends, which its connection has not taken yet. Set it as an
/// extension of the stream's response.
///
/// HTTP/2 keeps what a connection has taken until the client reads it, and nothing takes it back. Without
/// slices, each stream that nobody reads would keep a whole message.
#[derive(Clone, Default)]
pub struct Unsent(Arc<Mutex<Rest>>);

#[derive(Default)]
struct Rest {
    bytes: Bytes,
    taken: Option<Instant>,
    is_discarded: bool,
}

impl Unsent {
    /// Bytes that [`Unsent::discard`] would drop.
    pub fn bytes(&self) -> usize {
        self.lock().bytes.len()
    }

    /// When the connection took a slice last; none before the first.
    pub fn taken(&self) -> Option<Instant> {
        self.lock().taken
    }

    /// Drops the rest, and returns its bytes. If there were any, the stream is reset when its client reads
    /// on: gRPC clients get RESOURCE_EXHAUSTED.
    pub fn discard(&self) -> usize {
        let mut rest = self.lock();
        let bytes = std::mem::take(&mut rest.bytes).len();
        rest.is_discarded |= bytes > 0;
        bytes
    }

    /// Keeps what goes beyond a slice, and returns the slice. It has its own memory, so that the rest can
    /// be freed.
    pub(crate) fn keep(&self, mut data: Bytes) -> Bytes {
        let mut rest = self.lock();
        rest.taken = Some(Instant::now());
        if data.len() <= SLICE {
            return data;
        }
        let slice = Bytes::copy_from_slice(&data.split_to(SLICE));
        rest.bytes = data;
        slice
    }

    /// The next slice of the message; none once the connection has all of it.
    pub(crate) fn next(&self) -> Option<Result<Bytes, Status>> {
        let rest = {
            let mut rest = self.lock();
            if rest.is_discarded {
                let reset = Error::from(Reason::ENHANCE_YOUR_CALM);
                return Some(Err(Status::from_error(Box::new(reset))));
            }
            std::mem::take(&mut rest.bytes)
        };
        (!rest.is_empty()).then(|| Ok(self.keep(rest)))
    }

    fn lock(&self) -> MutexGuard<'_, Rest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Unsent");
        debug.field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn a_message_is_taken_in_slices() {
        let unsent = Unsent::default();
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(3 * SLICE + 5).collect();
        let mut taken = unsent.keep(data.clone().into()).to_vec();
        assert_eq!((taken.len(), unsent.bytes()), (SLICE, 2 * SLICE + 5));
        while let Some(slice) = unsent.next() {
            taken.extend_from_slice(&slice.expect("a slice"));
        }
        assert!(taken == data, "other bytes");
        assert_eq!(unsent.discard(), 0);
        assert!(unsent.next().is_none(), "the stream goes on");
    }

    #[test]
    fn a_stream_whose_rest_is_dropped_is_reset() {
        let unsent = Unsent::default();
        let _first = unsent.keep(vec![0; 2 * SLICE].into());
        assert_eq!(unsent.discard(), SLICE);
        let status = unsent.next().expect("an end").expect_err("an error");
        assert_eq!(status.code(), Code::ResourceExhausted);
    }
}
