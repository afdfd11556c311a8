//! Journals that leave for an archive or come from one.

use super::{BATCH, Names};
use crate::apart::{blob_of, digest_of, lacks_blob, listed};
use crate::port::{
    COPY_BYTES, Copied, CopyEvents, SessionKey, StoreError, StoreResult, Transcript,
    TranscriptEvent, TranscriptPage,
};
use crate::redis::failure::{Effect, odd};
use crate::redis::inner::Inner;
use crate::redis::journal::{NAME, ends, name};
use crate::redis::script::Odd;
use bytes::Bytes;

impl Inner {
    /// See [`Store::transcript`](crate::port::Store::transcript).
    pub(in crate::redis) async fn transcript(
        &self,
        key: &SessionKey,
        after_seq: u64,
    ) -> StoreResult<Transcript> {
        let page = self.source_page(key, after_seq, None, BATCH).await?;
        let mut transcript = Transcript {
            last_seq: page.cut,
            time_to_live_ms: page.time_to_live.parse().ok(),
            events: Vec::with_capacity(page.events.len()),
        };
        let mut bytes = 0;
        for (event, field) in page.events.into_iter().zip(page.fields.chunks(NAME)) {
            if bytes >= COPY_BYTES {
                break;
            }
            let blob = match blob_of(&event) {
                None => None,
                Some(digest) => {
                    let blob = self.blob(key, &digest).await?;
                    Some(blob.ok_or_else(|| lacks_blob(digest))?)
                }
            };
            bytes += event.len() + blob.as_ref().map_or(0, Bytes::len);
            let ends = ends(field);
            transcript
                .events
                .push(TranscriptEvent { event, blob, ends });
        }
        Ok(transcript)
    }

    /// Keeps the blobs of a page of a transcript, and copies its events if they are the next ones.
    pub(super) async fn take_page(
        &self,
        copy: &CopyEvents,
        page: &TranscriptPage,
        names: &Names,
        begun: Option<Copied>,
    ) -> StoreResult<Copied> {
        let last = page.transcript.last_seq;
        let begun = match begun {
            Some(begun) => begun,
            None => {
                let begun = self.copy_begun(copy, names, Some(last)).await?;
                begun.ok_or_else(|| odd(Effect::Writes, Odd))?
            }
        };
        if begun.cut_seq != last {
            return Err(StoreError::RequestMismatch);
        }
        let events = &page.transcript.events;
        let stored_apart = events.iter().flat_map(|event| &event.blob);
        for data in page.blobs.iter().chain(stored_apart) {
            self.put_copied(copy, names, &digest_of(data), data).await?;
        }
        if begun.copied_through != page.after_seq {
            return Ok(begun);
        }
        self.check_listed(page, names).await?;
        let numbered = (page.after_seq + 1..).zip(events);
        let fields = numbered.map(|(seq, event)| name(seq, event.ends, &event.event));
        let fields = fields.collect::<Vec<_>>().concat();
        let events: Vec<_> = events.iter().map(|event| event.event.clone()).collect();
        self.append_copied(copy, names, page.after_seq, &fields, &events)
            .await
    }

    /// Refuses events that list a blob which the copy does not have.
    async fn check_listed(&self, page: &TranscriptPage, names: &Names) -> StoreResult<()> {
        let events = &page.transcript.events;
        let bytes: Vec<_> = events.iter().map(|event| event.event.clone()).collect();
        let copied = self.copied_blobs(names, &bytes).await?;
        for (seq, event) in (page.after_seq + 1..).zip(events) {
            let mut digests = listed(&event.event).into_iter();
            if let Some(digest) = digests.find(|digest| !copied.contains(digest)) {
                return Err(StoreError::BlobMissing { seq, digest });
            }
        }
        Ok(())
    }
}
