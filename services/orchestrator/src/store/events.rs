//! Events as they are stored: in the journal, or apart from it.

use super::{DAMAGED, Store, for_session, newer_event, unreadable};
use crate::key::SessionKey;
use crate::readers::{Part, Share};
use bytes::Bytes;
use cairn_engine::event::Event;
use cairn_proto::convert::{Decoded, Named, decode_event, encode_own_event, encode_stored_apart};
use cairn_proto::event::{Event as Stored, event::Kind};
use cairn_proto::memory as pb;
use cairn_rpc::RpcError;
use prost::Message as _;

/// Larger events are kept as blobs, so that the journal stays cheap to read.
pub(crate) const LARGEST_INLINE_EVENT: usize = 64 * 1024;

/// What a message of a stream has beside an event, at most.
const AROUND_EVENT: usize = 1024;

/// Events as the journal takes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encoded {
    pub(crate) events: Vec<Bytes>,
    /// Bytes of the events, including those that are stored apart.
    pub(crate) bytes: usize,
    /// Those that are to be stored apart.
    pub(crate) large: Vec<Large>,
}

/// An event that is too large for the journal, and is to be stored apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Large {
    /// Its place among the events.
    pub(crate) position: usize,
    at: u64,
    needs: u32,
}

/// An event that is left to a newer process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newer {
    /// The level that it asks for. Not above the level of this process if it has something unknown that is not
    /// marked.
    pub(crate) needs: u32,
}

impl Store {
    /// Encodes events. Without a copy: what they say is in the state already.
    pub(crate) fn encode_all(&self, events: Vec<Event>) -> Encoded {
        let mut encoded = Encoded::default();
        for (event, position) in events.into_iter().zip(0..) {
            let (at, needs) = (event.at, self.needs(&event));
            let bytes = encode_own_event(event, self.least_needs);
            if bytes.len() > LARGEST_INLINE_EVENT {
                encoded.large.push(Large {
                    position,
                    at,
                    needs,
                });
            }
            encoded.bytes += bytes.len();
            encoded.events.push(bytes.into());
        }
        encoded
    }

    /// Encodes events for the journal. What is too large for it is stored apart first; a blob that
    /// no event comes to name dies with its session.
    pub(crate) async fn encode(
        &self,
        key: &SessionKey,
        events: Vec<Event>,
    ) -> Result<Encoded, RpcError> {
        let mut encoded = self.encode_all(events);
        for large in std::mem::take(&mut encoded.large) {
            let bytes = encoded.events[large.position].clone();
            encoded.events[large.position] = self.store_apart(key, &large, bytes).await?;
        }
        Ok(encoded)
    }

    /// Stores an encoded event apart, and returns what stands for it in the journal.
    pub(crate) async fn store_apart(
        &self,
        key: &SessionKey,
        large: &Large,
        data: Bytes,
    ) -> Result<Bytes, RpcError> {
        let size = data.len() as u64;
        let blobs = Named::by(&data).blobs;
        let digest = self.put_blob(key, data, false).await?;
        Ok(encode_stored_apart(large.at, large.needs, blobs, digest, size).into())
    }

    /// Stores a blob of a session, and returns its digest. May be repeated. A part of a result leaves room in
    /// the quota for events that are stored apart.
    pub(crate) async fn put_blob(
        &self,
        key: &SessionKey,
        data: Bytes,
        part: bool,
    ) -> Result<String, RpcError> {
        let request = pb::PutBlobRequest {
            session: key.id.to_string(),
            data,
            part,
        };
        let put = self.journal().put_blob(for_session(key, request)).await;
        Ok(put?.into_inner().digest)
    }

    /// Reads a blob of a session.
    pub(crate) async fn get_blob(
        &self,
        key: &SessionKey,
        digest: String,
    ) -> Result<Bytes, RpcError> {
        let request = pb::GetBlobRequest {
            session: key.id.to_string(),
            digest,
        };
        let found = self.journal().get_blob(for_session(key, request)).await;
        Ok(found?.into_inner().data)
    }

    /// The level that an event is marked with when it is written here.
    pub(crate) fn needs(&self, event: &Event) -> u32 {
        event.kind.needs().max(self.least_needs)
    }

    /// Decodes a stored event, fetching it if it was stored apart; with its bytes, also in that case.
    pub(crate) async fn read_event(
        &self,
        key: &SessionKey,
        stored: &pb::StoredEvent,
    ) -> Result<Result<(Event, usize), Newer>, RpcError> {
        let seq = stored.seq;
        let decode = |bytes: &[u8]| {
            decode_event(bytes, self.level).map_err(|error| unreadable(key, seq, error))
        };
        match decode(&stored.event)? {
            Decoded::Event(event) => Ok(Ok((event, stored.event.len()))),
            Decoded::Newer { needs } => Ok(Err(Newer { needs })),
            Decoded::StoredApart { digest, .. } => {
                let data = self.blob(key, seq, digest).await?;
                match decode(&data)? {
                    Decoded::Event(event) => Ok(Ok((event, data.len()))),
                    Decoded::Newer { needs } => Ok(Err(Newer { needs })),
                    Decoded::StoredApart { .. } => {
                        Err(unreadable(key, seq, "it is stored apart twice"))
                    }
                }
            }
        }
    }

    /// The event if it answers that command. Only this reader may skip an event of a newer version: a
    /// wait for an answer needs no other event, and folds nothing.
    ///
    /// # Errors
    /// The answer cannot be read; NEWER_VERSION if a newer version wrote it.
    pub(crate) async fn answer_to(
        &self,
        key: &SessionKey,
        stored: &pb::StoredEvent,
        command_seq: u64,
    ) -> Result<Option<Event>, RpcError> {
        let decode = |bytes: &Bytes| {
            Stored::decode(bytes.clone()).map_err(|error| unreadable(key, stored.seq, error))
        };
        let mut event = decode(&stored.event)?;
        if let Some(Kind::StoredApart(apart)) = event.kind {
            event = decode(&self.blob(key, stored.seq, apart.digest).await?)?;
        }
        if event.answers != command_seq {
            return Ok(None);
        }
        self.event(key, stored).await.map(Some)
    }

    /// The event as clients see it: whole, however it is stored. One that is stored apart is read once the
    /// stream has room for a message with it.
    pub(crate) async fn public_event(
        &self,
        key: &SessionKey,
        stored: pb::StoredEvent,
        share: &Share,
    ) -> Result<Stored, RpcError> {
        let seq = stored.seq;
        let decode = |bytes: Bytes| {
            let event = Stored::decode(bytes).map_err(|error| unreadable(key, seq, error))?;
            let newer = Newer { needs: event.needs };
            match newer.needs > self.level || event.kind.is_none() {
                true => Err(newer_event(key, seq, newer, self.level)),
                false => Ok(event),
            }
        };
        let event = decode(stored.event)?;
        match event.kind {
            Some(Kind::StoredApart(apart)) => {
                let bytes = u32::try_from(apart.size).unwrap_or(u32::MAX) as usize;
                share.fit(Part::Message, bytes + AROUND_EVENT).await?;
                decode(self.blob(key, seq, apart.digest).await?)
            }
            _ => Ok(event),
        }
    }

    /// The encoded event that is stored apart for `seq`.
    async fn blob(&self, key: &SessionKey, seq: u64, digest: String) -> Result<Bytes, RpcError> {
        match self.get_blob(key, digest).await {
            Ok(data) => Ok(data),
            Err(error)
                if error.metadata("resource") == Some("blob") || error.reason_name() == DAMAGED =>
            {
                Err(unreadable(key, seq, error))
            }
            Err(error) => Err(error),
        }
    }

    /// Decodes a stored event for a reader, who cannot leave it out.
    pub(crate) async fn event(
        &self,
        key: &SessionKey,
        stored: &pb::StoredEvent,
    ) -> Result<Event, RpcError> {
        let (event, _) = self.sized_event(key, stored).await?;
        Ok(event)
    }

    /// The same, with the bytes of the event, also if these are stored apart.
    pub(crate) async fn sized_event(
        &self,
        key: &SessionKey,
        stored: &pb::StoredEvent,
    ) -> Result<(Event, usize), RpcError> {
        let event = self.read_event(key, stored).await?;
        event.map_err(|newer| newer_event(key, stored.seq, newer, self.level))
    }
}
