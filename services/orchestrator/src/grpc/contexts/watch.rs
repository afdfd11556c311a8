//! The notices of a context.

use super::super::bounded::respond;
use super::super::streams::{self, Watched};
use super::check_name;
use super::feed::{Feed, Feeds, Step, context_bytes};
use super::reads::unknown;
use crate::key::SessionKey;
use crate::readers::{Part, Share};
use crate::requests::Requests;
use cairn_engine::message::Role;
use cairn_engine::session::{Notice, Session};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use futures::stream::{self, BoxStream, StreamExt as _};
use std::sync::Arc;
use tonic::{Response, Status};

pub(super) type Notices = BoxStream<'static, Result<pb::WatchContextResponse, Status>>;

/// Follows a context from a cursor. A context that is there at the cursor is followed to its end; one that
/// is created later, from its creation.
pub(super) async fn watch(
    requests: Arc<Requests>,
    feeds: Arc<Feeds>,
    key: SessionKey,
    asked: &pb::WatchContextRequest,
) -> Result<Response<Notices>, RpcError> {
    check_name("context", &asked.context)?;
    let (share, after_seq) = (requests.readers.share(), asked.after_seq);
    let shared = feeds.shared(&key).and_then(|feed| {
        let (context, version) = feed.context(&asked.context, after_seq)?;
        Some(Begun {
            context,
            version,
            seq: after_seq,
            feed,
            is_own: false,
        })
    });
    let begun = match shared {
        Some(begun) => begun,
        None => Begun::read(&requests, &key, asked, &share).await?,
    };
    begun.feed.count(&share);
    let seq = begun.seq;
    let watched = streams::watch(requests.clone(), key.clone(), seq, false, share.clone());
    let events = watched.await?;
    let follower = Follower {
        requests,
        feeds,
        key,
        share: share.clone(),
        begun,
        after_seq,
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
    Ok(respond(share, messages.boxed(), after_seq, |message| {
        message.seq
    }))
}

/// Where a watcher is.
struct Begun {
    /// The name of its context.
    context: String,
    /// The version of the context; 0 if there is none.
    version: u64,
    /// The last event that it has taken.
    seq: u64,
    feed: Arc<Feed>,
    /// No other watcher shares the fold, so that it counts among what the stream holds.
    is_own: bool,
}

impl Begun {
    /// With a fold of its own, which has room before it is loaded.
    async fn read(
        requests: &Requests,
        key: &SessionKey,
        asked: &pb::WatchContextRequest,
        share: &Share,
    ) -> Result<Self, RpcError> {
        let view = || requests.store().view(key);
        let viewed = share.load(view, |viewed| viewed.bytes).await?;
        let newest = viewed.session;
        if asked.after_seq > newest.seq {
            streams::check_cursor(requests, key, asked.after_seq).await?;
        }
        let context = newest.context_name(&asked.context).to_owned();
        let other_bytes = viewed.bytes.saturating_sub(context_bytes(&newest));
        let is_known = newest.known_context(&context).map(drop);
        // The room is for one state, so the newest goes before another is loaded.
        let session = match asked.after_seq {
            0 => Session::default(),
            after if after == newest.seq => Arc::unwrap_or_clone(newest),
            after => {
                drop(newest);
                requests.store().view_at(key, after).await?
            }
        };
        if session.context(&context).is_none() {
            is_known.map_err(unknown)?;
        }
        Ok(Self {
            version: session.context(&context).map_or(0, |it| it.version),
            seq: session.seq,
            context,
            feed: Feed::own(key, session, other_bytes),
            is_own: true,
        })
    }
}

/// Takes what events mean for a context.
struct Follower {
    requests: Arc<Requests>,
    feeds: Arc<Feeds>,
    key: SessionKey,
    share: Share,
    begun: Begun,
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
            self.join(message.event.is_none());
            let Some(event) = message.event else {
                // All events up to now were sent.
                return Some(Ok(self.message(Vec::new())));
            };
            let notices = match self.step(message.seq, event).await {
                Ok(step) => self.take(&step),
                Err(error) => return Some(Err(error.into())),
            };
            if !notices.is_empty() && message.seq > self.after_seq {
                return Some(Ok(self.message(notices)));
            }
        }
        None
    }

    /// Goes on with the fold of others, if that is where this one is.
    fn join(&mut self, has_all: bool) {
        if !self.begun.is_own {
            return;
        }
        let (own, seq, readers) = (&self.begun.feed, self.begun.seq, &self.requests.readers);
        if let Some(shared) = self.feeds.join(own, seq, has_all, readers) {
            self.begun.feed = shared;
            self.begun.is_own = false;
            self.begun.feed.count(&self.share);
            self.share.set(Part::Fold, 0);
        }
    }

    async fn step(&mut self, seq: u64, event: wire::Event) -> Result<Arc<Step>, RpcError> {
        let mut event = Some(event);
        if let Some(step) = self.begun.feed.step(seq, &mut event)? {
            return Ok(step);
        }
        // The others have gone on, so this watcher goes on alone.
        let (bytes, other_bytes) = self.begun.feed.bytes();
        self.share.fit(Part::Fold, bytes).await?;
        let store = self.requests.store();
        let session = store.view_at(&self.key, seq.saturating_sub(1)).await?;
        self.begun.feed = Feed::own(&self.key, session, other_bytes);
        self.begun.feed.count(&self.share);
        self.begun.is_own = true;
        let step = self.begun.feed.step(seq, &mut event)?;
        step.ok_or_else(|| RpcError::internal("a watcher has lost its place"))
    }

    fn take(&mut self, step: &Step) -> Vec<Notice> {
        self.begun.seq = step.seq;
        if step.destroyed.as_ref() == Some(&self.begun.context) {
            self.begun.version = 0;
            self.is_destroyed = step.seq > self.after_seq;
        }
        let mut noted = step.noted.iter();
        let noted = noted.find(|noted| noted.context == self.begun.context);
        noted.map_or_else(Vec::new, |noted| {
            self.begun.version = noted.version;
            noted.notices.clone()
        })
    }

    fn message(&self, notices: Vec<Notice>) -> pb::WatchContextResponse {
        pb::WatchContextResponse {
            seq: self.begun.seq.max(self.after_seq),
            notices: notices.into_iter().map(notice).collect(),
            version: self.begun.version,
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
        Notice::Compacted {
            through,
            kind,
            message,
        } => Wire::Compacted(pb::MessagesCompacted {
            through_index: through.map_or(0, |last| last.saturating_add(1)),
            kind: wire::CompactionKind::from(kind).into(),
            message: Some(message.into()),
        }),
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
