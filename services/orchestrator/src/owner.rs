//! The owner of one session: decides, makes durable, and performs what the committed state leaves
//! outstanding. One task a session, one commit in flight.

mod answers;
mod commit;
mod decide;
mod executor_view;
mod facts;
mod grants;
mod hooks;
mod inbox;
mod interrupts;
mod long_results;
mod lost_writes;
mod offers;
mod outstanding;
mod placing;
mod planner;
mod previews;
mod recall;
mod report;
mod reports;
mod retrieve;
mod save_page;
mod skills;
mod start;
mod stream;
mod traced;
mod work;

pub(crate) use facts::facts;
pub(crate) use inbox::Notice;

use crate::deps::Deps;
use crate::dispatch::{Lack, Lacks, Slot};
use crate::key::SessionKey;
use crate::observe::ActiveRun;
use crate::state_bytes::StateBytes;
use crate::store::{Acknowledged, Checkpointer, Loaded, Newer};
use cairn_engine::decide::{Answer, Facts, Input, Previewed};
use cairn_engine::event::{AttemptRef, CallRef, Event};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::limits::FULL_TRANSITION;
use cairn_engine::outstanding::Work;
use cairn_engine::pool::Missing;
use cairn_engine::session::Session;
use cairn_engine::transitions::IllegalTransition;
use cairn_proto::executor::RunStepResponse;
use cairn_proto::planner::MakePlanResponse;
use cairn_rpc::RpcError;
use hooks::{HookMessage, Proceeding};
use inbox::Inbox;
use long_results::Wholes;
use offers::OfKnowledge;
use outstanding::Outstanding;
use placing::{Placed, Waiting, lacking};
use reports::Failures;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::Status;
use work::Active;

/// What an owner's work brings.
#[derive(Debug)]
enum Message {
    /// The planner answered.
    Planned {
        work: Work,
        outcome: Box<Result<MakePlanResponse, Status>>,
    },
    /// An executor reports.
    Report {
        attempt: AttemptRef,
        stream: u64,
        report: Box<RunStepResponse>,
        /// The long results of the report.
        wholes: Wholes,
    },
    /// The stream to an executor ended.
    Broken {
        attempt: AttemptRef,
        stream: u64,
        status: Option<Status>,
    },
    /// The result of a call that the owner answers was found.
    Answered { call: CallRef, answer: Answer },
    /// What a call would change was found.
    Previewed { call: CallRef, outcome: Previewed },
    /// What came of a question to hooks.
    Hooks(HookMessage),
    /// There is a slot for the attempt.
    SlotFree { attempt: AttemptRef, slot: Slot },
    /// The pool lacks what an attempt needs that waits.
    Short {
        attempt: AttemptRef,
        missing: Vec<Missing>,
        /// Of the attempt, if no resource has it.
        lack: Option<Lack>,
    },
    /// The resources of an attempt have lacked for long what it needs.
    CapabilityLost { attempt: AttemptRef, stream: u64 },
    /// There are other resources, or they have other capabilities.
    PoolChanged,
    /// Something is due.
    Tick,
}

impl Message {
    /// The work that it comes from; none for a time that is due.
    fn work(&self) -> Option<Work> {
        match self {
            Self::Planned { work, .. } => Some(*work),
            Self::Report { attempt, .. }
            | Self::Broken { attempt, .. }
            | Self::SlotFree { attempt, .. }
            | Self::Short { attempt, .. }
            | Self::CapabilityLost { attempt, .. } => Some(Work::RunStep(*attempt)),
            Self::Answered { call, .. } => Some(Work::Answer(*call)),
            Self::Previewed { call, .. } => Some(Work::Preview(*call)),
            Self::Hooks(message) => Some(Work::AskHooks(message.gate())),
            Self::Tick | Self::PoolChanged => None,
        }
    }
}

/// Why an owner stops.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing is left to do; the session sleeps.
    Parked {
        /// No run is active: only a request can give it work.
        is_over: bool,
    },
    /// The session was given back for somebody else.
    Released,
    /// The session was claimed, and its state does not fit beside those that are owned here. Its size is not
    /// known until it is read, so it is given back for a while.
    NoRoom,
    /// The session is somebody else's, or gone.
    Fenced,
    /// The store cannot take the transition, or the journal cannot be read.
    Stalled(RpcError),
}

/// The owner of one session.
struct Owner {
    deps: Arc<Deps>,
    key: SessionKey,
    epoch: u64,
    /// Names this owner's transitions: another owner may have the same epoch, in this process too.
    mark: String,
    /// How far the store has come by its answers. A loss that is accepted ends the ownership first.
    acknowledged: Acknowledged,
    /// How full the journal is by the store's last answer, in thousandths of its limits.
    journal_permille: u32,
    session: Session,
    inbox: Inbox,
    active: BTreeMap<Work, Active>,
    /// Attempts whose executors wait for an acknowledgement, with the last number reported.
    reported: BTreeMap<AttemptRef, u64>,
    /// Answers of hooks that change nothing. The executor continues, and each is decided with the next report of its
    /// attempt.
    proceeding: BTreeMap<AttemptRef, Proceeding>,
    /// Others may have changed session memory after the last decision and before it was durable.
    memory_changed: bool,
    next_stream: u64,
    checkpoints: Checkpointer,
    state_bytes: StateBytes,
    /// Slots that are free for attempts that waited.
    slots: BTreeMap<Work, Slot>,
    /// The resources of attempts that have begun since the last transition.
    placed: BTreeMap<AttemptRef, Placed>,
    /// How often the pool had changed when the state was last decided about.
    pool_version: u64,
    /// Changes of the pool are followed.
    follows_pool: bool,
    /// Attempts that wait, and have not reported since.
    waiting: BTreeMap<Work, Waiting>,
    /// Attempts that lack what no resource has.
    lacks: Lacks,
    /// Failures in a row of each piece of work, for waiting longer each time.
    failures: BTreeMap<Work, Failures>,
    active_run: ActiveRun,
    /// Keys of calls that may be under way, while a command may cancel their run.
    calls_under_way: BTreeSet<String>,
    /// What it keeps for the tools for knowledge.
    knowledge: OfKnowledge,
    /// An event of others that a newer process is to read. It is left out of the state, with all after it.
    left_to: Option<Newer>,
}

/// What an owner begins with.
pub(crate) struct Ownership {
    pub(crate) key: SessionKey,
    pub(crate) epoch: u64,
    /// End of the lease by the store's clock.
    pub(crate) lease_until: i64,
    pub(crate) beginning: Beginning,
}

/// How a session comes to its owner.
pub(crate) enum Beginning {
    /// It has just been made here.
    Created(Box<Loaded>),
    /// It was claimed after a crash or a hand-over, and is still to be read.
    TakenOver {
        /// The owner before is proven dead, together with the tools that ran in its process.
        holder_dead: bool,
    },
}

/// Owns a session until it sleeps, is lost or is given back.
pub(crate) async fn own(
    deps: Arc<Deps>,
    ownership: Ownership,
    notices: mpsc::UnboundedReceiver<Notice>,
    state_bytes: StateBytes,
) -> End {
    let key = ownership.key.clone();
    let (end, acknowledged) =
        match Owner::begin(deps.clone(), ownership, notices, state_bytes).await {
            Ok((mut owner, first)) => {
                let Err(end) = owner.run(first).await;
                let acknowledged = owner.acknowledged;
                if matches!(end, End::Parked { .. }) {
                    owner.note_parked();
                    if owner.left_to.is_none() {
                        owner.leave();
                    }
                }
                (end, acknowledged)
            }
            // There is a session, or it could not have been claimed.
            Err(end) => (end, Acknowledged::default()),
        };
    lost_writes::after_end(&deps, &key, acknowledged, end).await
}

impl Owner {
    /// The session sleeps. The last pass over waiting sessions may have come before that, and after the last change of
    /// the pool.
    fn note_parked(&mut self) {
        self.follow_lacks();
        let dispatch = &self.deps.dispatch;
        dispatch.park(&self.key, std::mem::take(&mut self.lacks));
        let lacks_some = lacking(&self.session).next().is_some();
        if lacks_some && dispatch.pool_version() != self.pool_version {
            dispatch.look_again();
        }
    }

    /// Keeps the state for the next who reads the session in this process.
    fn leave(self) {
        // It makes room for what is kept.
        drop(self.state_bytes);
        let loaded = Loaded {
            session: self.session,
            acknowledged: self.acknowledged,
            checkpoints: self.checkpoints,
            journal_permille: self.journal_permille,
        };
        self.deps.store.keep(&self.key, loaded);
    }

    /// Reads the session if need be. The input is what has to be decided before anything else.
    async fn begin(
        deps: Arc<Deps>,
        ownership: Ownership,
        notices: mpsc::UnboundedReceiver<Notice>,
        mut state_bytes: StateBytes,
    ) -> Result<(Self, Option<Input>), End> {
        let key = ownership.key;
        let mut inbox = inbox_of(&deps, ownership.lease_until, notices);
        let (loaded, first) = match ownership.beginning {
            Beginning::Created(loaded) => {
                state_bytes.set(loaded.checkpoints.state_bytes());
                (*loaded, None)
            }
            Beginning::TakenOver { holder_dead } => {
                let mut loaded = inbox
                    .retry_until_lease_ends(|_| deps.store.load(&key))
                    .await?;
                lost_writes::check(&deps, &key, loaded.acknowledged)?;
                loaded.checkpoints.make_if_due(&loaded.session);
                let bytes = loaded.checkpoints.state_bytes();
                if !state_bytes.fit(bytes, deps.config.state_bytes) {
                    return Err(End::NoRoom);
                }
                deps.store.make_room();
                // What it waited for may be there, and not be known here yet.
                if lacking(&loaded.session).next().is_some() {
                    inbox.wait_for(deps.dispatch.known()).await?;
                }
                (loaded, Some(Input::TakenOver { holder_dead }))
            }
        };
        let mut active_run = ActiveRun::of(&loaded.session);
        if active_run.is_traced() {
            let replay = traced::replay(&deps.store, &key, &loaded.session, &mut active_run);
            inbox.wait_for(Box::pin(replay)).await?;
        }
        let owner = Self {
            lacks: deps.dispatch.take_parked(&key),
            deps,
            key,
            epoch: ownership.epoch,
            mark: commit::new_mark(),
            acknowledged: loaded.acknowledged,
            journal_permille: loaded.journal_permille,
            session: loaded.session,
            inbox,
            active: BTreeMap::new(),
            reported: BTreeMap::new(),
            proceeding: BTreeMap::new(),
            memory_changed: false,
            next_stream: 0,
            checkpoints: loaded.checkpoints,
            state_bytes,
            slots: BTreeMap::new(),
            placed: BTreeMap::new(),
            pool_version: 0,
            follows_pool: false,
            waiting: BTreeMap::new(),
            failures: BTreeMap::new(),
            active_run,
            calls_under_way: BTreeSet::new(),
            knowledge: OfKnowledge::default(),
            left_to: None,
        };
        Ok((owner, first))
    }

    async fn run(&mut self, first: Option<Input>) -> Result<Infallible, End> {
        let (mut first, mut reminded) = (first, BTreeSet::new());
        loop {
            self.inbox.drain_notices()?;
            let events = self.decide_all(first.take()).await?;
            let is_full = events.len() >= FULL_TRANSITION;
            let outstanding = match self.make_durable(events).await {
                Err(End::Stalled(error)) if is_limit(&error) => self.end_at_limit(error).await?,
                outstanding => outstanding?,
            };
            // The answer may have been long on its way, or this process asleep.
            if self.inbox.remaining().is_zero() {
                return Err(End::Fenced);
            }
            self.drop_done(&outstanding);
            // What follows lets models be asked, with the memory of this time. A client that writes
            // continuously delays no attempt twice.
            if std::mem::take(&mut self.memory_changed) {
                let mut attempts = self.attempts_to_continue();
                attempts.retain(|attempt| reminded.insert(*attempt));
                if !attempts.is_empty() {
                    first = Some(Input::MemoryChanged { attempts });
                    continue;
                }
            }
            reminded.clear();
            self.note_offers(&outstanding).await?;
            self.perform(&outstanding);
            self.acknowledge(&outstanding);
            self.end_idle_if_stopping();
            self.wait(&outstanding).await?;
            // Reports that fill each transition would keep a person's command waiting as long as they come.
            if is_full && self.answers_commands() {
                first = Some(Input::HandleCommand);
            }
        }
    }

    /// The session is as large as it may become. The run ends, and each command is answered, in the room
    /// that the journal reserves for that. Otherwise each further owner would be refused the same events.
    async fn end_at_limit(&mut self, error: RpcError) -> Result<Outstanding, End> {
        tracing::warn!(session = %self.key, %error, "a limit of the store ends the run");
        // The state here holds what was refused.
        self.reload(&[]).await?;
        let limit = error.metadata("limit").unwrap_or_default();
        let message = format!("the session cannot grow any more: {error}");
        let failure = Failure::new(FailureKind::LimitExceeded, limit, message);
        let deps = self.deps.clone();
        let (catalogue, offered) = (deps.dispatch.catalogue(), self.offered());
        let pool = self.pool_facts();
        // Nothing is started any more.
        let facts = Facts {
            pool: &pool,
            ..self.facts(&deps, &catalogue, &offered)
        };
        let input = Input::LimitReached { failure };
        let events = self.session.decide(input, &facts).map_err(stalled)?;
        if events.is_empty() {
            return Err(End::Stalled(error));
        }
        self.make_durable(events).await
    }

    /// Folds the session again as the store has it, with the events that were decided since.
    async fn reload(&mut self, events: &[Event]) -> Result<(), End> {
        let (store, key) = (&self.deps.store, &self.key);
        let loaded = self
            .inbox
            .retry_until_lease_ends(|_| store.load(key))
            .await?;
        // Another owner has written, or the store has lost writes.
        if loaded.acknowledged != self.acknowledged {
            return Err(End::Fenced);
        }
        self.session = loaded.session;
        self.checkpoints = loaded.checkpoints;
        self.journal_permille = loaded.journal_permille;
        // The events were decided without what others have written since.
        self.memory_changed = true;
        for event in events {
            let seq = self.session.seq + 1;
            self.session.apply(seq, event).map_err(stalled)?;
        }
        Ok(())
    }

    /// Commands are there, and are not left to the next owner.
    fn answers_commands(&self) -> bool {
        !self.session.commands.is_empty() && !self.inbox.is_stopping()
    }

    /// Waits until something is to be decided, or the state has to be looked at.
    async fn wait(&mut self, outstanding: &Outstanding) -> Result<(), End> {
        let continues = self.answers_commands() || self.starts_steps();
        if !continues && !self.may_sleep(outstanding) {
            self.inbox.wait().await?;
        }
        // An attempt that waited for its slot begins with the memory of this time.
        let begins = |(attempt, _)| !self.session.is_tool_step(attempt);
        let asks_model = self.inbox.slots().any(begins);
        if self.inbox.take_woken() || asks_model {
            self.read_others().await?;
        }
        Ok(())
    }

    fn interpret(&mut self, message: Message, inputs: &mut Vec<Input>) {
        if let Message::Report { attempt, .. } | Message::Broken { attempt, .. } = &message {
            inputs.extend(self.take_proceeding(*attempt));
        }
        match message {
            Message::Tick => {
                // The store's clock may have been set back since the timer was set: what is not due yet
                // gets another one.
                self.active
                    .retain(|work, _| !matches!(work, Work::Wake { .. }));
                // What becomes due is for the next owner.
                if !self.inbox.is_stopping() {
                    inputs.push(Input::Tick);
                }
            }
            Message::Planned { work, outcome } => inputs.extend(self.planned(work, *outcome)),
            Message::Report {
                attempt,
                stream,
                report,
                wholes,
            } => self.reported(attempt, stream, (*report, wholes), inputs),
            // One that the state no longer asks for was dropped.
            Message::Answered { call, answer } => {
                if self.active.remove(&Work::Answer(call)).is_some() {
                    inputs.push(Input::Answered { call, answer });
                }
            }
            Message::Previewed { call, outcome } => {
                if self.active.remove(&Work::Preview(call)).is_some() {
                    inputs.push(Input::Previewed { call, outcome });
                }
            }
            Message::Hooks(message) => inputs.extend(self.hooks_message(message)),
            Message::SlotFree { attempt, slot } => self.slot_is_free(attempt, slot, inputs),
            Message::Short {
                attempt,
                missing,
                lack,
            } => inputs.push(self.note_shortage(attempt, missing, lack)),
            Message::CapabilityLost { attempt, stream } => self.capability_lost(attempt, stream),
            // It is looked at before each decision.
            Message::PoolChanged => {}
            Message::Broken {
                attempt,
                stream,
                status,
            } => inputs.extend(self.broken(attempt, stream, status.as_ref())),
        }
    }
}

/// What an owner gets, whose lease ends then by the store's clock.
fn inbox_of(deps: &Deps, until: i64, notices: mpsc::UnboundedReceiver<Notice>) -> Inbox {
    let clock = deps.store.clock.clone();
    let inbox = Inbox::new(clock, deps.config.lease, until, notices);
    inbox.trust(deps.config.trusts_leases())
}

/// The store refuses what is decided, and will refuse it from every owner. A full disk is another
/// matter: it may have room again.
fn is_limit(error: &RpcError) -> bool {
    let limit = error.metadata("limit").filter(|limit| *limit != "disk");
    error.reason_name() == "LIMIT" && limit.is_some()
}

/// A fault of the program, or a journal that was tampered with.
fn stalled(illegal: IllegalTransition) -> End {
    End::Stalled(RpcError::internal(illegal))
}
