//! Watching a session across restarts of the process that serves it.

use super::Client;
use crate::error::{CliError, release_of};
use crate::ui::screen;
use crate::ui::text::command;
use cairn_memory::error::NEWER_VERSION;
use cairn_proto::event::{Event, TextDelta};
use cairn_proto::orchestrator::{
    ExportSessionRequest, ExportSessionResponse, GetSessionRequest, WatchSessionRequest,
    WatchSessionResponse,
};
use cairn_rpc::{ErrorKind, RpcError};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Status, Streaming};

/// Attempts in a row that bring no event before watching gives up.
const MOST_TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);
/// How long a store that nobody holds is not opened while its files stay as they are.
const LONGEST: Duration = Duration::from_secs(5);

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
    /// A part of a reply that is on its way; some may be missing.
    Delta(Box<TextDelta>),
}

/// Where events come from.
#[derive(Debug)]
enum Source {
    /// Somebody holds the store and tells what happens.
    Live(Streaming<WatchSessionResponse>),
    /// Nobody does; the file has what has happened.
    File(Streaming<ExportSessionResponse>),
}

enum Message {
    Event(u64, Box<Event>),
    Delta(Box<TextDelta>),
    CaughtUp,
    EndOfFile,
    Deleted,
}

impl Source {
    async fn next(&mut self) -> Result<Message, Status> {
        let (seq, event) = match self {
            Self::Live(events) => match events.message().await? {
                Some(WatchSessionResponse {
                    delta: Some(delta), ..
                }) => return Ok(Message::Delta(Box::new(delta))),
                Some(message) => (message.seq, message.event),
                None => return Ok(Message::Deleted),
            },
            Self::File(events) => match events.message().await? {
                Some(message) => (message.seq, message.event),
                None => return Ok(Message::EndOfFile),
            },
        };
        Ok(event.map_or(Message::CaughtUp, |event| {
            Message::Event(seq, Box::new(event))
        }))
    }
}

/// What a process that works on a store leaves in its folder. To look at it is cheap; to open a
/// store is not.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    store: PathBuf,
    files: [Option<Trace>; 3],
}

/// Inode, bytes, seconds and nanoseconds of the last change.
type Trace = (u64, u64, i64, i64);

impl Traces {
    fn of(store: &Path) -> Self {
        let mut log = store.as_os_str().to_owned();
        log.push("-wal");
        let socket = store.with_file_name("cairn.sock");
        Self {
            store: store.to_owned(),
            files: [store, Path::new(&log), &socket].map(trace),
        }
    }

    /// Returns when something has changed, and after [`LONGEST`] in any case.
    async fn change(self) {
        let end = Instant::now() + LONGEST;
        while Instant::now() < end {
            sleep(PAUSE).await;
            if Self::of(&self.store) != self {
                return;
            }
        }
    }
}

/// None for an empty log, too: whoever reads makes one.
fn trace(path: &Path) -> Option<Trace> {
    let file = fs::symlink_metadata(path).ok()?;
    let is_there = file.len() > 0 || file.file_type().is_socket();
    is_there.then(|| (file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// The events of a session after a cursor.
#[derive(Debug)]
pub struct Watch<'w, 'a> {
    client: &'w mut Client<'a>,
    session: String,
    after: u64,
    source: Option<Source>,
    tries: u32,
    with_deltas: bool,
    is_caught_up: bool,
    is_reported: bool,
}

impl<'w, 'a> Watch<'w, 'a> {
    pub(super) fn new(client: &'w mut Client<'a>, session: &str, after: u64) -> Self {
        Self {
            client,
            session: session.to_owned(),
            after,
            source: None,
            tries: 0,
            with_deltas: false,
            is_caught_up: false,
            is_reported: false,
        }
    }

    /// Also gives the text of replies while they come, if that is wanted.
    #[must_use]
    pub fn with_deltas(self, with_deltas: bool) -> Self {
        Self {
            with_deltas,
            ..self
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

    /// The client that watches, for questions in between that are asked again if the process that
    /// serves them goes away.
    pub fn client_mut(&mut self) -> &mut Client<'a> {
        self.client
    }

    /// The client that watches, for questions in between.
    pub fn client(&self) -> &Client<'a> {
        self.client
    }

    async fn follow(&mut self) -> Result<Option<Watched>, CliError> {
        loop {
            let message = match &mut self.source {
                Some(source) => source.next().await,
                None => match self.open().await {
                    Ok(()) => continue,
                    Err(status) => Err(status),
                },
            };
            match message {
                Ok(Message::Event(seq, event)) => {
                    self.tries = 0;
                    if seq <= self.after {
                        continue;
                    }
                    self.after = seq;
                    return Ok(Some(Watched::Event { seq, event }));
                }
                Ok(Message::Delta(delta)) => return Ok(Some(Watched::Delta(delta))),
                Ok(Message::CaughtUp) => {
                    self.tries = 0;
                    if !std::mem::replace(&mut self.is_caught_up, true) {
                        return Ok(Some(Watched::CaughtUp));
                    }
                }
                Ok(Message::EndOfFile) if self.is_caught_up => self.wait_for_news().await?,
                Ok(Message::EndOfFile) => {
                    self.is_caught_up = true;
                    return Ok(Some(Watched::CaughtUp));
                }
                Ok(Message::Deleted) => return Ok(None),
                Err(status) => self.again(&status).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<(), Status> {
        let session = self.session.clone();
        let mut orchestrator = self.client.orchestrator();
        self.source = Some(if self.client.attached().is_reader() {
            let request = ExportSessionRequest { session };
            let events = orchestrator.export_session(request).await?;
            Source::File(events.into_inner())
        } else {
            let request = WatchSessionRequest {
                session,
                after_seq: self.after,
                with_deltas: self.with_deltas,
            };
            let events = orchestrator.watch_session(request).await?;
            Source::Live(events.into_inner())
        });
        Ok(())
    }

    /// Makes the way anew after a break; passes on every other error.
    async fn again(&mut self, status: &Status) -> Result<(), CliError> {
        let error = RpcError::from_status(status);
        self.tries += 1;
        // Of several processes that serve, another one may be newer.
        let is_newer = error.reason_name() == NEWER_VERSION && self.client.attached().is_remote();
        if !(is_newer || may_be_continued(&error)) || self.tries > MOST_TRIES {
            let context = self.client.context();
            let release = release_of(&error).map(|release| command(context, &release));
            let error = CliError::from(error);
            return Err(match release {
                Some(release) => error.hint(format!("let it go on with: {release}")),
                None => error,
            });
        }
        self.source = None;
        sleep(PAUSE.min(Duration::from_millis(10) * self.tries * self.tries)).await;
        if !self.client.attached().is_holder() {
            self.client.reattach().await?;
        }
        Ok(())
    }

    /// At the end of the file: waits until somebody holds the store, or the file has grown.
    async fn wait_for_news(&mut self) -> Result<(), CliError> {
        self.tell();
        loop {
            // Looked at before the store is: what comes in between is seen the next time.
            let traces = Traces::of(&self.client.attached().store);
            self.client.reattach().await?;
            let request = GetSessionRequest {
                session: self.session.clone(),
            };
            let answer = match self.client.orchestrator().get_session(request).await {
                Ok(answer) => answer.into_inner(),
                // A holder that came and went at once.
                Err(status) => return self.again(&status).await,
            };
            let session = answer.session.unwrap_or_default();
            if !self.client.attached().is_reader() || session.last_seq > self.after {
                self.source = None;
                self.tell();
                return Ok(());
            }
            traces.change().await;
        }
    }

    /// Says once that nobody does the work any more, and once that somebody does again.
    fn tell(&mut self) {
        let is_alone = self.client.attached().is_reader();
        if is_alone == self.is_reported {
            return;
        }
        self.is_reported = is_alone;
        let text = match is_alone {
            true => format!(
                "no process works on the store now; reading on when one does, as {} makes one",
                command(self.client.context(), "resume")
            ),
            false => "a process works on the store again".to_owned(),
        };
        screen::tell(&text);
    }
}

/// The stream is broken, or the server has no room for it now.
fn may_be_continued(error: &RpcError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled)
        || matches!(
            error.reason_name(),
            RpcError::READS_TOO_SLOWLY | RpcError::OVERLOADED
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_continued_after_a_break_and_when_it_found_no_room() {
        let slow = RpcError::exhausted("").reason(RpcError::READS_TOO_SLOWLY);
        let full = RpcError::overloaded("", PAUSE);
        let limit = RpcError::exhausted("").reason("LIMIT");
        let gone = RpcError::new(ErrorKind::NotFound, "");
        let errors = [RpcError::unavailable(""), slow, full, limit, gone];
        let continued = errors.each_ref().map(may_be_continued);
        assert_eq!(continued, [true, true, true, false, false]);
    }
}
