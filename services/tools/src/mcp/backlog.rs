//! A server that sends without end must not fill the memory.

use super::process::Refused;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    unanswered: Arc<AtomicUsize>,
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
        let is_answer = match &item {
            JsonRpcMessage::Response(_) => true,
            // An error without an id answers what could not be read, which is not counted.
            JsonRpcMessage::Error(error) => error.id.is_some(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
        };
        let sent = self.inner.send(item);
        let (unanswered, over) = (self.unanswered.clone(), self.over.clone());
        async move {
            let sent = over.run_until_cancelled_owned(sent).await;
            if is_answer {
                unanswered.fetch_sub(1, Ordering::Relaxed);
            }
            sent.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let received = self.inner.receive().await;
        if matches!(received, Some(JsonRpcMessage::Request(_)))
            && self.unanswered.fetch_add(1, Ordering::Relaxed) >= MOST_UNANSWERED
        {
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
