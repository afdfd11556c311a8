//! The owner of one session: decides, makes durable, and performs what the committed state leaves
//! outstanding. One task a session, one commit in flight.

mod attempt;
mod checkpoint;
mod perform;
mod reports;
mod transition;

pub(crate) use transition::header;

use crate::deps::Deps;
use crate::key::SessionKey;
use crate::store::Loaded;
use cairn_engine::decide::{Facts, Input};
use cairn_engine::event::{AttemptRef, Event};
use cairn_engine::outstanding::Work;
use cairn_engine::state::Session;
use cairn_engine::transitions::IllegalTransition;
use cairn_proto::executor::RunStepResponse;
use cairn_proto::planner::MakePlanResponse;
use cairn_rpc::RpcError;
pub(crate) use checkpoint::Checkpointer;
use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use perform::Active;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::Status;

/// Most messages that one transition takes in.
const LARGEST_BATCH: usize = 128;

/// What reaches an owner.
#[derive(Debug)]
pub(crate) enum Message {
    /// There may be commands that it has not seen.
    Woken,
    /// The lease was renewed until then, by the store's clock.
    Renewed(i64),
    /// The session is somebody else's, or gone.
    Lost,
    /// The process is about to end: begin nothing, and let go.
    Stop,
    /// The planner answered.
    Planned {
        run: u32,
        outcome: Box<Result<MakePlanResponse, Status>>,
    },
    /// An executor reports.
    Report {
        attempt: AttemptRef,
        stream: u64,
        report: Box<RunStepResponse>,
    },
    /// The stream to an executor ended.
    Broken {
        attempt: AttemptRef,
        stream: u64,
        status: Option<Status>,
    },
    /// Something is due.
    Tick,
}

/// Why an owner stops.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing is left to do; the session sleeps.
    Parked,
    /// The session was given back for somebody else.
    Released,
    /// The session is somebody else's, or gone.
    Fenced,
    /// The store cannot take the transition, or the journal cannot be read.
    Stalled(RpcError),
}

/// The owner of one session.
pub(crate) struct Owner {
    deps: Arc<Deps>,
    key: SessionKey,
    epoch: u64,
    version: u64,
    session: Session,
    lease_until: i64,
    inbox: mpsc::UnboundedReceiver<Message>,
    work: SelectAll<BoxStream<'static, Message>>,
    active: HashMap<Work, Active>,
    /// Attempts whose executors wait for an acknowledgement, with the last number reported.
    reported: HashMap<AttemptRef, u64>,
    next_stream: u64,
    checkpoints: Checkpointer,
    /// Failures in a row of each piece of work, for waiting longer each time.
    failures: HashMap<Work, u32>,
    is_stopping: bool,
}

/// What an owner begins with.
pub(crate) struct Ownership {
    pub(crate) key: SessionKey,
    pub(crate) epoch: u64,
    pub(crate) lease_until: i64,
    pub(crate) loaded: Loaded,
}

impl Owner {
    pub(crate) fn new(
        deps: Arc<Deps>,
        ownership: Ownership,
        inbox: mpsc::UnboundedReceiver<Message>,
    ) -> Self {
        Self {
            deps,
            key: ownership.key,
            epoch: ownership.epoch,
            version: ownership.loaded.version,
            session: ownership.loaded.session,
            lease_until: ownership.lease_until,
            inbox,
            work: SelectAll::new(),
            active: HashMap::new(),
            reported: HashMap::new(),
            next_stream: 0,
            checkpoints: ownership.loaded.checkpoints,
            failures: HashMap::new(),
            is_stopping: false,
        }
    }

    /// Owns the session until it sleeps, is lost or is given back. `first` is what the owner has
    /// to decide before anything else: nothing for a session that it has just created.
    pub(crate) async fn run(mut self, first: Option<Input>) -> End {
        let mut batch = Vec::new();
        let mut inputs: Vec<Input> = first.into_iter().collect();
        loop {
            let events = match self.decide_all(inputs) {
                Ok(events) => events,
                Err(illegal) => return End::Stalled(RpcError::internal(illegal)),
            };
            if let Err(end) = self.make_durable(events, &mut batch).await {
                if matches!(end, End::Parked) {
                    self.acknowledge();
                }
                return end;
            }
            self.perform();
            self.acknowledge();
            inputs = match self.next_inputs(&mut batch).await {
                Ok(inputs) => inputs,
                Err(end) => return end,
            };
        }
    }

    fn decide_all(&mut self, inputs: Vec<Input>) -> Result<Vec<Event>, IllegalTransition> {
        let catalogue = self.deps.catalogue();
        let facts = Facts {
            now: self.deps.store.clock.now(),
            not_after: u64::try_from(self.not_after()).unwrap_or(0),
            tools: &catalogue.facts,
            limits: self.deps.config.limits,
            starts: !self.is_stopping,
        };
        let mut events = Vec::new();
        for input in inputs {
            let reported = match &input {
                Input::Report { attempt, .. } => Some(*attempt),
                _ => None,
            };
            match (self.session.decide(input, &facts), reported) {
                (Ok(mut decided), _) => events.append(&mut decided),
                // A report that contradicts the state was not taken: its executor goes, not the
                // session.
                (Err(illegal), Some(attempt)) => {
                    tracing::error!(session = %self.key, %illegal, "a report is dropped");
                    self.active.remove(&Work::RunStep(attempt));
                    self.reported.remove(&attempt);
                    let lost = Input::AttemptLost { attempt };
                    events.append(&mut self.session.decide(lost, &facts)?);
                }
                (Err(illegal), None) => return Err(illegal),
            }
        }
        while !self.is_stopping && !self.session.commands.is_empty() {
            events.append(&mut self.session.decide(Input::HandleCommand, &facts)?);
        }
        Ok(events)
    }

    /// Waits for messages and says what they mean. Empty if only the state has to be looked at.
    async fn next_inputs(&mut self, batch: &mut Vec<Message>) -> Result<Vec<Input>, End> {
        if batch.is_empty() && self.session.commands.is_empty() && !self.is_done() {
            let lease_left = self.lease_left();
            tokio::select! {
                Some(message) = self.work.next(), if !self.work.is_empty() => batch.push(message),
                Some(message) = self.inbox.recv() => batch.push(message),
                () = tokio::time::sleep(lease_left) => return Err(End::Fenced),
            }
        }
        while batch.len() < LARGEST_BATCH
            && let Ok(message) = self.inbox.try_recv()
        {
            batch.push(message);
        }
        let mut inputs = Vec::new();
        let mut may_be_behind = false;
        for message in batch.drain(..) {
            may_be_behind |= matches!(message, Message::Woken);
            inputs.extend(self.interpret(message)?);
        }
        if may_be_behind {
            self.read_others().await?;
        }
        Ok(inputs)
    }

    /// No call with side effects may begin after this, by the store's clock: the lease's end, less a
    /// fifth.
    fn not_after(&self) -> i64 {
        self.lease_until - i64::from(self.deps.config.lease_ms()) / 5
    }

    /// How long work may go on without a renewal: executors are to stop before others may begin.
    fn lease_left(&self) -> Duration {
        let until = u64::try_from(self.lease_until).unwrap_or(0);
        let left = Duration::from_millis(until.saturating_sub(self.deps.store.clock.now()));
        left.saturating_sub(self.deps.config.lease / 10)
    }

    fn interpret(&mut self, message: Message) -> Result<Option<Input>, End> {
        match message {
            Message::Woken => Ok(None),
            Message::Renewed(until) => {
                self.lease_until = self.lease_until.max(until);
                Ok(None)
            }
            Message::Lost => Err(End::Fenced),
            Message::Stop => {
                self.is_stopping = true;
                Ok(None)
            }
            Message::Tick => Ok(Some(Input::Tick)),
            Message::Planned { run, outcome } => Ok(self.planned(run, *outcome)),
            Message::Report {
                attempt,
                stream,
                report,
            } => Ok(self.reported(attempt, stream, *report)),
            Message::Broken {
                attempt,
                stream,
                status,
            } => Ok(self.broken(attempt, stream, status.as_ref())),
        }
    }
}
