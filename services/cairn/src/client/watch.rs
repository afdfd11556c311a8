//! Watching a session across restarts of the process that serves it.

use super::Client;
use crate::error::CliError;
use crate::ui::text::command;
use cairn_proto::event::Event;
use cairn_proto::orchestrator::{WatchSessionRequest, WatchSessionResponse};
use cairn_rpc::{ErrorKind, RpcError};
use std::io::Write as _;
use std::time::Duration;
use tokio::time::sleep;
use tonic::{Status, Streaming};

/// Attempts in a row that bring no event before watching gives up.
const MOST_TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);

/// What a watch gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Watched {
    /// The next event; each comes once, in order.
    Event {
        /// Its number.
        seq: u64,
        /// The event.
        event: Box<Event>,
    },
    /// The events so far are all there are now.
    CaughtUp,
}

/// The events of a session after a cursor.
#[derive(Debug)]
pub struct Watch<'w, 'a> {
    client: &'w mut Client<'a>,
    session: String,
    after: u64,
    stream: Option<Streaming<WatchSessionResponse>>,
    tries: u32,
    is_caught_up: bool,
    is_told: bool,
}

impl<'w, 'a> Watch<'w, 'a> {
    pub(super) fn new(client: &'w mut Client<'a>, session: &str, after: u64) -> Self {
        Self {
            client,
            session: session.to_owned(),
            after,
            stream: None,
            tries: 0,
            is_caught_up: false,
            is_told: false,
        }
    }

    /// The next event, whenever it comes. None when the session is deleted, or the command is
    /// interrupted.
    ///
    /// # Errors
    /// The session does not exist, or its services stay out of reach.
    pub async fn next(&mut self) -> Result<Option<Watched>, CliError> {
        let stop = self.client.context().stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(None),
            next = self.follow() => next,
        }
    }

    /// The client that watches, for questions in between.
    pub fn client(&self) -> &Client<'a> {
        self.client
    }

    async fn follow(&mut self) -> Result<Option<Watched>, CliError> {
        loop {
            let message = match &mut self.stream {
                Some(stream) => stream.message().await,
                None => match self.open().await {
                    Ok(()) => continue,
                    Err(status) => Err(status),
                },
            };
            match message {
                Ok(Some(message)) => {
                    self.tries = 0;
                    let Some(event) = message.event else {
                        // A reader of the file comes to its end again and again.
                        if std::mem::replace(&mut self.is_caught_up, true) {
                            continue;
                        }
                        return Ok(Some(Watched::CaughtUp));
                    };
                    self.after = message.seq;
                    return Ok(Some(Watched::Event {
                        seq: message.seq,
                        event: Box::new(event),
                    }));
                }
                Ok(None) => return Ok(None),
                Err(status) => self.again(&status).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<(), Status> {
        let request = WatchSessionRequest {
            session: self.session.clone(),
            after_seq: self.after,
        };
        let mut orchestrator = self.client.orchestrator();
        self.stream = Some(orchestrator.watch_session(request).await?.into_inner());
        Ok(())
    }

    /// Makes the way anew after a break; passes on every other error.
    ///
    /// A reader of the file ends at the end of it, and then looks whether somebody holds the store.
    async fn again(&mut self, status: &Status) -> Result<(), CliError> {
        let error = RpcError::from_status(status);
        let broken = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled);
        self.tries += 1;
        if !broken || self.tries > MOST_TRIES {
            return Err(error.into());
        }
        self.stream = None;
        if self.client.attached().is_reader() {
            sleep(PAUSE).await;
        } else {
            sleep(PAUSE.min(Duration::from_millis(10) * self.tries * self.tries)).await;
        }
        if !self.client.attached().is_holder() {
            self.client.reattach().await?;
            self.tell();
        }
        Ok(())
    }

    /// Says once that nobody does the work any more, and once that somebody does again.
    fn tell(&mut self) {
        let is_alone = self.client.attached().is_reader();
        if is_alone == self.is_told {
            return;
        }
        self.is_told = is_alone;
        let text = match is_alone {
            true => format!(
                "no process works on the store now; reading on when one does, as {} makes one",
                command(self.client.context(), "resume")
            ),
            false => "a process works on the store again".to_owned(),
        };
        // Where this cannot be written, nobody is there to read it.
        let _ = writeln!(std::io::stderr(), "cairn: {text}");
    }
}
