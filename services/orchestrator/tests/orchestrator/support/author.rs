//! Journals that a test writes itself, with checkpoints, as an owner would.

use super::journal::for_tenant;
use super::world::World;
use cairn_engine::command::{Command, RunLimits};
use cairn_engine::decide::{Compaction, Facts, Input, ToolFacts};
use cairn_engine::event::{self, Effect, Event, EventKind};
use cairn_engine::rules::Answer;
use cairn_engine::session::Session;
use cairn_proto::convert::encode_event;
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_rpc::Link;
use std::collections::BTreeMap;

const OWNER: &str = "author";
const LEASE_MS: u32 = 600_000;
/// An hour later, every answer has taken effect.
const LATER: u64 = 3_600_000;

/// What is written next.
pub(crate) enum Line {
    Input(Input),
    Later(Input),
    Command(Command),
}

impl From<Input> for Line {
    fn from(input: Input) -> Self {
        Self::Input(input)
    }
}

pub(crate) struct Author {
    journal: JournalServiceClient<Link>,
    id: String,
    session: Session,
    events: Vec<Event>,
    now: u64,
    epoch: u64,
    version: u64,
}

impl Author {
    pub(crate) fn new(world: &World, id: &str) -> Self {
        Self {
            journal: world.journal.0.clone(),
            id: id.to_owned(),
            session: Session::default(),
            events: Vec::new(),
            now: u64::try_from(world.now()).unwrap(),
            epoch: 0,
            version: 0,
        }
    }

    /// All that it wrote; the first is numbered 1.
    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.session.seq
    }

    /// Makes each line a transition; every fiftieth carries a checkpoint.
    pub(crate) async fn write(&mut self, lines: impl IntoIterator<Item = impl Into<Line>>) {
        for line in lines {
            let before = self.session.clone();
            let events = self.decide(line.into());
            self.events.extend(events.iter().cloned());
            if before.seq == 0 {
                self.create(&events).await;
            } else if !events.is_empty() {
                self.commit(&before, &events).await;
            }
        }
    }

    fn decide(&mut self, line: Line) -> Vec<Event> {
        let effects = [
            ("pure", Effect::Pure),
            ("idempotent", Effect::Idempotent),
            ("effectful", Effect::Effectful),
        ];
        let facts = |effect| ToolFacts {
            effect,
            time_limit_ms: 1_000,
            in_process: false,
            default: Answer::Allow,
            ..ToolFacts::default()
        };
        let tools: BTreeMap<_, _> = effects
            .into_iter()
            .map(|(name, effect)| (name.to_owned(), facts(effect)))
            .collect();
        if matches!(line, Line::Later(_)) {
            self.now += LATER;
        }
        let facts = Facts {
            rules: cairn_engine::rules::Rules::none(),
            agents: cairn_engine::decide::Agents::none(),
            now: self.now,
            not_after: self.now,
            tools: &tools,
            away: &[],
            offered: &BTreeMap::new(),
            prompts: cairn_engine::decide::Prompts::built_in(),
            environment: "",
            limits: RunLimits::default(),
            compaction: Compaction::default(),
            result_bytes: cairn_engine::limits::RESULT_BYTES,
            journal_permille: 0,
            responses: |_, _| Ok(String::new()),
            pool: cairn_engine::pool::PoolFacts::none(),
            hooks: &cairn_engine::hooks::PresentHooks::default(),
            starts: true,
            starts_queued: true,
        };
        match line {
            Line::Input(input) | Line::Later(input) => {
                self.session.decide(input, &facts).expect("a legal input")
            }
            Line::Command(command) => {
                let kind = EventKind::CommandReceived(event::CommandReceived {
                    request_id: "r-2".to_owned(),
                    command,
                });
                let event = Event {
                    at: self.now,
                    answers: 0,
                    principal: None,
                    kind,
                };
                let seq = self.session.seq + 1;
                self.session.apply(seq, &event).expect("a command");
                vec![event]
            }
        }
    }

    async fn create(&mut self, events: &[Event]) {
        let request = pb::CreateSessionRequest {
            time_to_live_ms: 0,
            session: self.id.clone(),
            request_id: self.id.clone(),
            request_digest: vec![0; 32].into(),
            events: encoded(events),
            last_command_seq: 2,
            header: Some(self.header(2)),
            owner: OWNER.to_owned(),
            lease_ms: LEASE_MS,
            operation_id: "create".to_owned(),
        };
        let made = self.journal.create_session(for_tenant(request)).await;
        self.epoch = made.expect("it is made").into_inner().epoch;
    }

    async fn commit(&mut self, before: &Session, events: &[Event]) {
        let checkpoint = || pb::Checkpoint {
            through_seq: before.seq,
            state: before.to_checkpoint().expect("a checkpoint").into(),
        };
        let request = pb::CommitRequest {
            session: self.id.clone(),
            owner: OWNER.to_owned(),
            epoch: self.epoch,
            version: self.version,
            operation_id: format!("op-{}", self.version),
            seen_seq: before.seq,
            events: encoded(events),
            header: Some(self.header(before.handled_through)),
            lease_change: pb::LeaseChange::Renew.into(),
            lease_ms: LEASE_MS,
            checkpoint: (self.version % 50 == 49).then(checkpoint),
            ..pb::CommitRequest::default()
        };
        let committed = self.journal.commit(for_tenant(request)).await;
        assert!(committed.expect("it is written").into_inner().owned);
        self.version += 1;
    }

    fn header(&self, handled_through: u64) -> pb::Header {
        pb::Header {
            status: pb::SessionStatus::Running.into(),
            handled_through,
            title: String::new(),
            ..pb::Header::default()
        }
    }
}

fn encoded(events: &[Event]) -> Vec<bytes::Bytes> {
    let encoded = events.iter().map(|event| encode_event(event, 1).into());
    encoded.collect()
}
