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
    /// Gone once the body has ended early.
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
    }

    fn end_with(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.end();
        let mut trailers = HeaderMap::with_capacity(3);
        match status.add_header(&mut trailers) {
            Ok(()) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Err(status) => Poll::Ready(Some(Err(status))),
        }
    }
}

/// What the connection takes of a frame.
fn sliced(frame: Frame<Bytes>, unsent: Option<&Unsent>) -> Frame<Bytes> {
    match unsent {
        Some(unsent) => frame.map_data(|data| unsent.keep(data)),
        None => frame,
    }
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let slice = self.unsent.as_ref().and_then(Unsent::next);
        match slice {
            Some(Ok(slice)) => return Poll::Ready(Some(Ok(Frame::data(slice)))),
            Some(Err(reset)) => {
                self.end();
                return Poll::Ready(Some(Err(reset)));
            }
            None => {}
        }
        let Some(inner) = self.inner.as_mut() else {
            return Poll::Ready(None);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(inner).poll_frame(cx)));
        match polled {
            Err(panic) => {
                let status = panicked(&self.path, &*panic);
                self.end_with(&status)
            }
            Ok(Poll::Pending) => match self.sleep.as_mut().map(|s| s.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => self.end_with(&late()),
                _ => Poll::Pending,
            },
            Ok(Poll::Ready(frame)) => {
                // A connection drops the body at its end; over a local link the caller may hold
                // it much longer, and what the handler has in it must not wait for that.
                if !matches!(&frame, Some(Ok(frame)) if frame.is_data()) {
                    self.end();
                }
                let unsent = self.unsent.as_ref();
                Poll::Ready(frame.map(|frame| frame.map(|frame| sliced(frame, unsent))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) => inner.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}
