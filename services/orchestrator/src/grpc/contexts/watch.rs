//! The notices of a context.

use super::super::streams::{self, Watched};
use super::check_name;
use super::reads::unknown;
use crate::key::SessionKey;
use crate::requests::Requests;
use crate::store::{newer_version, unreadable};
use cairn_engine::event::EventKind;
use cairn_engine::message::Role;
use cairn_engine::session::{Notice, Session};
use cairn_proto::convert::Decoded;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use futures::stream::{self, BoxStream, StreamExt as _};
use std::sync::Arc;
use tonic::Status;

pub(super) type Notices = BoxStream<'static, Result<pb::WatchContextResponse, Status>>;

/// Follows a context from a cursor. A context that is there at the cursor is followed to its end; one that
/// is created later, from its creation.
pub(super) async fn watch(
    requests: Arc<Requests>,
    key: SessionKey,
    asked: &pb::WatchContextRequest,
) -> Result<Notices, RpcError> {
    check_name("context", &asked.context)?;
    let newest = requests.store().view(&key).await?.session;
    if asked.after_seq > newest.seq {
        // The store refuses a cursor after its end, unless events have come in the meantime.
        drop(streams::watch(requests.clone(), key.clone(), asked.after_seq, false).await?);
    }
    let context = newest.context_name(&asked.context).to_owned();
    let session = match asked.after_seq {
        0 => Session::default(),
        after if after == newest.seq => Session::clone(&newest),
        after => requests.store().view_at(&key, after).await?,
    };
    if session.context(&context).is_none() {
        newest.known_context(&context).map_err(unknown)?;
    }
    let events = streams::watch(requests, key.clone(), session.seq, false).await?;
    let follower = Follower {
        key,
        context,
        session,
        after_seq: asked.after_seq,
        is_destroyed: false,
    };
    let state = Some((events, follower));
    let messages = stream::unfold(state, |state| async {
        let (mut events, mut follower) = state?;
        match follower.next(&mut events).await? {
            Ok(message) => Some((Ok(message), Some((events, follower)))),
            Err(status) => Some((Err(status), None)),
        }
    });
    Ok(messages.boxed())
}

/// Folds events, so that it knows the context before each.
struct Follower {
    key: SessionKey,
    context: String,
    session: Session,
    /// Changes up to here are not sent.
    after_seq: u64,
    is_destroyed: bool,
}

impl Follower {
    /// The next message; `None` once the context is destroyed, or the stream of events has ended.
    async fn next(
        &mut self,
        events: &mut Watched,
    ) -> Option<Result<pb::WatchContextResponse, Status>> {
        while !self.is_destroyed {
            let message = match events.next().await? {
                Ok(message) => message,
                Err(status) => return Some(Err(status)),
            };
            let Some(event) = message.event else {
                // All events up to now were sent.
                return Some(Ok(self.message(Vec::new())));
            };
            match self.fold(message.seq, event) {
                Ok(notices) if notices.is_empty() || message.seq <= self.after_seq => {}
                Ok(notices) => return Some(Ok(self.message(notices))),
                Err(error) => return Some(Err(error.into())),
            }
        }
        None
    }

    fn fold(&mut self, seq: u64, event: wire::Event) -> Result<Vec<Notice>, RpcError> {
        let decoded = Decoded::try_from(event);
        let event = match decoded.map_err(|error| unreadable(&self.key, seq, error))? {
            Decoded::Event(event) => event,
            Decoded::Unknown | Decoded::StoredApart { .. } => {
                return Err(newer_version(&self.key, seq));
            }
        };
        let folded = self.session.apply_noting(seq, &event, &self.context);
        let notices = folded.map_err(|error| unreadable(&self.key, seq, error))?;
        self.is_destroyed = match &event.kind {
            EventKind::ContextDestroyed(gone) => {
                gone.context == self.context && seq > self.after_seq
            }
            _ => false,
        };
        Ok(notices)
    }

    fn message(&self, notices: Vec<Notice>) -> pb::WatchContextResponse {
        let context = self.session.context(&self.context);
        pb::WatchContextResponse {
            seq: self.session.seq.max(self.after_seq),
            notices: notices.into_iter().map(notice).collect(),
            version: context.map_or(0, |context| context.version),
        }
    }
}

fn notice(notice: Notice) -> pb::ContextNotice {
    use pb::context_notice::Notice as Wire;
    let notice = match notice {
        Notice::Appended(message) => Wire::Appended(pb::MessageAppended {
            message: Some(message.into()),
        }),
        Notice::Updated { index, message } => Wire::Updated(pb::MessageUpdated {
            index,
            message: Some(message.into()),
        }),
        Notice::Inserted { index, message } => Wire::Inserted(pb::MessageInserted {
            index,
            message: Some(message.into()),
        }),
        Notice::Removed { index } => Wire::Removed(pb::MessageRemoved { index }),
        Notice::Popped(message) => Wire::Popped(pb::MessagePopped {
            message: message.map(Into::into),
        }),
        Notice::Retained(role) => Wire::Retained(pb::MessagesRetained {
            role: wire_role(role).into(),
        }),
        Notice::Cleared => Wire::Cleared(pb::MessagesCleared {}),
    };
    pb::ContextNotice {
        notice: Some(notice),
    }
}

fn wire_role(role: Role) -> wire::Role {
    match role {
        Role::System => wire::Role::System,
        Role::User => wire::Role::User,
        Role::Assistant => wire::Role::Assistant,
        Role::Tool => wire::Role::Tool,
    }
}
