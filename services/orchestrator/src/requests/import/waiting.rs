//! Blobs of an import whose event has not come yet.

use bytes::Bytes;
use cairn_engine::key::hex;
use cairn_proto::event::Blob;
use cairn_rpc::RpcError;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;

/// Blobs that may wait, those of the newest message included.
const MOST: usize = 1024;

/// The blobs in their order. The store has them by then, so digests are enough.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    digests: VecDeque<String>,
    /// How many came in earlier messages: all of them are the next event's.
    earlier: usize,
}

impl Waiting {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.digests.len()
    }

    /// Takes in the blobs of a message.
    ///
    /// # Errors
    /// Too many wait.
    pub(super) fn add(&mut self, blobs: &[Bytes]) -> Result<(), RpcError> {
        self.earlier = self.len();
        let count = self.earlier + blobs.len();
        if count > MOST {
            let error = RpcError::invalid("blobs", format!("wait for their event: {count}"));
            return Err(error.allowed(format!("at most {MOST}")));
        }
        let digests = blobs.iter().map(|blob| hex(&Sha256::digest(blob)));
        self.digests.extend(digests);
        Ok(())
    }

    /// Takes out the blobs that the next event lists.
    ///
    /// # Errors
    /// Other blobs wait, or too few.
    pub(super) fn take(&mut self, seq: u64, listed: &[Blob]) -> Result<(), RpcError> {
        const ALLOWED: &str = "the blobs that each event lists, in their order, before the event";
        for Blob { digest, .. } in listed {
            if self.digests.pop_front().as_ref() != Some(digest) {
                let problem = format!("lack {digest} where event {seq} lists it");
                return Err(RpcError::invalid("blobs", problem).allowed(ALLOWED));
            }
        }
        if listed.len() < std::mem::take(&mut self.earlier) {
            let problem = format!("have more before event {seq} than it lists");
            return Err(RpcError::invalid("blobs", problem).allowed(ALLOWED));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static BLOBS: [&[u8]; 3] = [b"one", b"two", b"three"];

    fn listed(blobs: &[&[u8]]) -> Vec<Blob> {
        let blob = |data: &&[u8]| Blob {
            digest: hex(&Sha256::digest(data)),
            size: 3,
        };
        blobs.iter().map(blob).collect()
    }

    fn waiting(messages: &[&[&'static [u8]]]) -> Waiting {
        let mut waiting = Waiting::default();
        for message in messages {
            let blobs: Vec<_> = message.iter().map(|&it| Bytes::from_static(it)).collect();
            waiting.add(&blobs).unwrap();
        }
        waiting
    }

    #[test]
    fn events_take_their_blobs_in_order() {
        let mut waiting = waiting(&[&BLOBS[..1], &BLOBS[1..]]);
        waiting.take(7, &listed(&BLOBS[..2])).unwrap();
        waiting.take(8, &[]).unwrap();
        waiting.take(9, &listed(&BLOBS[2..])).unwrap();
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn another_blob_is_refused_and_the_event_is_named() {
        for sent in [&BLOBS[..1], &BLOBS[1..], &[]] {
            let refused = waiting(&[sent]).take(7, &listed(&BLOBS[..2]));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("where event 7 lists it"), "{refused}");
        }
        let refused = waiting(&[&BLOBS[..1], &[]]).take(7, &[]);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("more before event 7"), "{refused}");
    }

    #[test]
    fn no_more_wait_than_are_allowed() {
        let mut waiting = Waiting::default();
        waiting.add(&vec![Bytes::new(); MOST]).unwrap();
        let refused = waiting.add(&[Bytes::new()]).unwrap_err();
        assert_eq!(refused.violations()[0].field, "blobs");
    }
}
