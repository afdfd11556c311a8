//! Streams of answers that hold no more than their share, and end when their client does not read.

use crate::readers::{Cut, Part, Share};
use cairn_rpc::RpcError;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tonic::{Response, Status};

/// When a client whose stream was ended may continue it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

type Messages<T> = BoxStream<'static, Result<T, Status>>;

/// The stream until it is cut.
struct Inner<T>(Mutex<Option<Messages<T>>>);

impl<T: 'static> Cut for Inner<T> {
    fn cut(&self) -> bool {
        let inner = self.0.try_lock().ok().and_then(|mut inner| inner.take());
        inner.is_some()
    }
}

/// Sends messages as their client reads them. Each has to find room among those of all streams. `cursor` is
/// the number of a message to continue after; 0 for none. The client has all up to `after_seq`.
pub(super) fn respond<T>(
    share: Share,
    messages: Messages<T>,
    after_seq: u64,
    cursor: fn(&T) -> u64,
) -> Response<Messages<T>>
where
    T: prost::Message + 'static,
{
    let unsent = share.unsent();
    let mut response = Response::new(bounded(share, messages, after_seq, cursor));
    response.extensions_mut().insert(unsent);
    response
}

fn bounded<T>(
    share: Share,
    messages: Messages<T>,
    after_seq: u64,
    cursor: fn(&T) -> u64,
) -> Messages<T>
where
    T: prost::Message + 'static,
{
    let state = Some((messages, share.clone()));
    let fitted = stream::unfold(state, |state| async {
        let (mut messages, share) = state?;
        let message = match messages.next().await? {
            Ok(message) => message,
            Err(status) => return Some((Err(status), None)),
        };
        match share.fit(Part::Message, message.encoded_len()).await {
            Ok(()) => Some((Ok(message), Some((messages, share)))),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    let inner = Arc::new(Inner(Mutex::new(Some(fitted.boxed()))));
    let cut = Arc::downgrade(&inner);
    share.cut_by(cut);
    // A client that has no room for any answer never asks for the first message.
    share.waits();
    let bounded = Bounded {
        share,
        inner,
        cursor,
        after_seq,
        is_unread: true,
        is_over: false,
    };
    bounded.boxed()
}

struct Bounded<T> {
    share: Share,
    inner: Arc<Inner<T>>,
    cursor: fn(&T) -> u64,
    /// The client was sent everything up to here.
    after_seq: u64,
    /// The client has not asked for the next message yet.
    is_unread: bool,
    is_over: bool,
}

impl<T: 'static> Stream for Bounded<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        // Not at later polls: the message that is being read for the client counts.
        if std::mem::take(&mut this.is_unread) {
            this.share.reads();
        }
        let polled = {
            let mut inner = this.inner.0.lock().unwrap_or_else(PoisonError::into_inner);
            let stream = inner.as_mut();
            stream.map(|stream| stream.poll_next_unpin(context))
        };
        let next = match polled {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(next)) => next,
            None => Some(Err(this.too_slow().into())),
        };
        if let Some(Ok(message)) = &next {
            this.after_seq = this.after_seq.max((this.cursor)(message));
            this.share.waits();
            this.is_unread = true;
        } else {
            this.is_over = true;
        }
        Poll::Ready(next)
    }
}

impl<T> Bounded<T> {
    fn too_slow(&self) -> RpcError {
        let after = self.after_seq;
        let hint = match after {
            0 => "ask again".to_owned(),
            after => format!("continue after event {after}"),
        };
        let message =
            format!("the client reads too slowly, and other streams needed the room: {hint}");
        RpcError::exhausted(message)
            .reason(RpcError::READS_TOO_SLOWLY)
            .meta("after_seq", after.to_string())
            .retry_after(RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::Readers;
    use cairn_proto::orchestrator::WatchSessionResponse;

    const MIB: usize = 1024 * 1024;

    /// Messages with these numbers, which hold so many bytes besides.
    fn stream(
        readers: &Readers,
        numbers: std::ops::Range<u64>,
        bytes: usize,
    ) -> BoxStream<'static, Result<WatchSessionResponse, Status>> {
        let share = readers.share();
        share.set(Part::Page, bytes);
        let message = |seq| {
            Ok(WatchSessionResponse {
                seq,
                ..WatchSessionResponse::default()
            })
        };
        let messages = stream::iter(numbers.map(message));
        bounded(share, messages.boxed(), 0, |message| message.seq)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_told_where_to_continue() {
        let readers = Readers::new(MIB);
        let mut slow = stream(&readers, 1..9, MIB);
        for seq in 1..4 {
            let message = slow.next().await.expect("more").expect("no error");
            assert_eq!(message.seq, seq);
        }
        let other = readers.share();
        other.fit(Part::Fold, MIB / 2).await.expect("room");
        assert!(readers.bytes() < MIB);
        let status = slow.next().await.expect("an end").expect_err("an error");
        let error = RpcError::from_status(&status);
        assert_eq!(error.reason_name(), RpcError::READS_TOO_SLOWLY);
        assert_eq!(error.metadata("after_seq"), Some("3"));
        assert!(error.message().contains("after event 3"), "{error}");
        assert!(slow.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_reads_makes_room_as_well() {
        let readers = Readers::new(MIB);
        let mut slow = stream(&readers, 1..9, MIB);
        let other = readers.share();
        other.fit(Part::Fold, MIB).await.expect("room");
        let status = slow.next().await.expect("an end").expect_err("an error");
        assert!(status.message().contains("ask again"), "{status:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_its_client_leaves_holds_nothing() {
        let readers = Readers::new(MIB);
        let mut read = stream(&readers, 1..9, MIB / 4);
        let unread = stream(&readers, 1..9, MIB / 4);
        read.next().await.expect("more").expect("no error");
        assert!(readers.bytes() >= MIB / 2);
        drop((read, unread));
        assert_eq!(readers.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_gets_all() {
        let readers = Readers::new(MIB);
        let read = stream(&readers, 1..9, MIB);
        assert_eq!(read.count().await, 8);
        assert_eq!(readers.bytes(), 0);
    }
}
