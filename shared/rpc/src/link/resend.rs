//! The body of a call that may be sent a second time.

use crate::MAX_MESSAGE_BYTES;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::vec;
use tonic::Status;
use tonic::body::Body;

/// One whole message and its prefix. A longer stream is not kept: it may have any length.
const MOST_KEPT: usize = MAX_MESSAGE_BYTES + 5;

/// What a call has sent, until it is answered.
pub(super) struct Kept(Arc<Mutex<State>>);

struct State {
    /// What the call has not sent yet.
    rest: Body,
    /// What it has sent. None: it was too much, or the call is answered.
    sent: Option<Vec<Bytes>>,
    /// Bytes that may still be kept.
    room: usize,
}

impl Kept {
    /// The body for the first time that a call is sent, and what is kept of it.
    pub(super) fn new(rest: Body) -> (Body, Self) {
        let state = Arc::new(Mutex::new(State {
            rest,
            sent: Some(Vec::new()),
            room: MOST_KEPT,
        }));
        (Body::new(First(Arc::clone(&state))), Self(state))
    }

    /// The body for the second time, if all that was sent is kept. The first one ends.
    pub(super) fn again(self) -> Option<Body> {
        let mut state = lock(&self.0);
        let sent = state.sent.take()?.into_iter();
        let rest = mem::take(&mut state.rest);
        Some(Body::new(Second { sent, rest }))
    }

    /// The call is answered: from now on its body is only passed on.
    pub(super) fn release(self) {
        lock(&self.0).sent = None;
    }
}

struct First(Arc<Mutex<State>>);

impl HttpBody for First {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut state = lock(&self.0);
        let frame = ready!(Pin::new(&mut state.rest).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => state.keep(frame),
            Some(Err(_)) => state.sent = None,
            None => state.rest = Body::empty(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        lock(&self.0).rest.is_end_stream()
    }
}

impl State {
    fn keep(&mut self, frame: &Frame<Bytes>) {
        let (Some(data), Some(sent)) = (frame.data_ref(), &mut self.sent) else {
            return;
        };
        match self.room.checked_sub(data.len()) {
            Some(room) => {
                sent.push(data.clone());
                self.room = room;
            }
            None => self.sent = None,
        }
    }
}

struct Second {
    sent: vec::IntoIter<Bytes>,
    rest: Body,
}

impl HttpBody for Second {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.sent.next() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sent.len() == 0 && self.rest.is_end_stream()
    }
}

/// A poisoned lock is taken over: the call that panicked is over.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
