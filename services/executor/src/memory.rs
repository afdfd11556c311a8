//! The memory that conversations of attempts take together.

use cairn_proto::{LARGE_START, START_BYTES};
use cairn_rpc::{ErrorKind, RpcError};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::metadata::MetadataMap;

const MIB: usize = 1024 * 1024;

/// Bytes of memory for each byte of a start: the conversation, the messages of a request, and its body while
/// it is written.
const COPIES: usize = 4;

/// Memory for attempts, which they get in the order in which they come. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    most: usize,
    /// Each permit is for as many bytes as the smallest start that is counted.
    permits: Arc<Semaphore>,
}

impl Memory {
    /// So many bytes.
    pub(crate) fn new(most: usize) -> Self {
        let permits = Semaphore::new(most.div_ceil(LARGE_START));
        Self {
            most,
            permits: Arc::new(permits),
        }
    }

    /// Waits for the memory of an attempt whose start has so many bytes; none for a small one. It is held
    /// until the permit is dropped.
    ///
    /// # Errors
    /// There will never be so much.
    pub(crate) async fn take(
        &self,
        start_bytes: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, RpcError> {
        if start_bytes < LARGE_START {
            return Ok(None);
        }
        let bytes = start_bytes.saturating_mul(COPIES);
        if bytes > self.most {
            let (needed, most) = (bytes.div_ceil(MIB), self.most / MIB);
            let message = format!(
                "the conversation needs about {needed} MiB of memory, and executor.bytes is {most} MiB: raise \
                 it, or give the context a window"
            );
            return Err(RpcError::new(ErrorKind::OutOfRange, message).reason("NO_MEMORY"));
        }
        let permits = u32::try_from(bytes.div_ceil(LARGE_START)).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.permits).acquire_many_owned(permits).await;
        Ok(Some(taken.map_err(RpcError::internal)?))
    }
}

/// The bytes of a start that the caller names; 0 if it does not.
pub(crate) fn start_bytes(metadata: &MetadataMap) -> usize {
    let named = metadata.get(START_BYTES);
    let named = named.and_then(|named| named.to_str().ok()?.parse().ok());
    named.unwrap_or(0)
}
