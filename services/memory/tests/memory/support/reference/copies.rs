//! Blobs, and sessions that begin as copies of others.

use super::{Reference, Session};
use crate::support::ops::digest_of;
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_proto::convert::Named;

impl Session {
    /// Appends the events of a transition.
    pub(super) fn extend(&mut self, events: &[Bytes]) {
        self.events.extend(events.iter().cloned());
        let places = 1..=events.len();
        self.ends.extend(places.map(|place| place == events.len()));
    }
}

impl Reference {
    pub(crate) fn put_blob(&mut self, key: &SessionKey, data: &Bytes) -> StoreResult<String> {
        let digest = digest_of(data);
        let session = self.living(key)?;
        session.blobs.insert(digest.clone(), data.clone());
        Ok(digest)
    }

    /// Makes the child, with one event of its own and the memory that the source has now. Answers where it was
    /// cut.
    pub(crate) fn fork(
        &mut self,
        source: &SessionKey,
        copy: &CopyEvents,
        event: &Bytes,
    ) -> StoreResult<u64> {
        let name = copy.child.session();
        if let Some(child) = self.sessions.get(name) {
            return Err(match child.end {
                Some(end) => StoreError::Terminal(end),
                None => StoreError::RequestMismatch,
            });
        }
        let now = self.now;
        let from = self.living(source)?;
        let at = usize::try_from(copy.at_seq.unwrap()).unwrap();
        let last = from.ends[..at].iter().rposition(|ends| *ends).unwrap();
        let copied = &from.events[..=last];
        let named = copied.iter().flat_map(|event| Named::by(event).blobs);
        let blobs = named.filter_map(|blob| from.blobs.get_key_value(&blob.digest));
        let cut = copied.len() as u64;
        let mut child = Session {
            events: copied.iter().chain([event]).cloned().collect(),
            ends: from.ends[..=last].iter().copied().chain([true]).collect(),
            blobs: blobs.map(|(k, v)| (k.clone(), v.clone())).collect(),
            memory: from.memory.clone(),
            header: Header {
                needs: from.header.needs,
                ..Header::default()
            },
            floor: cut + 1,
            created_at: now,
            updated_at: now,
            time_to_live: from.time_to_live,
            ..Session::default()
        };
        let RequestId { id, digest } = copy.request.clone();
        child.requests.insert(id, (digest, cut));
        self.created += 1;
        child.rank = self.created;
        self.sessions.insert(name.to_owned(), child);
        Ok(cut)
    }
}
