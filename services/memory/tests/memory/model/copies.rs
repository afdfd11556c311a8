//! Blobs, and sessions that begin as copies of others.

use super::Run;
use crate::support::ops::{BLOBS, blob, digest_of, key};
use bytes::Bytes;
use cairn_memory::port::*;

impl Run {
    pub(super) async fn put_blob(&mut self, session: u8, number: u8) {
        let (key, data) = (key(session), blob(number));
        let want = self.reference.put_blob(&key, &data);
        let got = self.store().put_blob(&key, data, BlobUse::Part).await;
        assert_eq!(got, want);
        self.compare_blobs().await;
    }

    pub(super) async fn fork(&mut self, source: u8, child: u8, at: u8) {
        if source == child {
            return;
        }
        let (source, child) = (key(source), key(child));
        let number = self.unique();
        let copy = CopyEvents {
            source: Source::Session(source.clone()),
            child,
            request: RequestId {
                id: format!("fork-{number}"),
                digest: Bytes::from("digest"),
            },
            at_seq: Some(1 + u64::from(at) % self.reference.last_seq(&source)),
            completion: None,
        };
        let event = Bytes::from(format!("forked {number}"));
        let memory = self.reference.entries(&source);
        let want = self.reference.fork(&source, &copy, &event);
        assert_eq!(self.copied(copy, event, memory).await, want);
        self.compare_blobs().await;
    }

    /// Makes the copy; answers where it was cut.
    async fn copied(
        &self,
        mut copy: CopyEvents,
        event: Bytes,
        memory: Vec<MemoryEntry>,
    ) -> StoreResult<u64> {
        loop {
            let copied = self.store().copy_events(copy.clone()).await?;
            if copied.copied_through == copied.cut_seq {
                break;
            }
        }
        copy.completion = Some(Completion {
            events: vec![event],
            memory,
            header: Header::default(),
            due_unix_ms: None,
        });
        let copied = self.store().copy_events(copy).await?;
        assert!(copied.is_complete);
        Ok(copied.cut_seq)
    }

    /// Every session has the blobs that the reference has, and no others.
    pub(super) async fn compare_blobs(&self) {
        for (id, session) in &self.reference.sessions {
            let key = SessionKey::new("space", id.as_str());
            for number in 0..BLOBS {
                let digest = digest_of(&blob(number));
                let want = match (session.end, session.blobs.get(&digest)) {
                    (Some(end), _) => Err(StoreError::Terminal(end)),
                    (None, None) => Err(StoreError::NotFound),
                    (None, Some(data)) => Ok(data.clone()),
                };
                assert_eq!(self.store().get_blob(&key, &digest).await, want);
            }
        }
    }
}
