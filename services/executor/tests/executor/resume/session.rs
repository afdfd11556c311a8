//! A session with its journal, as its owner has it. The engine decides and folds.

use super::script::{Change, Moment, Script, earlier, person_says};
use super::sent::Sent;
use crate::owner::model_step;
use cairn_engine::command::{
    ChangeContext, Command, ContextOp, Decide, LimitOverrides, RunLimits, SendMessage, Settlement,
    StartRun, SubmitTurn, TurnOptions,
};
use cairn_engine::conversation::{
    CompactedMessages, CompactionKind, Conversation, ConversationRef, Entry, Op,
};
use cairn_engine::decide::{Compaction, Facts, Input, Reply, ToolFacts, ToolList};
use cairn_engine::event::{
    AttemptRef, CommandReceived, ContextChanged, ContextCompacted, Effect, Event, EventKind,
};
use cairn_engine::hooks::PresentHooks;
use cairn_engine::message::{Role, Usage};
use cairn_engine::pending::{Asked, Pending, pending};
use cairn_engine::plan::{PlanDraft, StepDraft};
use cairn_engine::rules::{Answer, Rules};
use cairn_engine::session::{Attempt, Session, StepNo};
use cairn_proto::convert::Reported;
use cairn_proto::executor::{Acknowledgement, AttemptStart, RunStepResponse};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The only attempt of the session.
const ATTEMPT: AttemptRef = AttemptRef {
    run: 1,
    step: StepNo::new(1),
    attempt: 1,
};
const NOW: u64 = 1_000;

static TOOLS: LazyLock<ToolList> = LazyLock::new(|| {
    let tool = |name: &str, effect, default| {
        let facts = ToolFacts {
            effect,
            default,
            // A call that was on its way when the owner died can no longer be running.
            in_process: true,
            ..ToolFacts::default()
        };
        (name.to_owned(), facts)
    };
    ToolList::from([
        tool("look", Effect::Pure, Answer::Allow),
        tool("peek", Effect::Pure, Answer::Ask),
        tool("put", Effect::Idempotent, Answer::Allow),
        tool("send", Effect::Effectful, Answer::Allow),
    ])
});

fn facts() -> Facts<'static> {
    static OFFERED: BTreeMap<AttemptRef, Arc<ToolList>> = BTreeMap::new();
    static HOOKS: PresentHooks = PresentHooks(Vec::new());
    Facts {
        now: NOW,
        not_after: NOW + 1_000,
        tools: &TOOLS,
        away: &[],
        offered: &OFFERED,
        rules: Rules::none(),
        agents: cairn_engine::decide::Agents::none(),
        prompts: cairn_engine::decide::Prompts::built_in(),
        environment: "",
        limits: RunLimits::default(),
        result_bytes: cairn_engine::limits::RESULT_BYTES,
        journal_permille: 0,
        compaction: Compaction::default(),
        responses: |_, _| Ok(String::new()),
        pool: cairn_engine::pool::PoolFacts::none(),
        hooks: &HOOKS,
        starts: true,
        starts_queued: true,
    }
}

#[derive(Debug, Default)]
pub(crate) struct OwnedSession {
    session: Session,
    pub(super) journal: Vec<Transition>,
    sent: Sent,
}

/// Events that became durable together.
#[derive(Debug, Clone)]
pub(super) struct Transition {
    events: Vec<Event>,
    /// It begins a change of the script.
    is_change: bool,
}

impl OwnedSession {
    /// A session whose attempt has just begun.
    pub(super) fn new(script: &Script) -> Self {
        match script.is_conversation {
            true => Self::of_turn(),
            false => Self::of_step(),
        }
    }

    /// The same, for a turn of a conversation.
    fn of_turn() -> Self {
        let mut owned = Self::created();
        owned.command(ChangeContext {
            ops: earlier().into_iter().map(ContextOp::Append).collect(),
            ..ChangeContext::default()
        });
        owned.command(SubmitTurn {
            message: Some(person_says(201, true)),
            options: TurnOptions {
                temperature_milli: Some(500),
                max_tool_turns: Some(100),
                ..TurnOptions::default()
            },
            ..SubmitTurn::default()
        });
        owned
    }

    /// The same, for a step of a plan.
    pub(crate) fn of_step() -> Self {
        let mut owned = Self::created();
        let step = StepDraft {
            description: "Do it.".to_owned(),
            ..StepDraft::default()
        };
        owned.command(StartRun {
            plan: Some(PlanDraft {
                steps: vec![step],
                ..PlanDraft::default()
            }),
            limits: LimitOverrides {
                max_tool_turns: 100,
                ..LimitOverrides::default()
            },
            ..StartRun::default()
        });
        owned
    }

    fn created() -> Self {
        let mut owned = Self::default();
        owned.decide(Input::Create {
            title: "resumed".to_owned(),
            time_to_live_ms: 0,
            principal: None,
            command: None,
        });
        owned
    }

    /// The session of this journal, after its owner and its executor have died.
    pub(super) fn taken_over(journal: &[Transition]) -> Self {
        let mut owned = Self {
            session: fold(journal, |_, _| {}),
            journal: journal.to_vec(),
            sent: Sent::default(),
        };
        owned.decide(Input::TakenOver { holder_dead: true });
        owned
    }

    /// What the model was asked for each reply, as the journal has it: the number of the last change, and
    /// the conversation with it.
    pub(super) fn questions(&self) -> Vec<(u64, Conversation)> {
        let mut questions = Vec::new();
        fold(&self.journal, |session, event| {
            if let EventKind::ReplyReceived(reply) = &event.kind {
                let mut conversation = session.conversation(ATTEMPT).expect("a conversation");
                conversation.behind.pop();
                questions.push((reply.ops_through, conversation));
            }
        });
        questions
    }

    /// The number of the next tool turn.
    pub(super) fn turn(&self) -> usize {
        self.attempt().tool_turns as usize
    }

    /// The arguments of the last reply's calls that have ended.
    pub(super) fn ended_calls(&self) -> Vec<String> {
        let calls = self.attempt().calls.iter();
        let ended = calls.filter(|call| call.is_finished());
        ended.map(|call| call.call.arguments.clone()).collect()
    }

    fn attempt(&self) -> &Attempt {
        let attempt = self.session.attempt(ATTEMPT);
        attempt.expect("the attempt is under way")
    }

    /// What is known of the model, in thousandths of the estimate.
    pub(crate) fn estimate_permille(&self) -> u32 {
        self.session.estimates.of("").permille
    }

    /// All but the last replies of the step, and their results, give way to a text.
    pub(crate) fn compact(&mut self, kept: usize, text: &str) {
        let conversation = self.session.conversation(ATTEMPT);
        let said = conversation.expect("a conversation").behind;
        let is_reply = |entry: &&Entry| entry.message.role == Role::Assistant;
        let replies = said.iter().rev().filter(is_reply).take(kept);
        let first_kept = replies.last().expect("replies").number;
        let gone = said.iter().take_while(|entry| entry.number != first_kept);
        let through = gone.last().expect("older replies").number;
        let messages = CompactedMessages {
            behind_mark: true,
            through,
            ..CompactedMessages::default()
        };
        let compacted = ContextCompacted {
            attempt: ATTEMPT,
            context: String::new(),
            messages,
            kind: CompactionKind::History,
            text: text.to_owned(),
            usage: Usage::default(),
            provider: String::new(),
            model: String::new(),
            duration_ms: 0,
            version: 0,
            replaced: 1,
            tokens_before: 1,
            tokens_after: 1,
        };
        self.write(compacted, false);
    }

    /// What the attempt begins or continues with.
    pub(crate) fn start(&mut self) -> AttemptStart {
        self.sent = Sent::default();
        let changes = self.changes();
        let (attempt, turn) = (self.attempt(), self.session.turn(ATTEMPT));
        AttemptStart {
            attempt: Some(ATTEMPT.into()),
            conversation: self.session.conversation(ATTEMPT).map(Into::into),
            tool_turns: attempt.tool_turns,
            results: changes.results,
            open_calls: changes.permitted_calls,
            held_calls: changes.held_calls,
            max_tool_turns: u32::MAX,
            ops: changes.ops,
            ops_through: attempt.ops_through,
            options: turn.map(|turn| turn.options.clone().into()),
            ..model_step()
        }
    }

    /// Makes a report durable. One of a request that takes too much of the window changes nothing.
    pub(crate) fn take(&mut self, report: RunStepResponse) -> Acknowledgement {
        assert_eq!(report.failure, None);
        let results = report.results.into_iter().map(|result| {
            let call = result.call.expect("a call");
            // What the model gets of media is the owner's to say.
            if result.media.is_empty() {
                self.sent.knows_end_of(call);
            }
            match Reported::try_from(result).expect("a result") {
                Reported::Finished(result) => result,
                Reported::Unfinished(call) => panic!("it has not ended: {call:?}"),
            }
        });
        let results = results.collect();
        let reply = report.reply.map(|reply| Reply::try_from(*reply));
        self.decide(Input::Report {
            attempt: ATTEMPT,
            results,
            unfinished: Vec::new(),
            reply: reply.transpose().expect("a reply"),
            failure: None,
            full: None,
            summary: None,
            retry: None,
        });
        Acknowledgement {
            through_number: report.number,
            ..self.changes()
        }
    }

    /// Makes the changes that the script has up to this moment, if any are left.
    pub(super) fn change(&mut self, script: &Script, now: Moment) -> Option<Acknowledgement> {
        let made = self.journal.iter().filter(|it| it.is_change).count();
        let due = script.changes().skip(made);
        let due: Vec<_> = due.take_while(|(at, _)| *at <= now).collect();
        for (_, change) in &due {
            match change {
                Change::Steering(message) => {
                    let (step, message) = (None, message.clone());
                    self.receive(SendMessage { step, message }, true);
                    self.decide(Input::HandleCommand);
                }
                Change::Op(op) => self.write(changed(op.clone()), true),
            }
        }
        (!due.is_empty()).then(|| self.changes())
    }

    /// What a person is asked.
    pub(super) fn question(&self) -> Option<Pending> {
        let mut open = pending(&self.session).into_iter();
        open.find(|open| !open.is_answered)
    }

    /// A person answers: of one call always the same.
    pub(super) fn answer(&mut self) -> Acknowledgement {
        let question = self.question().expect("a question");
        let settlement = match &question.asked {
            Asked::Doubt { .. } => Settlement::Retry,
            Asked::Approval { name, .. } if name.index.is_multiple_of(2) => Settlement::Approve,
            Asked::Approval { .. } => Settlement::Deny {
                reason: "not today".to_owned(),
            },
            Asked::Question { .. } => Settlement::Answer {
                text: "Blue.".to_owned(),
            },
            Asked::Budget { .. }
            | Asked::Plan { .. }
            | Asked::Context { .. }
            | Asked::Hook { .. }
            | Asked::Shortage { .. } => {
                panic!("{question:?}")
            }
        };
        self.command(Decide {
            pending_id: question.id().to_string(),
            settlement,
        });
        self.changes()
    }

    fn command(&mut self, command: impl Into<Command>) {
        self.receive(command, false);
        self.decide(Input::HandleCommand);
    }

    fn receive(&mut self, command: impl Into<Command>, is_change: bool) {
        let received = CommandReceived {
            request_id: format!("request-{}", self.session.seq),
            command: command.into(),
        };
        self.write(received, is_change);
    }

    /// Writes an event that the engine did not decide.
    fn write(&mut self, kind: impl Into<EventKind>, is_change: bool) {
        let event = Event {
            at: NOW,
            answers: 0,
            principal: None,
            kind: kind.into(),
        };
        let seq = self.session.seq + 1;
        self.session.apply(seq, &event).expect("it fits");
        self.journal.push(Transition {
            events: vec![event],
            is_change,
        });
    }

    fn decide(&mut self, input: Input) {
        let events = self.session.decide(input, &facts()).expect("it fits");
        let is_refusal = |event: &&Event| matches!(event.kind, EventKind::CommandRefused(_));
        assert_eq!(events.iter().find(is_refusal), None);
        if !events.is_empty() {
            self.journal.push(Transition {
                events,
                is_change: false,
            });
        }
    }

    /// What the executor does not know yet.
    fn changes(&mut self) -> Acknowledgement {
        let attempt = self.session.attempt(ATTEMPT);
        let attempt = attempt.expect("the attempt is under way");
        self.sent.changes(ATTEMPT, attempt)
    }
}

fn changed(op: Op) -> ContextChanged {
    ContextChanged {
        conversation: ConversationRef::Attempt(ATTEMPT),
        ops: vec![op],
        version: 0,
        popped: None,
        is_steering: false,
    }
}

/// The state after all events of the journal. Each is shown with the state after it.
fn fold(journal: &[Transition], mut show: impl FnMut(&Session, &Event)) -> Session {
    let mut session = Session::default();
    for event in journal.iter().flat_map(|it| &it.events) {
        let seq = session.seq + 1;
        session.apply(seq, event).expect("it fits");
        show(&session, event);
    }
    session
}
