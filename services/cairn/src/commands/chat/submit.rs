//! One turn on its way: submitted, streamed, and continued after a broken connection.

use super::retry::Retry;
use crate::client::Client;
use crate::error::CliError;
use cairn_memory::error::{NOT_WRITTEN, OUTCOME_UNKNOWN};
use cairn_proto::orchestrator::{SubmitTurnRequest, SubmitTurnResponse};
use cairn_rpc::text::escape;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};

/// What comes next of a turn.
#[derive(Debug)]
pub(super) enum Next {
    /// Something happened.
    Response(Box<SubmitTurnResponse>),
    /// The connection broke, or the server asks to wait: for people, once.
    Lost(String),
    /// The stream continues after it was lost.
    Back,
}

/// A turn on its way.
#[derive(Debug)]
pub(super) struct Turn {
    /// The same each time, but for the cursor.
    request: SubmitTurnRequest,
    stream: Option<Streaming<SubmitTurnResponse>>,
    retry: Retry,
    /// When the stream is opened again.
    again_at: Option<Instant>,
    is_lost: bool,
}

impl Turn {
    /// A turn that has not been submitted.
    pub(super) fn new(request: SubmitTurnRequest) -> Self {
        Self {
            request,
            stream: None,
            retry: Retry::default(),
            again_at: None,
            is_lost: false,
        }
    }

    /// Waits for what comes next. Safe to drop at any moment: the next call continues. Not to be called
    /// again after the turn has ended.
    ///
    /// # Errors
    /// The turn is refused, or its server stays out of reach.
    pub(super) async fn next(&mut self, client: &mut Client<'_>) -> Result<Next, CliError> {
        loop {
            if let Some(at) = self.again_at {
                sleep_until(at).await;
                if let Err(error) = reach(client).await {
                    self.wait(&error.message.clone(), None, error)?;
                    continue;
                }
                self.again_at = None;
            }
            let Some(stream) = &mut self.stream else {
                if let Some(lost) = self.open(client).await? {
                    return Ok(lost);
                }
                continue;
            };
            match stream.message().await {
                Ok(Some(response)) if self.is_known(&response) => {}
                Ok(Some(response)) => {
                    self.request.after_seq = self.request.after_seq.max(response.seq);
                    self.retry.arrived();
                    return Ok(Next::Response(Box::new(response)));
                }
                Ok(None) => {
                    let status = Status::unavailable("the stream ended before the turn");
                    if let Some(lost) = self.broke(&status)? {
                        return Ok(lost);
                    }
                }
                Err(status) => {
                    if let Some(lost) = self.broke(&status)? {
                        return Ok(lost);
                    }
                }
            }
        }
    }

    /// A stream that was opened again may repeat an event.
    fn is_known(&self, response: &SubmitTurnResponse) -> bool {
        response.seq > 0 && response.seq <= self.request.after_seq
    }

    /// Opens the stream, and returns what people are shown of it.
    async fn open(&mut self, client: &Client<'_>) -> Result<Option<Next>, CliError> {
        let request = self.request.clone();
        match client.orchestrator().submit_turn(request).await {
            Ok(stream) => {
                self.stream = Some(stream.into_inner());
                let was_lost = std::mem::take(&mut self.is_lost);
                Ok(was_lost.then_some(Next::Back))
            }
            Err(status) => self.broke(&status),
        }
    }

    /// Plans the next try after a break, and passes on every other error.
    fn broke(&mut self, status: &Status) -> Result<Option<Next>, CliError> {
        self.stream = None;
        let error = RpcError::from_status(status);
        let may_be_later = match error.reason_name() {
            RpcError::OVERLOADED | RpcError::READS_TOO_SLOWLY | NOT_WRITTEN | OUTCOME_UNKNOWN => {
                true
            }
            _ => matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled),
        };
        if !may_be_later {
            return Err(error.into());
        }
        let asked = error.retry_delay();
        self.wait(&error.to_string(), asked, error.into())
    }

    fn wait(
        &mut self,
        why: &str,
        asked: Option<Duration>,
        error: CliError,
    ) -> Result<Option<Next>, CliError> {
        let Some(pause) = self.retry.pause(asked) else {
            return Err(error);
        };
        self.again_at = Some(Instant::now() + pause);
        if !self.retry.is_first() || std::mem::replace(&mut self.is_lost, true) {
            return Ok(None);
        }
        let text = format!("connection lost: {}; trying again", escape(why));
        Ok(Some(Next::Lost(text)))
    }
}

/// Reaches the services anew, unless this process has them.
async fn reach(client: &mut Client<'_>) -> Result<(), CliError> {
    match client.attached().is_holder() {
        true => Ok(()),
        false => client.reattach().await,
    }
}
