//! Long results, whole, for people and programs.
//!
//! A handle is resolved as `read_result` resolves it, so that a client never gets what a hook withheld from the
//! model.

use super::bounded::respond;
use super::{Answer, key_of};
use crate::key::SessionKey;
use crate::readers::{Part, Share};
use crate::requests::Requests;
use crate::store::DAMAGED;
use cairn_engine::event::{Blob, ResultHandle};
use cairn_engine::session::Handles;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError, check_required_text};
use futures::stream::{self, BoxStream, StreamExt as _};
use std::sync::Arc;
use std::vec::IntoIter;
use tonic::{Request, Status};

/// Most bytes of a handle.
const MAX_HANDLE: usize = 64;

/// Handles that an error names.
const MOST_NAMED: usize = 10;

/// What a message has beside its part, at most.
const AROUND_PART: usize = 1024;

pub(super) type Parts = BoxStream<'static, Result<pb::GetResultResponse, Status>>;

/// Finds a result, and streams its parts as the client reads them.
pub(super) async fn parts(
    requests: &Arc<Requests>,
    request: Request<pb::GetResultRequest>,
) -> Answer<Parts> {
    let key = key_of(&request, &request.get_ref().session)?;
    let handle = request.into_inner().handle;
    check_required_text("handle", &handle, MAX_HANDLE)?;
    let session = requests.store().view(&key).await?.session;
    let found = session.handles.get(&handle).cloned();
    let whole = found.ok_or_else(|| no_such_result(&session.handles, &handle))?;
    drop(session);
    let share = requests.readers.share();
    let reading = Reading::new(requests.clone(), key, share.clone(), whole);
    let messages = stream::try_unfold(reading, |mut reading| async move {
        let message = reading.next().await?;
        Ok::<_, Status>(message.map(|message| (message, reading)))
    });
    Ok(respond(share, messages.boxed(), 0, |_| 0))
}

/// A result whose parts are read one after the other. Each waits for room among those of all streams.
struct Reading {
    requests: Arc<Requests>,
    key: SessionKey,
    share: Share,
    /// For the first message.
    whole: Option<wire::ResultHandle>,
    blobs: IntoIter<Blob>,
}

impl Reading {
    fn new(
        requests: Arc<Requests>,
        key: SessionKey,
        share: Share,
        mut whole: ResultHandle,
    ) -> Self {
        let blobs = std::mem::take(&mut whole.blobs).into_iter();
        Self {
            requests,
            key,
            share,
            whole: Some(whole.into()),
            blobs,
        }
    }

    /// The next message; none after the last part. A result of which nothing was kept has one without data.
    async fn next(&mut self) -> Result<Option<pb::GetResultResponse>, RpcError> {
        let whole = self.whole.take();
        let Some(blob) = self.blobs.next() else {
            return Ok(whole.map(|whole| pb::GetResultResponse {
                whole: Some(whole),
                ..pb::GetResultResponse::default()
            }));
        };
        let bytes = blob.size as usize + AROUND_PART;
        self.share.fit(Part::Message, bytes).await?;
        let read = self.requests.store().get_blob(&self.key, blob.digest);
        let data = read.await.map_err(|error| lost(&self.key, error))?;
        Ok(Some(pb::GetResultResponse { whole, data }))
    }
}

/// The error for a part that cannot be read.
fn lost(key: &SessionKey, error: RpcError) -> RpcError {
    if error.metadata("resource") != Some("blob") {
        return error;
    }
    tracing::error!(session = %key, %error, "a long result cannot be read");
    let message = format!(
        "the store has lost a part of a long result of session \"{}\"; restore the store from a copy",
        key.id
    );
    let error = RpcError::new(ErrorKind::DataLoss, message).reason(DAMAGED);
    error.meta("session", &key.id)
}

/// The error for an unknown or withheld handle.
fn no_such_result(handles: &Handles, handle: &str) -> RpcError {
    let newest: Vec<&str> = handles.names().rev().take(MOST_NAMED).collect();
    let problem = match newest.is_empty() {
        true => "is unknown, or a hook withheld its result: the session has none that can be read",
        false => "is unknown, or a hook withheld its result",
    };
    RpcError::not_found("result", handle)
        .reason("NO_SUCH_RESULT")
        .and_invalid("handle", problem)
        .allowed(newest.join(", "))
}
