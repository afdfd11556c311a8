//! A server that sends without end must not fill the memory.

use super::process::Refused;
use rmcp::model::{JsonRpcMessage, JsonRpcNotification, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Most requests of the program that wait for their answers.
const MOST_UNANSWERED: usize = 1_000;

/// A transport that reads a message once the tasks of those before had their turn.
pub(crate) struct Paced<T>(pub(crate) T);

impl<T: Transport<RoleClient>> Transport<RoleClient> for Paced<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.0.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        tokio::task::yield_now().await;
        self.0.receive().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.0.close().await
    }
}

/// A transport that ends once too many requests are unanswered.
pub(crate) struct Backlog<T> {
    inner: T,
    unanswered: Arc<Mutex<HashSet<RequestId>>>,
    /// Frees what is being sent: a program that does not read would hold it without end.
    over: CancellationToken,
    refused: Refused,
}

impl<T> Backlog<T> {
    pub(crate) fn new(inner: T, refused: Refused) -> Self {
        Self {
            inner,
            unanswered: Arc::default(),
            over: CancellationToken::new(),
            refused,
        }
    }
}

impl<T: Transport<RoleClient, Error = io::Error>> Transport<RoleClient> for Backlog<T> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            // An error without an id answers what could not be read, which is not counted.
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let sent = self.inner.send(item);
        let (unanswered, over) = (self.unanswered.clone(), self.over.clone());
        async move {
            let sent = over.run_until_cancelled_owned(sent).await;
            if let Some(id) = answered {
                lock(&unanswered).remove(&id);
            }
            sent.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = self.inner.receive().await;
        let is_too_much = match &received {
            Some(JsonRpcMessage::Request(request)) => {
                let mut unanswered = lock(&self.unanswered);
                unanswered.insert(request.id.clone());
                unanswered.len() > MOST_UNANSWERED
            }
            // What is cancelled gets no answer.
            Some(JsonRpcMessage::Notification(JsonRpcNotification {
                notification: ServerNotification::CancelledNotification(cancelled),
                ..
            })) => {
                if let Some(id) = &cancelled.params.request_id {
                    lock(&self.unanswered).remove(id);
                }
                false
            }
            _ => false,
        };
        if is_too_much {
            self.refused
                .set("does not read the answers to its requests");
            self.over.cancel();
            return None;
        }
        received
    }

    async fn close(&mut self) -> io::Result<()> {
        // To close is to send what is left.
        match self.over.is_cancelled() {
            true => Ok(()),
            false => self.inner.close().await,
        }
    }
}

fn lock(unanswered: &Mutex<HashSet<RequestId>>) -> MutexGuard<'_, HashSet<RequestId>> {
    unanswered.lock().unwrap_or_else(PoisonError::into_inner)
}
