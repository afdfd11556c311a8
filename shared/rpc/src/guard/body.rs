//! The response's body under guard: it ends with a status, whatever happens inside.

use super::{Method, OpenCall, late, panicked};
use crate::unsent::Unsent;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;

pub(super) struct GuardedBody {
    /// Gone once the body has ended early, and with the rest of a message that the connection takes in slices.
    inner: Option<Body>,
    sleep: Option<Pin<Box<Sleep>>>,
    path: Method,
    /// Gone with the inner body: the connection counts the call as open until then.
    open: Option<OpenCall>,
    /// A stream over a socket whose messages the connection takes in slices.
    unsent: Option<Unsent>,
}

impl GuardedBody {
    pub(super) fn new(
        inner: Body,
        sleep: Option<Pin<Box<Sleep>>>,
        path: Method,
        open: Option<OpenCall>,
        unsent: Option<Unsent>,
    ) -> Self {
        Self {
            inner: Some(inner),
            sleep,
            path,
            open,
            unsent,
        }
    }

    fn end(&mut self) {
        self.inner = None;
        self.open = None;
        self.unsent = None;
    }

    fn end_with(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.end();
        let mut trailers = HeaderMap::with_capacity(3);
        match status.add_header(&mut trailers) {
            Ok(()) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Err(status) => Poll::Ready(Some(Err(status))),
        }
    }

    /// What the connection takes of a frame.
    fn sliced(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match &self.unsent {
            Some(unsent) => frame.map_data(|data| unsent.keep(data, &mut self.inner)),
            None => frame,
        }
    }

    fn is_within_message(&self) -> bool {
        let unsent = self.unsent.as_ref();
        unsent.is_some_and(Unsent::is_within_message)
    }
}

/// The rest of a message has the inner body, and the handler may have the rest: without this, each would keep
/// the other.
impl Drop for GuardedBody {
    fn drop(&mut self) {
        if let Some(unsent) = self.unsent.take() {
            unsent.discard();
        }
    }
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let unsent = this.unsent.as_ref();
        match unsent.and_then(|unsent| unsent.next(&mut this.inner)) {
            Some(Ok(slice)) => return Poll::Ready(Some(Ok(Frame::data(slice)))),
            Some(Err(reset)) => {
                this.end();
                return Poll::Ready(Some(Err(reset)));
            }
            None => {}
        }
        let Some(inner) = this.inner.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(cx)));
        match polled {
            Err(panic) => {
                let status = panicked(&this.path, &*panic);
                this.end_with(&status)
            }
            Ok(Poll::Pending) => match this.sleep.as_mut().map(|s| s.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => this.end_with(&late()),
                _ => Poll::Pending,
            },
            Ok(Poll::Ready(frame)) => {
                // A connection drops the body at its end; over a local link the caller may hold
                // it much longer, and what the handler has in it must not wait for that.
                if !matches!(&frame, Some(Ok(frame)) if frame.is_data()) {
                    this.end();
                }
                Poll::Ready(frame.map(|frame| frame.map(|frame| this.sliced(frame))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let inner = self.inner.as_ref();
        !self.is_within_message() && inner.is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) => inner.size_hint(),
            None if self.is_within_message() => SizeHint::default(),
            None => SizeHint::with_exact(0),
        }
    }
}
