//! What a stream has given to a connection whose client does not read.

use bytes::Bytes;
use h2::{Error, Reason};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

/// A connection takes a message in slices of this size, and asks for the next once it has sent one.
const SLICE: usize = 64 * 1024;

/// The rest of the message that a stream sends, which its connection has not taken yet. Set it as an
/// extension of the stream's response.
///
/// HTTP/2 keeps what a connection has taken until the client reads it, and nothing takes it back. Without
/// slices, each stream that is not read would keep a whole message.
#[derive(Clone, Default)]
pub struct Unsent(Arc<Mutex<Rest>>);

#[derive(Default)]
struct Rest {
    bytes: Bytes,
    /// The body of the stream, for as long as there are bytes. The encoder in it keeps the memory of the
    /// message, so only both together can be freed.
    body: Option<Body>,
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

    /// Drops the rest with the body of the stream, and returns the bytes of the rest. If there were any, the
    /// stream is reset when its client reads on: gRPC clients get RESOURCE_EXHAUSTED, and a
    /// [`Link`](crate::Link) gives the reason [`READS_TOO_SLOWLY`](crate::RpcError::READS_TOO_SLOWLY).
    pub fn discard(&self) -> usize {
        let (bytes, body) = {
            let mut rest = self.lock();
            rest.is_discarded |= !rest.bytes.is_empty();
            (std::mem::take(&mut rest.bytes), rest.body.take())
        };
        // Without the lock: the handler's stream ends here.
        drop(body);
        bytes.len()
    }

    /// Keeps what goes beyond a slice together with the body, and returns the slice. It has its own memory,
    /// so that the rest can be freed.
    pub(crate) fn keep(&self, mut data: Bytes, body: &mut Option<Body>) -> Bytes {
        let mut rest = self.lock();
        rest.taken = Some(Instant::now());
        if data.len() <= SLICE {
            return data;
        }
        let slice = Bytes::copy_from_slice(&data.split_to(SLICE));
        rest.bytes = data;
        rest.body = body.take();
        slice
    }

    /// The next slice of the message; none once the connection has all of it. Gives the body back with the
    /// last one.
    pub(crate) fn next(&self, body: &mut Option<Body>) -> Option<Result<Bytes, Status>> {
        let bytes = {
            let mut rest = self.lock();
            if rest.is_discarded {
                let reset = Error::from(Reason::ENHANCE_YOUR_CALM);
                return Some(Err(Status::from_error(Box::new(reset))));
            }
            if rest.bytes.is_empty() {
                return None;
            }
            *body = rest.body.take();
            std::mem::take(&mut rest.bytes)
        };
        Some(Ok(self.keep(bytes, body)))
    }

    /// The connection does not have all of the message, so the stream has not ended.
    pub(crate) fn is_within_message(&self) -> bool {
        let rest = self.lock();
        rest.is_discarded || !rest.bytes.is_empty()
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
        let (unsent, mut body) = (Unsent::default(), Some(Body::empty()));
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(3 * SLICE + 5).collect();
        let mut taken = unsent.keep(data.clone().into(), &mut body).to_vec();
        assert_eq!((taken.len(), unsent.bytes()), (SLICE, 2 * SLICE + 5));
        while unsent.is_within_message() {
            assert!(body.is_none(), "the body goes with the rest");
            let slice = unsent.next(&mut body).expect("more");
            taken.extend_from_slice(&slice.expect("a slice"));
        }
        assert!(taken == data, "other bytes");
        assert!(body.is_some(), "the stream continues");
        assert_eq!(unsent.discard(), 0);
        assert!(unsent.next(&mut body).is_none(), "the stream continues");
    }

    #[test]
    fn a_stream_whose_rest_is_dropped_is_reset() {
        let (unsent, mut body) = (Unsent::default(), Some(Body::empty()));
        let _first = unsent.keep(vec![0; 2 * SLICE].into(), &mut body);
        assert_eq!(unsent.discard(), SLICE);
        assert!(
            unsent.is_within_message(),
            "it does not end as a whole one does"
        );
        let status = unsent.next(&mut body).expect("an end");
        let status = status.expect_err("an error");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(body.is_none());
    }
}
